"""FileSizeHistogram: the number of files of a table by size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from deltasnap_core.protocol.json_records import BigInt, JsonRecord, Long
from deltasnap_core.redaction import safe_repr

_KB = 1024
_MB = 1024 * _KB
_GB = 1024 * _MB


def _mb(*runs: tuple[int, int, int]) -> tuple[int, ...]:
    """Return the boundaries of runs of bins, each (first, last, step) in MiB, last inclusive."""
    return tuple(size * _MB for first, last, step in runs for size in range(first, last + 1, step))


DEFAULT_BIN_BOUNDARIES: tuple[int, ...] = (
    0,
    *(size * _KB for size in (8, 16, 32, 64, 128, 256, 512)),
    *(size * _MB for size in (1, 2, 4)),
    *_mb((8, 40, 4), (48, 120, 8), (124, 144, 4), (160, 576, 16), (640, 1408, 64), (1536, 2048, 128)),
    *_mb((2304, 3840, 256)),
    *(size * _GB for size in (4, 8, 16, 32, 64, 128, 256)),
)
"""Delta's bins, in bytes: the lower boundary of each bin. Source: Delta's `FileSizeHistogram`."""


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class FileSizeHistogram(JsonRecord):
    """Files and bytes by file size.

    sorted_bin_boundaries: the lower boundary of each bin, in bytes; the first is 0. A bin ends at the next boundary;
                           the last has no end.
    file_counts:           the number of files in each bin.
    total_bytes:           the sum of the file sizes in each bin.
    Source: PROTOCOL.md, File Size Histogram Schema.
    """

    json_name = "fileSizeHistogram"

    sorted_bin_boundaries: tuple[Long, ...]
    file_counts: tuple[Long, ...]
    total_bytes: tuple[BigInt, ...]

    def __post_init__(self) -> None:
        if self.sorted_bin_boundaries[:1] != (0,):
            raise ValueError("fileSizeHistogram.sortedBinBoundaries: the first one must be 0")
        if any(start >= end for start, end in pairwise(self.sorted_bin_boundaries)):
            raise ValueError("fileSizeHistogram.sortedBinBoundaries: must ascend")
        if not len(self.sorted_bin_boundaries) == len(self.file_counts) == len(self.total_bytes):
            raise ValueError(
                "fileSizeHistogram: sortedBinBoundaries, fileCounts and totalBytes must be of one length, found "
                f"{len(self.sorted_bin_boundaries)}, {len(self.file_counts)} and {len(self.total_bytes)}"
            )

    def files_below(self, size: int) -> int:
        """Return the number of files in the bins that end at or below a size in bytes."""
        return files_below(self.sorted_bin_boundaries, self.file_counts, size)

    def in_bins_of(self, other: FileSizeHistogram) -> FileSizeHistogram:
        """Return the histogram in the bins whose boundaries both have. It adds up bins, so it is exact."""
        shared = sorted({*self.sorted_bin_boundaries} & {*other.sorted_bin_boundaries})
        counts, totals = [0] * len(shared), [0] * len(shared)
        for start, count, total in zip(self.sorted_bin_boundaries, self.file_counts, self.total_bytes, strict=True):
            index = bisect_right(shared, start) - 1
            counts[index] += count
            totals[index] += total
        return FileSizeHistogram(
            sorted_bin_boundaries=tuple(shared), file_counts=tuple(counts), total_bytes=tuple(totals)
        )

    @classmethod
    def of_sizes(cls, sizes: Iterable[int]) -> FileSizeHistogram:
        """Return the histogram of files of these sizes in bytes, in Delta's bins; negative sizes are ignored."""
        counts, totals = [0] * len(DEFAULT_BIN_BOUNDARIES), [0] * len(DEFAULT_BIN_BOUNDARIES)
        for size in (size for size in sizes if size >= 0):
            index = bisect_right(DEFAULT_BIN_BOUNDARIES, size) - 1
            counts[index] += 1
            totals[index] += size
        return cls(sorted_bin_boundaries=DEFAULT_BIN_BOUNDARIES, file_counts=tuple(counts), total_bytes=tuple(totals))


def files_below(bin_boundaries: Sequence[int], file_counts: Sequence[int], size: int) -> int:
    """Return the number of files in the bins that end at or below a size in bytes: all are smaller than that size."""
    return sum(count for end, count in zip(bin_boundaries[1:], file_counts, strict=False) if end <= size)
