"""DeletedRecordCountsHistogram: the number of files by their number of deleted records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from deltasnap_core.protocol.json_records import JsonRecord, Long

BIN_STARTS: tuple[int, ...] = (0, 1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 2**31 - 1)
"""The lower boundary of each bin, in deleted records of a file.

A bin ends below the next boundary; the last has no end.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRecordCountsHistogram(JsonRecord):
    """A histogram of deleted records.

    deleted_record_counts: the number of files in each of the ten bins of `BIN_STARTS`.
    Source: PROTOCOL.md, Deleted Record Counts Histogram Schema.
    """

    json_name = "deletedRecordCountsHistogram"

    deleted_record_counts: tuple[Long, ...]

    def __post_init__(self) -> None:
        if len(self.deleted_record_counts) != len(BIN_STARTS):
            raise ValueError(
                f"deletedRecordCountsHistogram: expected {len(BIN_STARTS)} bins, "
                f"found {len(self.deleted_record_counts)}"
            )

    @classmethod
    def of_counts(cls, counts: Iterable[int]) -> DeletedRecordCountsHistogram:
        """Return the histogram of files with these numbers of deleted records; negative numbers are ignored."""
        bins = [0] * len(BIN_STARTS)
        for count in (count for count in counts if count >= 0):
            bins[bisect_right(BIN_STARTS, count) - 1] += 1
        return cls(deleted_record_counts=tuple(bins))
