"""Expectations about a table: pure functions from facts about it to a verdict."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

from deltasnap_assets.runs.verdicts import Verdict
from deltasnap_assets.settings.config import CheckSettings
from deltasnap_assets.tables.changes import schema_changes
from deltasnap_assets.tables.file_facts import FileFacts, TombstoneFacts
from deltasnap_assets.tables.quantities import bytes_text, counted, span_text
from deltasnap_assets.texts import visible
from deltasnap_core import ChecksumDifference, LogSegment, SnapshotState

# With fewer files than this, the check passes: the ratio means nothing.
_FEW_FILES = 16
_HOUR_MS = 3_600_000
# Without `fresh_within_hours`, a table is stale after this many times its longest recent pause, but not within a day.
_PAUSES = 3
_LEAST_PATIENCE_MS = 24 * _HOUR_MS
_LEAST_HISTORY = 5


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


def fresh_table(commit_times_ms: Sequence[int], limits: CheckSettings, *, now_ms: int) -> Verdict:
    """The last commit is recent enough. commit_times_ms: of the last commits, ascending, at least one."""
    last = commit_times_ms[-1]
    age = now_ms - last
    pauses = [later - earlier for earlier, later in pairwise(commit_times_ms)]
    if limits.fresh_within_hours is not None:
        patience, why = int(limits.fresh_within_hours * _HOUR_MS), "as configured"
    else:
        patience = max(_PAUSES * max(pauses, default=0), _LEAST_PATIENCE_MS)
        why = "three times the longest recent pause, at least a day"
    return Verdict(
        passed=age <= patience,
        description=f"The last commit is {span_text(age)} old, at most {span_text(patience)} expected ({why}).",
        numbers={"hours_since_last_commit": round(age / _HOUR_MS, 2)},
    )


def statistics_coverage(state: SnapshotState, limits: CheckSettings) -> Verdict:
    """Enough files have statistics. A file without a row count counts as a file without statistics."""
    without = state.num_files_without_records
    ratio = 1 - without / max(state.num_of_files, 1)
    return Verdict(
        passed=ratio >= limits.min_statistics_ratio,
        description=(
            f"{without:,} of {state.num_of_files:,} files have no statistics "
            f"({ratio:.0%} have some, at least {limits.min_statistics_ratio:.0%} expected)."
        ),
        numbers={"files_without_statistics": without, "statistics_ratio": ratio},
    )


def even_partitions(facts: FileFacts, limits: CheckSettings) -> Verdict:
    """No partition is many times larger than the median partition."""
    sizes = [partition.size_in_bytes for partition in facts.partitions]
    middle = statistics.median(sizes) if sizes else 0
    skew = max(sizes, default=0) / max(middle, 1)
    if len(sizes) < 2:
        return Verdict(passed=True, description="There are no partitions to compare.", numbers={"partition_skew": 1.0})
    largest = facts.partitions[0]
    return Verdict(
        passed=skew <= limits.max_partition_skew or len(sizes) < _LEAST_HISTORY,
        description=(
            f"The largest of {len(sizes):,} partitions, {visible(largest.label)} with "
            f"{bytes_text(largest.size_in_bytes)}, is {skew:.1f} times the median partition, "
            f"at most {limits.max_partition_skew:g} times expected."
        ),
        numbers={"partition_skew": round(skew, 2)},
    )


def expired_tombstones(facts: TombstoneFacts, state: SnapshotState, limits: CheckSettings) -> Verdict:
    """The storage does not hold too many files with expired tombstones, which no version needs."""
    ratio = facts.expired_bytes / max(state.size_in_bytes, 1)
    return Verdict(
        passed=ratio <= limits.max_expired_ratio or facts.num_expired < _FEW_FILES,
        description=(
            f"{facts.num_expired:,} files of {bytes_text(facts.expired_bytes)} are past their retention: "
            f"{ratio:.0%} of the size of the table, at most {limits.max_expired_ratio:.0%} expected."
        ),
        numbers={"expired_files": facts.num_expired, "expired_bytes": facts.expired_bytes},
    )


def schema_unchanged(states: Mapping[int, SnapshotState], versions: Sequence[int]) -> dict[int, Verdict]:
    """The schema is that of the version before. Returns a verdict for each version whose predecessor is known."""
    verdicts = {}
    for version in versions:
        before, state = states.get(version - 1), states[version]
        if before is None or before.metadata is None or state.metadata is None:
            continue
        changes = [visible(change) for change in schema_changes(before.metadata, state.metadata)]
        text = (
            f"Version {version} changed the schema: {'; '.join(changes)}." if changes else "The schema did not change."
        )
        verdicts[version] = Verdict(passed=not changes, description=text, numbers={"schema_changes": len(changes)})
    return verdicts


def steady_growth(
    states: Mapping[int, SnapshotState], versions: Sequence[int], limits: CheckSettings
) -> dict[int, Verdict]:
    """The size does not change far more than in recent versions. Returns a verdict per version with enough history."""
    sizes = {version: state.size_in_bytes for version, state in sorted(states.items())}
    steps = {version: size - sizes[version - 1] for version, size in sizes.items() if version - 1 in sizes}
    verdicts = {}
    for version in versions:
        earlier = [abs(step) for number, step in steps.items() if number < version and step]
        if version not in steps or len(earlier) < _LEAST_HISTORY:
            continue
        step, most = steps[version], max(earlier) * limits.max_growth_factor
        word = "made the table grow" if step >= 0 else "made the table shrink"
        verdicts[version] = Verdict(
            passed=abs(step) <= most,
            description=(
                f"Version {version} {word} by {bytes_text(abs(step))}; the largest change in {len(earlier)} versions "
                f"before was {bytes_text(max(earlier))}, at most {limits.max_growth_factor:g} times that is expected."
            ),
            numbers={"growth_bytes": step},
        )
    return verdicts
