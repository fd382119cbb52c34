from __future__ import annotations

import math
from itertools import pairwise

import pytest

from deltasnap_core.store.format.change_sets import ChangePolicy

POLICY = ChangePolicy(base_fraction=0.25, least_rows=100, fan_in=4)


@pytest.mark.parametrize(
    ("base_rows", "change_rows", "expected"),
    [(0, 99, False), (0, 100, True), (1000, 249, False), (1000, 250, True), (100, 100, True)],
)
def test_base_is_due_at_the_fraction_but_not_below_the_minimum(
    base_rows: int, change_rows: int, expected: bool
) -> None:
    assert POLICY.is_base_due(base_rows=base_rows, change_rows=change_rows) is expected


@pytest.mark.parametrize(
    ("earlier", "new", "expected"),
    [
        ([], 3, 0),
        ([3, 3], 3, 0),
        ([3, 3, 3], 3, 3),
        ([50, 3, 3, 3], 3, 3),
        ([12, 12, 12, 3, 3, 3], 3, 6),
        ([200, 3, 3], 60, 0),
        ([5, 5, 5], 20, 3),
    ],
    ids=["none", "few", "enough", "larger before", "cascade", "large new", "small before large"],
)
def test_sets_of_one_size_are_merged(earlier: list[int], new: int, expected: int) -> None:
    assert POLICY.sets_to_merge(earlier, new) == expected


def test_default_policy_keeps_seven_sets_and_a_quarter_of_the_base() -> None:
    policy = ChangePolicy()
    assert [policy.sets_to_merge([1] * sets, 1) for sets in (6, 7)] == [0, 7]
    assert [policy.is_base_due(base_rows=0, change_rows=rows) for rows in (9_999, 10_000)] == [False, True]
    assert [policy.is_base_due(base_rows=80_000, change_rows=rows) for rows in (19_999, 20_000)] == [False, True]


def test_rewritten_sets_and_rows_grow_only_logarithmically() -> None:
    policy, sets, written, versions = ChangePolicy(fan_in=8), list[int](), 0, 5000
    most = 0
    for _ in range(versions):
        merged = policy.sets_to_merge(sets, 20)
        size = 20 + sum(sets[len(sets) - merged :])
        sets[len(sets) - merged :] = [size]
        written += size
        most = max(most, len(sets))
    levels = math.log(versions, 8) + 2
    assert sum(sets) == 20 * versions
    assert most <= 7 * levels
    assert written / (20 * versions) <= levels


def test_bases_cost_each_changed_row_a_constant() -> None:
    policy, files, bases, since = ChangePolicy(), 1_000_000, 1, 0
    rows = 0
    for _ in range(100_000):
        since += 20
        if policy.is_base_due(base_rows=files, change_rows=since):
            bases, since, rows = bases + 1, 0, rows + files
    assert rows / (20 * 100_000) <= 1 / policy.base_fraction


@pytest.mark.parametrize("arguments", [{"fan_in": 1}, {"base_fraction": 0}, {"least_rows": -1}])
def test_invalid_policy_is_rejected(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected a positive fraction"):
        ChangePolicy(**arguments)  # type: ignore[arg-type]


def test_size_classes_never_fall_as_rows_grow() -> None:
    sizes = [POLICY._size_class(rows) for rows in range(1000)]
    assert all(smaller <= larger for smaller, larger in pairwise(sizes))


def test_smallest_policy_writes_a_base_for_any_change() -> None:
    policy = ChangePolicy(least_rows=0, base_fraction=1e-9, fan_in=2)
    assert policy.is_base_due(base_rows=1_000, change_rows=1)
    assert policy.sets_to_merge([1], 1) == 1
