"""Every version of a range in one pass: what each changed, and what each amounts to.

For versions (a, b], the commits are read once; the state at `a` is looked up only at the keys they touch. Each action
then lives from its version to the next one of its key; what begins and what ends at a version are its changes, and
running sums over the versions give the computed state of each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.computed_state import COUNTED, COUNTS, FileTotals, bins, totals
from deltasnap_core.replay.load_actions import ACTIONS, WHOLE
from deltasnap_core.replay.state_advance import files_in_play
from deltasnap_core.replay.state_reconstruction import newest_file_actions


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeVersion:
    """One version of a range.

    files_added, bytes_added:     live files that the version has and the one before had not, or not so.
    files_removed, bytes_removed: the other way round. A file added again with other statistics is in both.
    min_file_retention_timestamp: the time (ms) up to which tombstones count as expired.
    """

    version: int
    computed_state: SnapshotState
    min_file_retention_timestamp: int
    files_added: int
    bytes_added: int
    files_removed: int
    bytes_removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBase:
    """The state that a range starts from: that of the version before its first.

    files: ACTIONS, reconciled; None: no files. min_file_retention_timestamp: as `computed_state` was counted with.
    """

    version: int
    files: DataFrame | None
    non_file: NonFileActions
    computed_state: SnapshotState
    min_file_retention_timestamp: int


def changes_of_versions(commits: DataFrame) -> DataFrame:
    """Give what each version changed: version (long), and ACTIONS; one row a version and logical file.

    In: as ActionReader.commit_actions gives them.
    """
    newest = newest_file_actions(commits, within=("commit_version",))
    return newest.select(F.col("commit_version").alias("version"), *ACTIONS)


def replay_range(
    base: RangeBase,
    changes: DataFrame | None,
    non_file_by_version: Mapping[int, Sequence[Any]],
    retention_timestamps: Mapping[int, int],
    *,
    broadcast: bool,
) -> tuple[RangeVersion, ...]:
    """Give every version of a range, ascending, in one pass over what they changed and one look at the base.

    changes:              as `changes_of_versions` gives them, read with the schema of the base; None: no version
                          changed a file.
    non_file_by_version:  the other actions of each version, in the order of the log.
    retention_timestamps: for each version of the range, the time (ms) up to which its tombstones have expired. One
                          that has expired stays so: a version whose time is earlier takes that of the one before.
    broadcast:            whether the keys of the changes are few enough to send to every task.
    """
    thresholds = _thresholds(base, retention_timestamps)
    groups = _events_by_version(base, changes, thresholds, broadcast=broadcast)
    running, non_file, versions = FileTotals.of(base.computed_state), base.non_file, []
    for version in sorted(retention_timestamps):
        begun, ended = FileTotals(), FileTotals()
        for group in groups.get(version, ()):
            running.add(group)
            (begun if group.begins else ended).add(group)
        non_file = non_file.advanced(non_file_by_version.get(version, ()))
        versions.append(
            RangeVersion(
                version=version,
                computed_state=running.state(non_file),
                min_file_retention_timestamp=thresholds[version],
                files_added=begun.files,
                bytes_added=begun.size,
                files_removed=-ended.files,
                bytes_removed=-ended.size,
            )
        )
    return tuple(versions)


def _thresholds(base: RangeBase, timestamps: Mapping[int, int]) -> dict[int, int]:
    """Give the retention time of the base and of each version after it, ascending, never falling.

    -1 stands for one that keeps every tombstone: a missing deletion time counts as 0, which is above.
    """
    thresholds = {base.version: base.min_file_retention_timestamp or -1}
    for version in sorted(timestamps):
        thresholds[version] = max(thresholds[next(reversed(thresholds))], timestamps[version] or -1)
    return thresholds


def _events_by_version(
    base: RangeBase, changes: DataFrame | None, thresholds: Mapping[int, int], *, broadcast: bool
) -> dict[int, list[Row]]:
    """Sum what begins and what ends at each version; `totals` by `bins`, negative where something ends."""
    timeline = _timeline(base, changes, thresholds, broadcast=broadcast)
    if timeline is None:
        return {}
    events = _events(timeline, thresholds)
    grouped: dict[int, list[Row]] = defaultdict(list)
    for row in events.groupBy("event_version", "begins", *bins()).agg(*totals("if(begins, 1, -1)")).collect():
        grouped[row.event_version].append(row)
    return grouped


def _timeline(
    base: RangeBase, changes: DataFrame | None, thresholds: Mapping[int, int], *, broadcast: bool
) -> DataFrame | None:
    """Give the actions that play a part: the changes, and of the base what they touch or what expires meanwhile.

    Out: version, ACTIONS. Rows of the base have its version.
    """
    known = None
    if base.files is not None:
        before, after = thresholds[base.version], max(thresholds.values())
        keys = None if changes is None else changes.select(*WHOLE.key).distinct()
        in_play = files_in_play(base.files, keys, WHOLE, before, after, broadcast=broadcast)
        known = in_play.select(F.lit(base.version).cast("long").alias("version"), *ACTIONS)
    if changes is None or known is None:
        return changes if known is None else known
    return known.union(changes.select("version", *ACTIONS))


def _events(timeline: DataFrame, thresholds: Mapping[int, int]) -> DataFrame:
    """Give an event where an action begins to count and one where it ceases to: event_version, begins, COUNTS.

    An action counts from its version to the next of its key; a tombstone no longer than until it expires.
    """
    next_version = f"lead(version) over (partition by {', '.join(WHOLE.key)} order by version)"
    end = F.least(F.expr(next_version), _expiry_version(thresholds)).alias("end")
    lives = timeline.select(F.col("version").alias("first"), end, *map(F.expr, COUNTS))
    begins, ends = "named_struct('at', first, 'begins', true)", "named_struct('at', end, 'begins', false)"
    return (
        lives.where("end is null or end > first")
        .selectExpr(f"inline(array({begins}, {ends})) as (event_version, begins)", *COUNTED)
        .where(f"event_version > {min(thresholds)}")
    )


def _expiry_version(thresholds: Mapping[int, int]) -> Column:
    """Give the first version at which a tombstone has expired; null: none, or no tombstone."""
    last = max(thresholds.values())
    versions = ", ".join(f"{version}L" for version in thresholds)
    times = ", ".join(f"{time}L" for time in thresholds.values())
    still_kept = f"size(filter(array({times}), time -> time < ({WHOLE.deleted_at})))"
    return F.expr(f"case when ({WHOLE.deleted_at}) <= {last} then get(array({versions}), {still_kept}) end")
