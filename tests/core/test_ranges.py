from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from deltasnap_core.ranges import VersionRanges, contiguous_runs

NUMBERS = st.sets(st.integers(0, 30))


@given(NUMBERS)
def test_ranges_are_the_sequence_of_their_versions(numbers: set[int]) -> None:
    plain = tuple(sorted(numbers))
    ranges = VersionRanges.of(numbers)
    assert ranges == plain
    assert (tuple(ranges), len(ranges), bool(ranges)) == (plain, len(plain), bool(plain))
    assert [ranges[place] for place in range(-len(plain), len(plain))] == [*plain, *plain]
    assert ranges[2:5] == plain[2:5]
    assert [number in ranges for number in range(32)] == [number in numbers for number in range(32)]
    assert ranges == VersionRanges.of(list(plain))
    with pytest.raises(IndexError):
        ranges[len(plain)]


def test_ranges_equal_only_the_same_versions() -> None:
    ranges = VersionRanges.of({1, 2, 5})
    assert [ranges == other for other in ((1, 2, 5), (1, 2, 6), (1, 2), (1, 2, 5, 6), [1, 2, 5], "125")] == [
        True, False, False, False, True, False
    ]  # fmt: skip


@given(NUMBERS, st.integers(0, 30), st.integers(-1, 30))
def test_ranges_between_contain_the_missing_versions(present: set[int], first: int, last: int) -> None:
    expected = tuple(number for number in range(first, last + 1) if number not in present)
    assert VersionRanges.between(first, last, present) == expected


def test_ranges_of_any_width_cost_their_runs() -> None:
    ranges = VersionRanges.between(0, 2**63 - 2, [2**53])
    assert ranges.runs == ((0, 2**53 - 1), (2**53 + 1, 2**63 - 2))
    assert len(ranges) == 2**63 - 2
    assert (ranges[2**53], ranges[-1], 2**53 in ranges) == (2**53 + 1, 2**63 - 2, False)
    assert ranges.text() == "0 to 9007199254740991, 9007199254740993 to 9223372036854775806"
    assert VersionRanges.of(range(2**62)).runs == ((0, 2**62 - 1),)
    assert VersionRanges.of(range(0)) == ()
    assert ranges != "text"


def test_runs_are_split_at_the_given_versions() -> None:
    assert list(contiguous_runs([])) == []
    assert list(contiguous_runs([0, 1, 4, 5, 9])) == [(0, 1), (4, 5), (9, 9)]
    assert list(contiguous_runs([0, 1, 2], follows=lambda earlier, later: later != 2)) == [(0, 1), (2, 2)]
