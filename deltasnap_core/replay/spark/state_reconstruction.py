"""Action reconciliation: from the actions of a checkpoint and of the commits after it to the state of a version."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.replay.spark.file_action_layout import FULL, FileActionLayout
from deltasnap_core.replay.spark.local_rows import local_rows
from deltasnap_core.replay.spark.schemas import ADD, REMOVE, STATE

ADD_COLUMNS = ("path", *(f"add.{name}" for name in ADD.names if name != "path"))
REMOVE_COLUMNS = ("path", *(f"remove.{name}" for name in REMOVE.names if name != "path"))
"""What to select of FULL for the columns of AddFile and of RemoveFile: column by column, so that Spark reads no
more of a file than is asked for."""

BROADCAST_BYTES = 32 << 20
"""Commits up to this size are sent to every task that scans the base, so that the base is never shuffled."""


def newest_file_actions(
    commits: DataFrame, layout: FileActionLayout = FULL, *, within: tuple[str, ...] = ()
) -> DataFrame:
    """Return the newest action of each logical file among commits.

    In:  the columns of the layout, commit_version, line_number.
    Out: the same columns, and others; one row a key of the layout, or a (*within, key).
    An add and a remove of one key in one commit: the add wins. The protocol does not settle it; a test pins it.
    Source: PROTOCOL.md, Action Reconciliation.
    """
    key = ", ".join((*within, *layout.key))
    newest_first = f"commit_version desc, {layout.is_add} desc, line_number desc"
    rank = f"row_number() over (partition by {key} order by {newest_first})"
    return commits.selectExpr("*", f"{rank} as rank").where("rank = 1")


def reconcile(
    base: DataFrame | None,
    commits: DataFrame | None,
    layout: FileActionLayout = FULL,
    *,
    broadcast: bool,
    partitions: int | None = None,
) -> DataFrame | None:
    """Put the newest actions of commits over a base that is reconciled already: a checkpoint, or a stored state.

    In:  base: the columns of the layout, one row a key; commits as `newest_file_actions` takes them. None: no rows.
    Out: the columns of the layout, one row a key, any order. The base is scanned and never shuffled when the keys are
         broadcast.

    partitions: of the shuffles, where the keys are not broadcast; None: as many as Spark makes.
    Source: PROTOCOL.md, Action Reconciliation. Delta's `stateReconstruction`, whose tasks run `InMemoryLogReplay`.
    """
    if commits is None:
        return base
    if not broadcast:
        commits = layout.partitioned(commits, partitions)
    newest = newest_file_actions(commits, layout).selectExpr(*layout.columns)
    if base is None:
        return newest
    # Some keys are there twice: to find that out takes longer than to send them.
    rest = base if broadcast else layout.partitioned(base, partitions)
    return layout.join(rest, commits, how="left_anti", broadcast=broadcast).union(newest)


def live_files(files: DataFrame, *others: str) -> DataFrame:
    """Return the files of the table: the columns of AddFile, as PROTOCOL.md, Add File has them; any order.

    others: more fields of `add`.
    """
    return files.where("add.path is not null").select(*ADD_COLUMNS, *(f"add.{name}" for name in others))


def unexpired_tombstones(files: DataFrame, retention: Retention) -> DataFrame:
    """Return what was removed and has not expired: the columns of RemoveFile; any order.

    Source: PROTOCOL.md, Action Reconciliation.
    """
    return FULL.unexpired(files.where("remove.path is not null"), retention).select(*REMOVE_COLUMNS)


def state_actions(
    spark: SparkSession, files: DataFrame | None, non_file: NonFileActions, retention: Retention
) -> DataFrame:
    """Return the whole state as actions (STATE), one of the columns set in each row; any order.

    Expired tombstones are left out; transactions that have expired are the caller's to leave out of `non_file`.
    """
    small = local_rows(spark, non_file.rows(), STATE)
    if files is None:
        return small
    kept = FULL.unexpired(files, retention)
    missing: list[Column] = [F.lit(None).cast(field.dataType).alias(field.name) for field in STATE.fields[2:]]
    return kept.select(_with_path("add"), _with_path("remove"), *missing).unionByName(small)


def _with_path(kind: str) -> Column:
    # A struct made anew is never cheap: all but the rare absolute paths keep theirs.
    action, path = F.col(kind), F.col("path")
    return F.when(F.expr(f"{kind}.path != path"), action.withField("path", path)).otherwise(action).alias(kind)
