"""Expectations about a table: pure functions from the core's results to a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltasnap_assets.runs.verdicts import Verdict
from deltasnap_assets.settings.config import CheckSettings
from deltasnap_assets.tables.byte_units import bytes_text
from deltasnap_assets.tables.counts import counted
from deltasnap_core import (
    ChecksumDifference,
    LogSegment,
    SnapshotState,
)

__all__ = ["Verdict", "checkpoint_lag", "checksum_agrees", "small_files", "tombstone_ratio"]

# With fewer files than this, the check passes: the ratio means nothing.
_FEW_FILES = 16


def checkpoint_lag(segment: LogSegment, limits: CheckSettings) -> Verdict:
    """The newest checkpoint is not too many commits behind the latest version."""
    lag, most = len(segment.deltas), limits.max_commits_since_checkpoint
    return Verdict(
        passed=lag <= most,
        description=f"{lag} commits since the last checkpoint, at most {most} expected.",
        numbers={"commits_since_checkpoint": lag},
    )


def small_files(state: SnapshotState, limits: CheckSettings) -> Verdict:
    """The ratio of small files is not too high. A file is small if its histogram bin starts below the limit."""
    histogram = state.file_size_histogram
    bins = zip(histogram.sorted_bin_boundaries, histogram.file_counts, strict=True)
    small = sum(count for start, count in bins if start < limits.small_file_bytes)
    ratio = small / max(state.num_of_files, 1)
    return Verdict(
        passed=ratio <= limits.max_small_file_ratio or state.num_of_files < _FEW_FILES,
        description=(
            f"{small} of {state.num_of_files} files are smaller than {bytes_text(limits.small_file_bytes)} "
            f"({ratio:.0%}, at most {limits.max_small_file_ratio:.0%} expected)."
        ),
        numbers={"small_files": small, "small_file_ratio": ratio},
    )


def tombstone_ratio(state: SnapshotState, limits: CheckSettings) -> Verdict:
    """The ratio of tombstones is not too high. Every reader reads them and every checkpoint contains them."""
    ratio = state.num_of_removes / max(state.num_of_files + state.num_of_removes, 1)
    return Verdict(
        passed=ratio <= limits.max_tombstone_ratio or state.num_of_removes < _FEW_FILES,
        description=(
            f"{state.num_of_removes} tombstones beside {state.num_of_files} files "
            f"({ratio:.0%} of both, at most {limits.max_tombstone_ratio:.0%} expected)."
        ),
        numbers={"tombstones": state.num_of_removes, "tombstone_ratio": ratio},
    )


def checksum_agrees(differences: Mapping[int, Sequence[ChecksumDifference]]) -> Verdict:
    """The `.crc` files match the stored states. In: the differences of each version that has such a file."""
    wrong = {version: found for version, found in differences.items() if found}
    numbers = {"checksums_compared": len(differences), "checksums_wrong": len(wrong)}
    if not wrong:
        found = (
            f"The log agrees with {counted(len(differences), 'checksum')}."
            if differences
            else "There are no checksums."
        )
        return Verdict(passed=True, description=found, numbers=numbers)
    texts = "; ".join(
        f"version {version}: {', '.join(difference.field for difference in found)}"
        for version, found in sorted(wrong.items())[:10]
    )
    return Verdict(
        passed=False,
        description=f"The log differs from {counted(len(wrong), 'checksum')}: {texts}.",
        is_error=True,
        numbers=numbers,
    )
