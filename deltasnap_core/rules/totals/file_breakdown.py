"""FileBreakdown: files by size and by partition, tombstones by time, the largest and smallest files of a version.

Counts and bytes are sums, so commits can update them: the FileGroups of added and removed files are added to a
breakdown. The largest and smallest files are complete lists up to a bound, so they stay exact when files are removed.
The rules (the bin of a size, the groups and sums) are in this module, in SQL and in Python; `tombstone_times` adds up
tombstones.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isqrt
from typing import Any, NamedTuple

from deltasnap_core.redaction import safe_repr
from deltasnap_core.rules.totals.aggregates import InconsistentBreakdownError
from deltasnap_core.rules.totals.tombstone_times import TombstoneSums, TombstoneTimes

MIN_RANKED_FILES = 5
"""The largest and smallest files that a breakdown always has, if there are as many."""

MAX_RANKED_FILES = 50
"""The largest and smallest files that are kept, so that some can be removed before a new count is necessary."""

MAX_PARTITIONS = 5_000
"""With more partitions, a breakdown has only the largest. It cannot be updated then."""

MAX_TIMES = 200_000
"""With more distinct deletion times, a breakdown has none of them. A commit a minute has 43,200 in 30 days."""

NEGATIVE_SIZE = -1
"""The bin of negative sizes, which only a damaged log has."""

BINS_OF_A_DOUBLING = 4
_LAST_BIN = 63 * BINS_OF_A_DOUBLING - 1

PartitionValues = tuple[tuple[str, str | None], ...]
"""The values of a partition as in the log, in the order of the names."""

SizedFile = tuple[str, int]
"""Path and bytes of a file."""


class FileSums(NamedTuple):
    """The number and the bytes of some live files."""

    files: int
    size: int


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Live files of one bin and partition, or tombstones of one time (`deleted_at`, ms). Negative for a subtraction.

    file: of live files, set if all have this path and size.
    """

    size_bin: int = NEGATIVE_SIZE
    partition: PartitionValues = ()
    deleted_at: int | None = None
    files: int
    size: int
    without_size: int = 0
    file: SizedFile | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> FileGroup:
        """Return a group from a row.

        row: some columns of `bin_grouping_sql` or `file_grouping_sql`, and all BREAKDOWN_SUMS. Null sums count as 0. If
             `file_path` is set, the group has live files with this path and size.
        """
        path, files = row.get("file_path"), row["rows"]
        size = ((row["high_bytes"] or 0) << 32) + (row["low_bytes"] or 0)
        number = row.get("size_bin") if path is None else size_bin(row["file_size"])
        return cls(
            size_bin=NEGATIVE_SIZE if number is None else number,
            partition=partition_of((entry["key"], entry["value"]) for entry in row.get("partition") or ()),
            deleted_at=row.get("removed_at"),
            files=files,
            size=size,
            without_size=row["without_size"] or 0,
            file=None if path is None else (path, row["file_size"]),
        )

    @classmethod
    def of_file(cls, path: str, size: int, values: Iterable[tuple[str, str | None]], *, sign: int = 1) -> FileGroup:
        """Return one live file. values: of its partition, in any order."""
        partition = partition_of(values)
        return cls(size_bin=size_bin(size), partition=partition, files=sign, size=sign * size, file=(path, size))

    @classmethod
    def of_tombstone(cls, deleted_at: int, size: int | None, *, sign: int = 1) -> FileGroup:
        """Return one tombstone. size: None: unknown."""
        return cls(deleted_at=deleted_at, files=sign, size=sign * (size or 0), without_size=sign * (size is None))


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class RankedFiles:
    """All live files before a bound, in order: the largest first, or the smallest first; then by path.

    bound: the first file that is missing; None: these are all live files.
    """

    files: tuple[SizedFile, ...]
    bound: SizedFile | None = None
    largest_first: bool

    @classmethod
    def of(cls, files: Iterable[SizedFile], *, largest_first: bool) -> RankedFiles:
        """Return the first files in order. files: all live files, or at least the first MAX_RANKED_FILES + 1."""
        order = _order(largest_first)
        found = heapq.nsmallest(MAX_RANKED_FILES + 1, files, key=order)
        return cls(files=tuple(found), largest_first=largest_first)._shortened()

    @property
    def are_enough(self) -> bool:
        """Whether these are MIN_RANKED_FILES or all live files."""
        return self.bound is None or len(self.files) >= MIN_RANKED_FILES

    def updated(self, groups: Sequence[FileGroup]) -> RankedFiles:
        """Return the files after changes. Errors: InconsistentBreakdownError."""
        order = _order(self.largest_first)
        last = None if self.bound is None else order(self.bound)
        counts: dict[SizedFile, int] = {}
        for file in self.files:
            counts[file] = counts.get(file, 0) + 1
        for group in groups:
            if group.file is not None and (last is None or order(group.file) < last):
                counts[group.file] = counts.get(group.file, 0) + group.files
        if min(counts.values(), default=0) < 0:
            raise InconsistentBreakdownError("expected the removed files among the largest or smallest, found none")
        files = sorted((file for file, count in counts.items() for _ in range(count)), key=order)
        return replace(self, files=tuple(files))._shortened()

    def _shortened(self) -> RankedFiles:
        if len(self.files) <= MAX_RANKED_FILES:
            return self
        order, bound = _order(self.largest_first), self.files[MAX_RANKED_FILES]
        # Two logical files may have one path. So the list ends before the bound, not at it.
        return replace(self, files=tuple(file for file in self.files if order(file) < order(bound)), bound=bound)


def _order(largest_first: bool) -> Any:
    return (lambda file: (-file[1], file[0])) if largest_first else (lambda file: (file[1], file[0]))


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class FileBreakdown:
    """The live files and tombstones of a version in groups.

    sizes:          by bin, ascending; only bins with files. -1: negative sizes, which only a damaged log has.
    partitions:     by values, the partitions with files, at most MAX_PARTITIONS, those with the most bytes.
    num_partitions: the number of all partitions with files.
    deletions:      by time of deletion (ms; 0: unknown), ascending, the tombstones that the version keeps; None:
                    more than MAX_TIMES times.
    largest, smallest: path and bytes, the largest or smallest first; at least MIN_RANKED_FILES, if there are as many.
    """

    sizes: Mapping[int, FileSums]
    partitions: Mapping[PartitionValues, FileSums]
    num_partitions: int
    deletions: TombstoneTimes | None
    largest: RankedFiles
    smallest: RankedFiles

    @classmethod
    def of(cls, groups: Iterable[FileGroup]) -> FileBreakdown:
        """Return the breakdown of all live files and tombstones. Each live file is a separate group."""
        found = list(groups)
        named = [group.file for group in found if group.file is not None]
        return cls.of_groups(found, largest=named, smallest=named)

    @classmethod
    def of_groups(
        cls,
        groups: Iterable[FileGroup],
        *,
        largest: Iterable[SizedFile],
        smallest: Iterable[SizedFile],
        partitions: Iterable[FileGroup] | None = None,
        num_partitions: int | None = None,
    ) -> FileBreakdown:
        """Return the breakdown of groups.

        largest, smallest: at least MAX_RANKED_FILES + 1 files each, in any order, or all.
        partitions:        the groups by partition; None: `groups` have the partitions too.
        num_partitions:    the number of partitions; None: that of the groups.
        """
        found = list(groups)
        live = [group for group in found if group.deleted_at is None]
        of_partitions = live if partitions is None else partitions
        by_values = _added({}, ((group.partition, _sums(group)) for group in of_partitions))
        gone = ((group.deleted_at, _tombstones(group)) for group in found if group.deleted_at is not None)
        return cls(
            sizes=_ascending(_added({}, ((group.size_bin, _sums(group)) for group in live))),
            partitions=_most_bytes(by_values),
            num_partitions=len(by_values) if num_partitions is None else num_partitions,
            deletions=_within_limit(TombstoneTimes.of(gone)),
            largest=RankedFiles.of(largest, largest_first=True),
            smallest=RankedFiles.of(smallest, largest_first=False),
        )

    @staticmethod
    def bounds_of_bin(number: int) -> tuple[float, float]:
        """Return the sizes in bytes at which a bin of `sizes` starts and ends. Bin 0 also has the files of 0 bytes."""
        return 2 ** (number / BINS_OF_A_DOUBLING), 2 ** ((number + 1) / BINS_OF_A_DOUBLING)

    @property
    def can_be_updated(self) -> bool:
        """Whether it has all partitions and enough files, so that the changes of commits can be added."""
        has_all = len(self.partitions) == self.num_partitions
        return has_all and self.largest.are_enough and self.smallest.are_enough

    def updated(self, groups: Iterable[FileGroup]) -> FileBreakdown | None:
        """Return the breakdown after changes; None: it must be counted again.

        groups: the added files and tombstones, and the removed ones with negative numbers; `file` is set for live
        files.
        Errors: InconsistentBreakdownError.
        """
        changes = list(groups)
        if not self.can_be_updated:
            return None
        live = [group for group in changes if group.deleted_at is None]
        found = replace(
            self,
            sizes=_ascending(_added(self.sizes, ((group.size_bin, _sums(group)) for group in live))),
            partitions=_added(self.partitions, ((group.partition, _sums(group)) for group in live)),
            deletions=self._updated_deletions(changes),
            largest=self.largest.updated(live),
            smallest=self.smallest.updated(live),
        )
        found = replace(found, num_partitions=len(found.partitions))
        return found if found.can_be_updated and found.num_partitions <= MAX_PARTITIONS else None

    def _updated_deletions(self, changes: Iterable[FileGroup]) -> TombstoneTimes | None:
        if self.deletions is None:
            return None
        gone = ((group.deleted_at, _tombstones(group)) for group in changes if group.deleted_at is not None)
        return _within_limit(self.deletions.updated(gone))

    def check(self, *, num_of_files: int, size_in_bytes: int, num_of_removes: int) -> None:
        """Compare with the computed state of the same version. Errors: InconsistentBreakdownError."""
        expected = FileSums(num_of_files, size_in_bytes)
        complete = [self.sizes] + ([self.partitions] if len(self.partitions) == self.num_partitions else [])
        for sums in complete:
            found = FileSums(sum(each.files for each in sums.values()), sum(each.size for each in sums.values()))
            if found != expected:
                raise InconsistentBreakdownError(f"expected {expected}, found {found}")
        removes = num_of_removes if self.deletions is None else self.deletions.num_files
        if removes != num_of_removes:
            raise InconsistentBreakdownError(f"expected {num_of_removes} tombstones, found {removes}")


def size_bin(size: int) -> int:
    """Return the bin of a size: four bins double it, bin n starts at 2^(n/4) bytes. A size of 0 is in bin 0."""
    return NEGATIVE_SIZE if size < 0 else (max(size, 1) ** BINS_OF_A_DOUBLING).bit_length() - 1


def partition_of(values: Iterable[tuple[str, str | None]]) -> PartitionValues:
    """Return the values of a partition in the order of their names. If a name occurs twice, its first value counts.

    An empty text is null. Source: PROTOCOL.md, Partition Value Serialization.
    """
    first_wins = {name: value or None for name, value in reversed([*values])}
    return tuple(sorted(first_wins.items()))


def _least_size(number: int) -> int:
    """Return the smallest size in a bin or above: the fourth root of 2^n, rounded up."""
    root = isqrt(isqrt(1 << number))
    return root if root**BINS_OF_A_DOUBLING >= 1 << number else root + 1


def _size_bin_sql() -> str:
    starts = f"array({', '.join(f'{_least_size(number)}L' for number in range(_LAST_BIN + 1))})"
    size = "greatest(size, 1L)"
    near = f"cast(floor(log2({size}) * {BINS_OF_A_DOUBLING}) as int)"
    # A logarithm may be rounded across the start of a bin: the comparisons correct it by one bin.
    too_high = f"if(coalesce({size} < get({starts}, {near}), true), 1, 0)"
    too_low = f"if(coalesce({size} >= get({starts}, {near} + 1), false), 1, 0)"
    return f"case when size < 0 then {NEGATIVE_SIZE} when size is not null then {near} - {too_high} + {too_low} end"


BREAKDOWN_MEASURES: Mapping[str, str] = {
    "partition": (
        "transform(map_entries(add.partitionValues), e -> named_struct('key', e.key, 'value', nullif(e.value, '')))"
    ),
    "removed_size": "remove.size",
    "file_path": "path",
}
"""SQL, over FULL, for the columns that a breakdown needs beside MEASURES."""

BREAKDOWN_SUMS: Mapping[str, str] = {
    "high_bytes": "shiftright(coalesce(size, removed_size), 32)",
    "low_bytes": f"coalesce(size, removed_size) & {(1 << 32) - 1}L",
    "without_size": "if(deleted_at is not null and removed_size is null, 1, 0)",
}
"""SQL, over MEASURES and BREAKDOWN_MEASURES, for the values that are summed in each group, beside `rows`, which is 1.

Bytes are summed in two halves of 32 bits, so that the sum cannot overflow.
"""


def bin_grouping_sql() -> list[str]:
    """Return the columns to group MEASURES and BREAKDOWN_MEASURES by, as SQL."""
    # `partition_of` needs the order of a name that occurs twice, which only damaged checkpoints have.
    keys = "transform(partition, entry -> entry.key)"
    ordered = f"if(size(array_distinct({keys})) = size(partition), array_sort(partition), partition)"
    return [f"{_size_bin_sql()} as size_bin", f"{ordered} as partition", "deleted_at as removed_at"]


def file_grouping_sql() -> list[str]:
    """Return the columns to group a few changes by, as SQL: each live file is a group."""
    # No bins, no order of the values: Spark takes longer to compile them than to group the few rows of a commit.
    live = "if(deleted_at is null, {}, null) as {}".format
    return ["partition", "deleted_at as removed_at", live("file_path", "file_path"), live("size", "file_size")]


def _sums(group: FileGroup) -> FileSums:
    return FileSums(group.files, group.size)


def _tombstones(group: FileGroup) -> TombstoneSums:
    return TombstoneSums(group.files, group.size, group.without_size)


def _most_bytes(partitions: Mapping[PartitionValues, FileSums]) -> dict[PartitionValues, FileSums]:
    """Return at most MAX_PARTITIONS partitions: those with the most bytes."""
    if len(partitions) <= MAX_PARTITIONS:
        return dict(partitions)
    return dict(heapq.nsmallest(MAX_PARTITIONS, partitions.items(), key=lambda each: -each[1].size))


def _within_limit(deletions: TombstoneTimes) -> TombstoneTimes | None:
    return deletions if len(deletions) <= MAX_TIMES else None


def _ascending(sums: Mapping[int, Any]) -> dict[int, Any]:
    return {key: sums[key] for key in sorted(sums)}


def _added(sums: Mapping[Any, FileSums], changes: Iterable[tuple[Any, FileSums]]) -> dict[Any, FileSums]:
    """Return sums with changes added, without empty ones. Errors: InconsistentBreakdownError."""
    found = dict(sums)
    for key, change in changes:
        before = found.get(key)
        found[key] = change if before is None else FileSums(before.files + change.files, before.size + change.size)
    for each in found.values():
        if each.files < 0 or (not each.files and any(each)):
            raise InconsistentBreakdownError(f"expected a number of files, found {each}")
    return {key: each for key, each in found.items() if each.files}
