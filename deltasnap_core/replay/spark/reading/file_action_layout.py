"""The two column layouts of file actions.

FULL has all fields of the log, MEASURED only the values for the computed state.
A frame of file actions has one row per logical file, in one of the two layouts. Users get FULL, and the
store has its fields. MEASURED has six longs per file (50 MB for a million files), so that it can be kept from version
to version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.rules.expiry import expiring_sql, kept_sql
from deltasnap_core.rules.totals.measures import DELETED_AT, MEASURES
from deltasnap_core.rules.totals.num_records import checked_number_sql, first_number_sql, first_text_sql


@dataclass(frozen=True, slots=True, kw_only=True)
class FileActionLayout:
    """The columns of a frame, as the replay needs them.

    columns:     all columns.
    key:         the columns that identify a logical file.
    is_add:      SQL for whether a row is a live file.
    deleted_at:  SQL for the deletion time (ms) of a tombstone; null for a live file.
    is_same:     SQL for whether a row has the same logical file as a row of another frame, whose key columns start with
                 `other_`.
    shuffle_key: the key columns that Spark shuffles by to compare rows with `is_same`.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...]
    is_add: str
    deleted_at: str
    is_same: str
    shuffle_key: tuple[str, ...]

    def join(self, files: DataFrame, changed: DataFrame, *others: str, how: str, broadcast: bool) -> DataFrame:
        """Return files joined with the logical files of another frame. how: as for DataFrame.join.

        others: other columns to keep of the other frame. broadcast: send its keys to every task, so that `files` is not
        shuffled.
        """
        keys = changed.selectExpr(*(f"{name} as other_{name}" for name in self.key), *others)
        return files.join(F.broadcast(keys) if broadcast else keys, F.expr(self.is_same), how)

    def unexpired(self, files: DataFrame, retention: Retention) -> DataFrame:
        """Return the files without expired tombstones."""
        return files if retention.expired_until is None else files.where(kept_sql(retention, f"({self.deleted_at})"))

    def partitioned(self, files: DataFrame, partitions: int | None) -> DataFrame:
        """Return files shuffled into this many partitions, before a join that shuffles anyway.

        None: Spark's default.
        """
        return files if partitions is None else files.repartition(partitions, *self.shuffle_key)

    def newest(self, commits: DataFrame, *, within: tuple[str, ...] = ()) -> DataFrame:
        """Return the newest action of each logical file among commits.

        In:  the columns of the layout, commit_version, line_number.
        Out: the same columns, and others; one row for each key, or for each (*within, key).
        If one commit has an add and a remove of one key, the add wins. The protocol does not define this; a test pins
        it.
        Source: PROTOCOL.md, Action Reconciliation.
        """
        key = ", ".join((*within, *self.key))
        newest_first = f"commit_version desc, {self.is_add} desc, line_number desc"
        rank = f"row_number() over (partition by {key} order by {newest_first})"
        return commits.selectExpr("*", f"{rank} as rank").where("rank = 1")

    def reconcile(
        self,
        base: DataFrame | None,
        commits: DataFrame | None,
        *,
        broadcast: bool,
        changed: DataFrame | None = None,
        partitions: int | None = None,
    ) -> DataFrame | None:
        """Return a reconciled base, a checkpoint or a stored state, with the newest actions of later commits applied.

        In:  base: one row per key. commits: as for `newest`. None: no rows.
        Out: one row per key, any order. With `broadcast`, the base is scanned but not shuffled.

        changed: the keys of the commits; None: they are read again from the commits.
        partitions: of the shuffles, if the keys are not broadcast; None: Spark's default.
        Source: PROTOCOL.md, Action Reconciliation. Delta's `stateReconstruction`, whose tasks run `InMemoryLogReplay`.
        """
        if commits is None:
            return base
        if not broadcast:
            commits = self.partitioned(commits, partitions)
        newest = self.newest(commits).selectExpr(*self.columns)
        if base is None:
            return newest
        # Some keys are duplicates: removing them takes longer than sending them.
        rest = base if broadcast else self.partitioned(base, partitions)
        keys = commits if changed is None else changed
        return self.join(rest, keys, how="left_anti", broadcast=broadcast).union(newest)

    def touched_or_expiring(
        self, files: DataFrame, changed: DataFrame | None, before: Retention, after: Retention, *, broadcast: bool
    ) -> DataFrame:
        """Return the rows whose key is in `changed`, and tombstones that expire between two retentions, in one scan.

        Out: the columns of `files`, and perhaps others.

        changed: has the key columns, each key once; None: nothing changed.
        broadcast: send the keys to every task.
        """
        expires = expiring_sql(before, after, f"({self.deleted_at})")
        if changed is None:
            return files.where(expires)
        if before.is_within(after):
            return self.join(files, changed, how="left_semi", broadcast=broadcast)
        looked_up = self.join(files, changed, "true as is_touched", how="left", broadcast=broadcast)
        return looked_up.where(f"is_touched or {expires}")


FULL = FileActionLayout(
    columns=("path_key", "dv_id", "add", "remove", "path"),
    key=("path_key", "dv_id"),
    is_add="add.path is not null",
    deleted_at=DELETED_AT,
    is_same="path_key = other_path_key and dv_id = other_dv_id",
    shuffle_key=("path_key", "dv_id"),
)
"""path_key:    string, not null: the path decoded once.
dv_id:       string, not null: the unique id of the deletion vector, empty without one.
add, remove: structs as in the log, one of them set.
path:        string, not null: the canonical path of the action.
"""

MEASURED = FileActionLayout(
    columns=("key_high", "key_low", *MEASURES),
    key=("key_high", "key_low"),
    is_add="deleted_at is null",
    deleted_at="deleted_at",
    # Spark looks up one long in half the time of two. It compares the other one after a match.
    is_same="key_high = other_key_high and (key_low ^ other_key_low) = 0",
    shuffle_key=("key_high",),
)
"""key_high, key_low (longs, not null): a 128-bit hash of the logical file's key.

Also the columns of MEASURES (longs).
"""


def measured(actions: DataFrame, *others: str) -> DataFrame:
    """Return file actions (FULL) as MEASURED. others: additional columns to keep."""
    actions = actions.selectExpr("*", f"{first_text_sql('add.stats')} as first_text")
    actions = actions.selectExpr("*", f"{first_number_sql('first_text')} as first_number")
    records = checked_number_sql("add.stats", "first_text", "first_number")
    return actions.selectExpr(*others, *_keys("path_key"), *_as_columns({**MEASURES, "records": records}))


def keyed_measures(measures: DataFrame, path_key: str, *others: str) -> DataFrame:
    """Return file actions that already have the columns of MEASURES and `dv_id` as MEASURED.

    path_key: SQL. others: additional columns to keep.
    """
    return measures.selectExpr(*others, *_keys(path_key), *MEASURES)


def _keys(path_key: str) -> tuple[str, str]:
    return f"xxhash64({path_key}, dv_id) as key_high", f"xxhash64(dv_id, {path_key}) as key_low"


def measures_sql() -> list[str]:
    """Return the columns of MEASURED without its key, as SQL over FULL."""
    return _as_columns(MEASURES)


def _as_columns(texts: Mapping[str, str]) -> list[str]:
    return [f"{sql} as {name}" for name, sql in texts.items()]
