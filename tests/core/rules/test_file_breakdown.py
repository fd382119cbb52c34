"""FileBreakdown: its rules, and the law breakdown(x) + changes(x, y) = breakdown(y) for plain values."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasnap_core.rules.totals.aggregates import InconsistentBreakdownError
from deltasnap_core.rules.totals.file_breakdown import (
    NEGATIVE_SIZE,
    FileBreakdown,
    FileGroup,
    RankedFiles,
    bin_grouping_sql,
    partition_of,
    size_bin,
)
from deltasnap_core.rules.totals.tombstone_times import TombstoneSums, TombstoneTimes
from tests.plain_sql import evaluated

LARGEST = (1 << 63) - 1
MAX_PARTITIONS, MAX_RANKED_FILES, MAX_TIMES = 5_000, 50, 200_000
"""The documented limits."""


def file(name: object, size: int = 1, *, sign: int = 1, **values: str | None) -> FileGroup:
    return FileGroup.of_file(str(name), size, values.items(), sign=sign)


def gone(deleted_at: int, size: int | None = None, *, sign: int = 1) -> FileGroup:
    return FileGroup.of_tombstone(deleted_at, size, sign=sign)


@pytest.mark.parametrize(
    ("size", "number"),
    [(-1, NEGATIVE_SIZE), (0, 0), (1, 0), (2, 4), (3, 6), (4, 8), (1023, 39), (1024, 40), (1217, 40), (1218, 41)],
)
def test_four_bins_double_the_size(size: int, number: int) -> None:
    assert size_bin(size) == number


def test_bins_start_at_exact_powers() -> None:
    for doubling in range(1, 63):
        assert (size_bin((1 << doubling) - 1), size_bin(1 << doubling))[1] == doubling * 4
        assert size_bin((1 << doubling) - 1) < doubling * 4
    assert size_bin(LARGEST) == 251


def test_bins_in_sql_are_those_of_the_driver() -> None:
    sql, _, name = bin_grouping_sql()[0].rpartition(" as ")
    found = re.search(r"get\(array\((.+?)\), ", sql)
    assert (name, found is not None) == ("size_bin", True)
    assert found is not None
    starts = [int(start.removesuffix("L")) for start in found[1].split(", ")]
    known = {"start_of": lambda number: starts[number] if 0 <= number < len(starts) else None}
    shorter = sql.replace(found[0], "start_of(")  # SQLite has no arrays
    assert len(starts) == 252
    assert all(size_bin(start) >= number > size_bin(start - 1) for number, start in enumerate(starts) if number)
    for size in (-5, -1, 0, LARGEST, *(start + step for start in starts[::5] for step in (-1, 0, 1) if start + step)):
        assert evaluated(shorter, functions=known, size=size) == size_bin(size), size
    assert evaluated(shorter, functions=known, size=None) is None


def test_group_of_a_row_has_its_files_in_a_bin_and_a_partition() -> None:
    row = {"rows": 2, "high_bytes": 1, "low_bytes": 5, "without_size": None, "removed_at": None, "size_bin": 9}
    values = [{"key": "b", "value": None}, {"key": "a", "value": "1"}]
    assert FileGroup.of_row({**row, "partition": values}) == FileGroup(
        size_bin=9, partition=(("a", "1"), ("b", None)), files=2, size=(1 << 32) + 5
    )
    assert FileGroup.of_row({**row, "size_bin": None}).size_bin == NEGATIVE_SIZE


def test_group_of_a_row_with_one_file_has_the_file_and_the_bin_of_its_size() -> None:
    row = {"rows": -1, "high_bytes": None, "low_bytes": -4, "without_size": 0, "removed_at": None, "partition": None}
    found = FileGroup.of_row({**row, "file_path": "a", "file_size": 4})
    assert found == FileGroup(size_bin=8, files=-1, size=-4, file=("a", 4))


def test_group_of_a_row_of_tombstones_has_their_time() -> None:
    row = {"rows": 3, "high_bytes": 0, "low_bytes": 7, "without_size": 1, "removed_at": 5, "size_bin": None}
    found = FileGroup.of_row(row)
    assert (found.deleted_at, found.files, found.size, found.without_size, found.file) == (5, 3, 7, 1, None)


def test_partition_has_each_name_once_in_order_with_its_first_value() -> None:
    assert partition_of([("b", None), ("a", "2"), ("a", "3"), ("a", "1")]) == (("a", "2"), ("b", None))
    assert partition_of([("a", None), ("a", "")]) == partition_of([("a", "")]) == (("a", None),)
    assert partition_of([]) == ()


def test_breakdown_counts_files_and_tombstones_by_group() -> None:
    found = FileBreakdown.of(
        [file("a", 5, day="1"), file("b", 5, day="2"), file("c", 0, day="1"), gone(7, 4), gone(7), gone(0, 2)]
    )
    assert found.sizes == {0: (1, 0), 9: (2, 10)}
    assert found.partitions == {(("day", "1"),): (2, 5), (("day", "2"),): (1, 5)}
    assert list((found.deletions or {}).items()) == [(0, (1, 2, 0)), (7, (2, 4, 1))]
    assert found.largest.files == (("a", 5), ("b", 5), ("c", 0))
    assert found.smallest.files == (("c", 0), ("a", 5), ("b", 5))
    found.check(num_of_files=3, size_in_bytes=10, num_of_removes=3)
    for wrong in ({"num_of_files": 4}, {"size_in_bytes": 9}, {"num_of_removes": 2}):
        with pytest.raises(InconsistentBreakdownError):
            found.check(**{"num_of_files": 3, "size_in_bytes": 10, "num_of_removes": 3} | wrong)
    with pytest.raises(InconsistentBreakdownError):
        replace(found, partitions={}, num_partitions=0).check(num_of_files=3, size_in_bytes=10, num_of_removes=3)


files = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 30), st.sampled_from("xy")), max_size=150)


@given(before=files, added=files, removed=st.integers(0, 200), times=st.lists(st.integers(0, 3), max_size=9))
def test_breakdown_plus_changes_equals_the_breakdown_of_the_later_files(
    before: list[tuple[int, int, str]], added: list[tuple[int, int, str]], removed: int, times: list[int]
) -> None:
    taken = before[: min(removed, len(before))]
    after = before[len(taken) :] + added
    changes = [file(name, size, p=value) for name, size, value in added]
    changes += [file(name, size, p=value, sign=-1) for name, size, value in taken]
    changes += [gone(time) for time in times]
    start = FileBreakdown.of(file(name, size, p=value) for name, size, value in before)
    found = start.updated(changes)
    expected = FileBreakdown.of([*(file(name, size, p=value) for name, size, value in after), *map(gone, times)])
    if found is None:
        # Too many of the largest or smallest files were removed.
        assert len(before) > MAX_RANKED_FILES
        assert len(taken) > MAX_RANKED_FILES - 5
        return
    for name in ("sizes", "partitions", "num_partitions", "deletions"):
        assert getattr(found, name) == getattr(expected, name)
    for mine, counted in ((found.largest, expected.largest), (found.smallest, expected.smallest)):
        assert mine.files[:5] == counted.files[:5]
        shorter = min(len(mine.files), len(counted.files))
        assert mine.files[:shorter] == counted.files[:shorter]


def test_removal_of_a_file_that_was_not_counted_is_an_error() -> None:
    start = FileBreakdown.of([file("a", 5)])
    for change in (file("b", 5, sign=-1), file("a", 5, day="1", sign=-1), gone(1, sign=-1)):
        with pytest.raises(InconsistentBreakdownError):
            start.updated([change])
    with pytest.raises(InconsistentBreakdownError):
        start.updated([replace(file("a", 5, sign=-1), size=-4)])


@pytest.mark.parametrize("wrong", [(0, 1, 0), (0, 0, 1), (-1, 0, 0)], ids=["size", "files without a size", "files"])
def test_tombstone_sums_without_tombstones_are_an_error(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(InconsistentBreakdownError):
        TombstoneTimes.of([(7, TombstoneSums(*wrong))])
    assert len(TombstoneTimes.of([(7, TombstoneSums(1, 5, 0)), (7, TombstoneSums(-1, -5, 0))])) == 0


def test_ranked_files_are_counted_again_when_too_few_are_left() -> None:
    all_files = [(f"{number:03}", number) for number in range(MAX_RANKED_FILES + 10)]
    start = RankedFiles.of(all_files, largest_first=False)
    assert (len(start.files), start.bound) == (MAX_RANKED_FILES, (f"{MAX_RANKED_FILES:03}", MAX_RANKED_FILES))
    few = start.updated([file(*each, sign=-1) for each in all_files[: MAX_RANKED_FILES - 4]])
    assert (few.are_enough, len(few.files)) == (False, 4)
    enough = start.updated([file(*each, sign=-1) for each in all_files[: MAX_RANKED_FILES - 5]])
    assert enough.are_enough
    assert enough.updated([file("new", MAX_RANKED_FILES + 1)]) == enough
    assert enough.updated([file("new", 0)]).files[0] == ("new", 0)


def test_files_with_the_same_path_and_size_are_kept_or_omitted_together() -> None:
    start = RankedFiles.of([("a", 1), *[("same", 2)] * MAX_RANKED_FILES], largest_first=False)
    assert (start.files, start.bound) == ((("a", 1),), ("same", 2))
    assert start.updated([file("same", 2, sign=-1)]) == start


@pytest.mark.slow
def test_partitions_and_times_beyond_the_limits_are_not_updated() -> None:
    start = FileBreakdown.of(file(number, 1, p=str(number)) for number in range(MAX_PARTITIONS))
    assert start.can_be_updated
    assert start.updated([file("one more", p="one more")]) is None
    above = FileBreakdown.of(file(number, number, p=str(number)) for number in range(MAX_PARTITIONS + 1))
    assert (above.num_partitions, len(above.partitions)) == (MAX_PARTITIONS + 1, MAX_PARTITIONS)
    assert (("p", "0"),) not in above.partitions
    assert not above.can_be_updated
    assert above.updated([]) is None
    above.check(num_of_files=MAX_PARTITIONS + 1, size_in_bytes=sum(range(MAX_PARTITIONS + 1)), num_of_removes=0)
    times = FileBreakdown.of(map(gone, range(MAX_TIMES)))
    assert times.deletions is not None
    more = times.updated([gone(MAX_TIMES)])
    assert more is not None
    assert more.deletions is None
    again = more.updated([gone(0, sign=-1)])
    assert again is not None
    assert again.deletions is None


def test_bounds_of_a_bin_are_those_of_four_in_a_doubling() -> None:
    assert [FileBreakdown.bounds_of_bin(number)[0] for number in (0, 4, 8, 40)] == [1, 2, 4, 1024]
    assert [FileBreakdown.bounds_of_bin(number)[1] for number in (3, 7, 39)] == [2, 4, 1024]
