"""StateDelta in Spark: the changes that commits make to the computed state.

Counterpart: `replay/driver/state_deltas.py`.
For a range of versions (a, b], each commit is read once, and the state at `a` only for the keys that the commits
change. Each action counts from its version until the next action of its key. A StateDelta has the actions that begin
and those that end at a version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame, Row, functions as F

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.spark.reading.file_action_layout import FULL, MEASURED, measures_sql
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.state_reconstruction import NEXT_VERSION
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.totals.aggregates import FileTotals, MeasureGroup, grouping_sql, sums_sql
from deltasnap_core.rules.totals.measures import MEASURES


def counted(files: DataFrame | None, non_file: NonFileActions, retention: Retention) -> StateDelta:
    """Return the change from an empty table to some files, by one aggregation. Delta's `extractComputedState`.

    files: reconciled file actions (MEASURED), one row per logical file; None: no files.
    Errors: MissingSizeError.
    """
    rows = [] if files is None else grouped(MEASURED.unexpired(files, retention))
    return StateDelta(begun=FileTotals(map(_group, rows)), ended=FileTotals(), non_file=non_file)


def totals_between(
    files: DataFrame | None, earlier: DataFrame | None, newer: DataFrame | None, before: Retention, after: Retention
) -> tuple[FileTotals, FileTotals]:
    """Return the totals that begin, and those that end, with some commits: as in StateDelta. Scans the files once.

    files:    the files (MEASURED) of the version before the newer commits, or of an earlier version. None: no files.
    earlier:  the commits from the version of `files` to the version before the newer commits, with commit_version and
              line_number. None: no file actions. The keys are sent to every task.
    newer:    the commits to apply, as `earlier`.
    before, after: the retention before and after the newer commits; `after` never keeps more.
    Errors:   MissingSizeError.
    """
    known = MEASURED.reconcile(files, earlier, broadcast=True)
    newest = None if newer is None else MEASURED.newest(newer)
    changes = []
    if known is not None:
        gone = MEASURED.touched_or_expiring(known, newest, before, after, broadcast=True)
        changes.append(MEASURED.unexpired(gone, before).selectExpr("-1 as sign", *MEASURES))
    if newest is not None:
        changes.append(MEASURED.unexpired(newest, after).selectExpr("1 as sign", *MEASURES))
    begun, ended = FileTotals(), FileTotals()
    if changes:
        change = changes[0] if len(changes) == 1 else changes[0].union(changes[1])
        for row in grouped(change, "sign", sign="sign"):
            (begun if row["sign"] > 0 else ended).add(_group(row))
    return begun, ended


def deltas_of_range(
    files: DataFrame | None,
    changes: DataFrame | None,
    non_file: Mapping[int, NonFileActions],
    retentions: Mapping[int, Retention],
    *,
    broadcast: bool,
) -> dict[int, StateDelta]:
    """Return the changes that each version of a range makes to the previous one, in one pass over all changes.

    files:      the reconciled files (FULL) of the version before the range; None: no files.
    changes:    the result of `changes_of_versions`, read with the schema of the files; None: no version changed a file.
    non_file:   by version, the non-file actions in force.
    retentions: by version, ascending, starting with the version before the range; none keeps more than the previous
                one.
    broadcast:  whether the keys of the changes are few enough to send to every task.
    Errors: MissingSizeError.
    """
    begun: dict[int, FileTotals] = defaultdict(FileTotals)
    ended: dict[int, FileTotals] = defaultdict(FileTotals)
    timeline = _timeline(files, changes, retentions, broadcast=broadcast)
    if timeline is not None:
        events = _events(timeline, retentions)
        for row in grouped(events, "event_version", "begins", sign="if(begins, 1, -1)"):
            (begun if row["begins"] else ended)[row["event_version"]].add(_group(row))
    return {
        version: StateDelta(begun=begun[version], ended=ended[version], non_file=actions)
        for version, actions in non_file.items()
    }


def changes_of_versions(commits: DataFrame) -> DataFrame:
    """Return the changes of each version: version (long), and FULL; one row per version and logical file.

    In: the result of ActionReader.commit_actions.
    """
    newest = FULL.newest(commits, within=("commit_version",))
    return newest.select(F.col("commit_version").alias("version"), *FULL.columns)


def grouped(rows: DataFrame, *by: str, sign: str | None = None) -> Iterator[Row]:
    """Yield the groups of some rows (MEASURES), in the form of `MeasureGroup.of_row`.

    by: more columns to group by, as SQL. sign: see `sums_sql`.
    """
    yield from aggregated(rows, [*map(F.expr, [*by, *grouping_sql()])], *map(F.expr, sums_sql(sign))).collect()


def _group(row: Row) -> MeasureGroup:
    return MeasureGroup.of_row(row.asDict())


def _timeline(
    files: DataFrame | None, changes: DataFrame | None, retentions: Mapping[int, Retention], *, broadcast: bool
) -> DataFrame | None:
    """Return the changes, and the earlier rows that they change or that expire in the range.

    Out: version, FULL. Earlier rows have the version before the range.
    """
    known = None
    if files is not None:
        first, last = min(retentions), max(retentions)
        keys = None if changes is None else changes.select(*FULL.key).distinct()
        found = FULL.touched_or_expiring(files, keys, retentions[first], retentions[last], broadcast=broadcast)
        known = found.select(F.lit(first).cast("long").alias("version"), *FULL.columns)
    if changes is None or known is None:
        return changes if known is None else known
    return known.union(changes.select("version", *FULL.columns))


def _events(timeline: DataFrame, retentions: Mapping[int, Retention]) -> DataFrame:
    """Return an event for each begin and each end of an action: event_version, begins, MEASURES.

    An action counts from its version until the next action of its key. A tombstone ends when it expires.
    """
    end = F.least(F.expr(NEXT_VERSION), _expiry_version(retentions)).alias("ended")
    lives = timeline.select(F.col("version").alias("first"), end, *map(F.expr, measures_sql()))
    begins, ends = "named_struct('at', first, 'begins', true)", "named_struct('at', ended, 'begins', false)"
    return (
        lives.where("ended is null or ended > first")
        .selectExpr(f"inline(array({begins}, {ends})) as (event_version, begins)", *MEASURES)
        .where(f"event_version > {min(retentions)}")
    )


def _expiry_version(retentions: Mapping[int, Retention]) -> Column:
    """Return the first version at which a tombstone has expired; null: none, or not a tombstone."""
    expired_until = {v: r.expired_until for v, r in retentions.items() if r.expired_until is not None}
    if not expired_until:
        return F.expr("cast(null as bigint)")
    versions = ", ".join(f"{version}L" for version in expired_until)
    times = ", ".join(f"{time}L" for time in expired_until.values())
    still_kept = f"size(filter(array({times}), t -> t < ({FULL.deleted_at})))"
    # A tombstone that never expires has an index beyond the array, where `get` returns null.
    return F.expr(f"case when remove.path is not null then get(array({versions}), {still_kept}) end")
