"""What one expects of a table: pure functions from what the core found to a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from deltasnap_assets.runs.partitions import contiguous
from deltasnap_assets.settings.config import CheckSettings
from deltasnap_assets.tables.byte_units import bytes_text
from deltasnap_assets.tables.counts import counted
from deltasnap_core import (
    ChecksumDifference,
    LogSegment,
    Protocol,
    SnapshotState,
    UnsupportedProtocolError,
    check_readable,
)

# Of fewer files it cannot be said that they are many small ones.
_FEW_FILES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether an expectation holds, and why. is_error: what fails is the log itself, not only its upkeep."""

    passed: bool
    description: str
    is_error: bool = False
    numbers: Mapping[str, int | float] = field(default_factory=dict)


def contiguous_log(versions: Sequence[int], latest: int) -> Verdict:
    """Every version from the earliest that can be loaded to the latest of the log can be loaded.

    versions: those that can be, one at least. Of each hole the first version is the one whose commit is missing.
    """
    ranges = list(contiguous(versions))
    holes = [(last + 1, first - 1) for (_, last), (first, _) in pairwise(ranges)]
    if latest > versions[-1]:
        holes.append((versions[-1] + 1, latest))
    missing = sum(last - first + 1 for first, last in holes)
    found = f"versions {versions[0]} to {latest}"
    if not holes:
        return Verdict(passed=True, description=f"Every one of {found} can be loaded.", numbers={"missing_versions": 0})
    texts = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in holes)
    return Verdict(
        passed=False,
        description=f"Of {found}, {missing:,} cannot be loaded: {texts}. {_commits_missing(holes)}",
        is_error=True,
        numbers={"missing_versions": missing},
    )


def _commits_missing(holes: Sequence[tuple[int, int]]) -> str:
    if len(holes) == 1:
        return f"The commit of version {holes[0][0]} is missing."
    return f"The commits of versions {', '.join(str(first) for first, _ in holes)} are missing."


def checkpoint_lag(segment: LogSegment, limits: CheckSettings) -> Verdict:
    """The latest version has a checkpoint not too many commits behind it."""
    lag, most = len(segment.deltas), limits.max_commits_since_checkpoint
    return Verdict(
        passed=lag <= most,
        description=f"{lag} commits since the last checkpoint, at most {most} expected.",
        numbers={"commits_since_checkpoint": lag},
    )


def readable_protocol(protocol: Protocol, *, path: str, version: int) -> Verdict:
    """The table asks for nothing that deltasnap cannot read."""
    numbers = {"min_reader_version": protocol.min_reader_version}
    try:
        check_readable(protocol, path=path, version=version)
    except UnsupportedProtocolError as error:
        return Verdict(passed=False, description=str(error), is_error=True, numbers=numbers)
    return Verdict(
        passed=True, description=f"Reader version {protocol.min_reader_version} is supported.", numbers=numbers
    )


def small_files(state: SnapshotState, limits: CheckSettings) -> Verdict:
    """Not too large a part of the files is small. Counted by the bins of the histogram that begin below the limit."""
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
    """Not too large a part of the state is tombstones, which every reader reads and every checkpoint carries."""
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
    """The `.crc` files say what the log amounts to. In: the differences of each version that has such a file."""
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
        description=f"The log contradicts {counted(len(wrong), 'checksum')}: {texts}.",
        is_error=True,
        numbers=numbers,
    )
