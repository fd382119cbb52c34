"""Every version of a range in one pass: what each changed, and what each amounts to.

For versions (a, b], the commits are read once; the state at `a` is looked up only at the keys they touch. Each action
then lives from its version to the next one of its key; what begins and what ends at a version are its changes, and
running sums over the versions give the computed state of each. In Spark, and in Arrow where one process can look at
all the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.computed_state import aggregated, state_with, totals_of
from deltasnap_core.replay.driver.reconciliation import events_by_version
from deltasnap_core.replay.spark.file_action_layout import FULL, digested
from deltasnap_core.replay.spark.state_advance import touched_or_expiring
from deltasnap_core.replay.spark.state_reconstruction import newest_file_actions
from deltasnap_core.rules.aggregates import DIGESTED, FileTotals, Group


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeVersion:
    """One version of a range.

    files_added, bytes_added:     files that this version added, or added again with other metadata.
    files_removed, bytes_removed: files that it removed, or replaced so: such a file is in both.
    retention:                    which tombstones its computed state counts.
    """

    version: int
    computed_state: SnapshotState
    retention: Retention
    files_added: int
    bytes_added: int
    files_removed: int
    bytes_removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBase:
    """The state that a range starts from: that of the version before its first.

    retention: which tombstones `computed_state` counts.
    """

    version: int
    computed_state: SnapshotState
    retention: Retention


def changes_of_versions(commits: DataFrame) -> DataFrame:
    """Return what each version changed: version (long), and FULL; one row a version and logical file.

    In: as ActionReader.commit_actions gives them.
    """
    newest = newest_file_actions(commits, within=("commit_version",))
    return newest.select(F.col("commit_version").alias("version"), *FULL.columns)


def replay_range(
    base: RangeBase,
    files: DataFrame | None,
    changes: DataFrame | None,
    non_file: Mapping[int, NonFileActions],
    retentions: Mapping[int, Retention],
    *,
    broadcast: bool,
) -> tuple[RangeVersion, ...]:
    """Return every version of a range, ascending, in one pass over what they changed and one look at the base.

    files:      of the base, reconciled (FULL); None: no files.
    changes:    as `changes_of_versions` gives them, read with the schema of the files; None: no version changed a file.
    non_file:   by version, the non-file actions in force, those that have expired left out.
    retentions: by version, which tombstones it keeps. One that has expired stays so: a version whose retention would
                bring it back takes that of the one before.
    broadcast:  whether the keys of the changes are few enough to send to every task.
    Errors: MissingSizeError.
    """
    in_force = _never_falling(base, retentions)
    groups = _events_by_version(base, files, changes, in_force, broadcast=broadcast)
    return _versions(base, groups, non_file, in_force)


def replay_small_range(
    base: RangeBase,
    files: pa.Table,
    commits: pa.Table,
    non_file: Mapping[int, NonFileActions],
    retentions: Mapping[int, Retention],
) -> tuple[RangeVersion, ...]:
    """Return what `replay_range` does, without Spark. files, commits: as `events_by_version` takes them."""
    in_force = _never_falling(base, retentions)
    return _versions(base, events_by_version(files, commits, in_force), non_file, in_force)


def _versions(
    base: RangeBase,
    groups: Mapping[int, Sequence[Group]],
    non_file: Mapping[int, NonFileActions],
    retentions: Mapping[int, Retention],
) -> tuple[RangeVersion, ...]:
    """Return the versions after the base, from the sums of what begins and of what ends at each."""
    running, versions = totals_of(base.computed_state), []
    for version in sorted(non_file):
        begun, ended = FileTotals(), FileTotals()
        for group in groups.get(version, ()):
            running.add(group)
            (begun if group["begins"] else ended).add(group)
        versions.append(
            RangeVersion(
                version=version,
                computed_state=state_with(running, non_file[version]),
                retention=retentions[version],
                files_added=begun["num_of_files"],
                bytes_added=begun["size_in_bytes"],
                files_removed=-ended["num_of_files"],
                bytes_removed=-ended["size_in_bytes"],
            )
        )
    return tuple(versions)


def _never_falling(base: RangeBase, retentions: Mapping[int, Retention]) -> dict[int, Retention]:
    """Return the retention of the base and of each version after it, ascending, none keeping more than the last."""
    in_force = {base.version: base.retention}
    for version in sorted(retentions):
        in_force[version] = retentions[version].later_of(in_force[next(reversed(in_force))])
    return in_force


def _events_by_version(
    base: RangeBase,
    files: DataFrame | None,
    changes: DataFrame | None,
    retentions: Mapping[int, Retention],
    *,
    broadcast: bool,
) -> dict[int, list[Group]]:
    """Return the sums of what begins and what ends at each version, negative where something ends."""
    timeline = _timeline(base, files, changes, retentions, broadcast=broadcast)
    if timeline is None:
        return {}
    grouped: dict[int, list[Group]] = defaultdict(list)
    for group in aggregated(_events(timeline, retentions), "event_version", "begins", sign="if(begins, 1, -1)"):
        grouped[group["event_version"]].append(group)
    return grouped


def _timeline(
    base: RangeBase,
    files: DataFrame | None,
    changes: DataFrame | None,
    retentions: Mapping[int, Retention],
    *,
    broadcast: bool,
) -> DataFrame | None:
    """Return the changes, and of the base what they touch or what expires meanwhile.

    Out: version, FULL. Rows of the base have its version.
    """
    known = None
    if files is not None:
        last = retentions[max(retentions)]
        keys = None if changes is None else changes.select(*FULL.key).distinct()
        found = touched_or_expiring(files, keys, FULL, base.retention, last, broadcast=broadcast)
        known = found.select(F.lit(base.version).cast("long").alias("version"), *FULL.columns)
    if changes is None or known is None:
        return changes if known is None else known
    return known.union(changes.select("version", *FULL.columns))


def _events(timeline: DataFrame, retentions: Mapping[int, Retention]) -> DataFrame:
    """Return an event where an action begins to count and one where it ceases to: event_version, begins, DIGESTED.

    An action counts from its version to the next of its key; a tombstone no longer than until it expires.
    """
    next_version = f"lead(version) over (partition by {', '.join(FULL.key)} order by version)"
    end = F.least(F.expr(next_version), _expiry_version(retentions)).alias("end")
    lives = timeline.select(F.col("version").alias("first"), end, *map(F.expr, digested()))
    begins, ends = "named_struct('at', first, 'begins', true)", "named_struct('at', end, 'begins', false)"
    return (
        lives.where("end is null or end > first")
        .selectExpr(f"inline(array({begins}, {ends})) as (event_version, begins)", *DIGESTED)
        .where(f"event_version > {min(retentions)}")
    )


def _expiry_version(retentions: Mapping[int, Retention]) -> Column:
    """Return the first version at which a tombstone has expired; null: none, or no tombstone."""
    expired_until = {v: r.expired_until for v, r in retentions.items() if r.expired_until is not None}
    if not expired_until:
        return F.expr("cast(null as bigint)")
    versions = ", ".join(f"{version}L" for version in expired_until)
    times = ", ".join(f"{time}L" for time in expired_until.values())
    still_kept = f"size(filter(array({times}), time -> time < ({FULL.deleted_at})))"
    # Beyond the array, which is where it never expires, `get` returns null.
    return F.expr(f"case when remove.path is not null then get(array({versions}), {still_kept}) end")
