"""Expectations beyond the log: fresh commits, statistics, even partitions, steady growth.

Pure functions that return verdicts, as in `expectations`.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

from deltasnap_assets.settings.config import CheckSettings
from deltasnap_assets.tables.byte_units import bytes_text
from deltasnap_assets.tables.changes import schema_changes
from deltasnap_assets.tables.checks.expectations import Verdict
from deltasnap_assets.tables.durations import span_text
from deltasnap_assets.tables.file_facts import FileFacts, TombstoneFacts
from deltasnap_assets.texts import visible
from deltasnap_core import SnapshotState

_HOUR_MS = 3_600_000
# Without `fresh_within_hours`, a table is stale after this many times its longest recent pause, but not within a day.
_PAUSES = 3
_LEAST_PATIENCE_MS = 24 * _HOUR_MS
_FEW = 16
_LEAST_HISTORY = 5


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
        passed=ratio <= limits.max_expired_ratio or facts.num_expired < _FEW,
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
