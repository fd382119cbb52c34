"""Action reconciliation: from the actions of a checkpoint and of the commits after it to the state of a version."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.replay.action_form import ActionForm
from deltasnap_core.replay.load_actions import WHOLE
from deltasnap_core.replay.local_rows import local_rows
from deltasnap_core.replay.schemas import ADD, REMOVE, STATE

ADD_COLUMNS = ("path", *(f"add.{name}" for name in ADD.names if name != "path"))
REMOVE_COLUMNS = ("path", *(f"remove.{name}" for name in REMOVE.names if name != "path"))
"""What to select of ACTIONS for the columns of AddFile and of RemoveFile: column by column, so that Spark reads no
more of a file than is asked for."""

BROADCAST_BYTES = 32 << 20
"""Commits up to this size are sent to every task that scans the base, so that the base is never shuffled."""


def newest_file_actions(commits: DataFrame, form: ActionForm = WHOLE, *, within: tuple[str, ...] = ()) -> DataFrame:
    """Keep the newest action of each logical file among commits.

    In:  the columns of the form, commit_version, line_number.
    Out: the same columns, and others; one row a key of the form, or a (*within, key).
    An add and a remove of one key in one commit: the add wins. The protocol does not settle it; a test pins it.
    Source: PROTOCOL.md, Action Reconciliation.
    """
    key = ", ".join((*within, *form.key))
    newest_first = f"commit_version desc, {form.is_add} desc, line_number desc"
    rank = f"row_number() over (partition by {key} order by {newest_first})"
    return commits.selectExpr("*", f"{rank} as rank").where("rank = 1")


def reconcile(
    base: DataFrame | None, commits: DataFrame | None, form: ActionForm = WHOLE, *, broadcast: bool
) -> DataFrame | None:
    """Put the newest actions of commits over a base that is reconciled already: a checkpoint, or a stored state.

    In:  base: the columns of the form, one row a key; commits as `newest_file_actions` takes them. None: no rows.
    Out: the columns of the form, one row a key, any order. The base is scanned and never shuffled when the keys are
         broadcast.
    """
    if commits is None:
        return base
    newest = newest_file_actions(commits, form).selectExpr(*form.columns)
    if base is None:
        return newest
    # Some keys are there twice: to find that out takes longer than to send them.
    return form.join(base, commits, how="left_anti", broadcast=broadcast).union(newest)


def live_files(files: DataFrame) -> DataFrame:
    """Give the files of the table: the columns of AddFile, as PROTOCOL.md, Add File has them; any order."""
    return files.where("add.path is not null").select(*ADD_COLUMNS)


def unexpired_tombstones(files: DataFrame, min_file_retention_timestamp: int) -> DataFrame:
    """Give what was removed and has not expired: the columns of RemoveFile; any order.

    Source: PROTOCOL.md, Action Reconciliation.
    """
    return files.where(unexpired_tombstone(min_file_retention_timestamp)).select(*REMOVE_COLUMNS)


def unexpired_tombstone(min_file_retention_timestamp: int) -> str:
    """Give the condition for a tombstone to be kept: deleted after that time (ms, strictly); without a time, in 1970.

    0 keeps every tombstone.
    """
    if min_file_retention_timestamp <= 0:
        return "remove.path is not null"
    return f"coalesce(remove.deletionTimestamp, 0) > {min_file_retention_timestamp} and remove.path is not null"


def state_actions(
    spark: SparkSession, files: DataFrame | None, non_file: NonFileActions, min_file_retention_timestamp: int
) -> DataFrame:
    """Give the whole state as actions (STATE), one of the columns set in each row; any order.

    Expired tombstones are left out; transactions that have expired are the caller's to leave out of `non_file`.
    """
    small = local_rows(spark, _rows(non_file), STATE)
    if files is None:
        return small
    kept = files.where(f"add.path is not null or {unexpired_tombstone(min_file_retention_timestamp)}")
    missing: list[Column] = [F.lit(None).cast(field.dataType).alias(field.name) for field in STATE.fields[2:]]
    return kept.select(_with_path("add"), _with_path("remove"), *missing).unionByName(small)


def _with_path(kind: str) -> Column:
    # A struct made anew is never cheap: all but the rare absolute paths keep theirs.
    action, path = F.col(kind), F.col("path")
    return F.when(F.expr(f"{kind}.path != path"), action.withField("path", path)).otherwise(action).alias(kind)


def _rows(non_file: NonFileActions) -> list[dict[str, Any]]:
    actions: list[tuple[str, Any]] = [("protocol", non_file.protocol), ("metaData", non_file.metadata)]
    actions += [("txn", transaction) for transaction in non_file.transactions.values()]
    actions += [("domainMetadata", domain) for domain in non_file.domains.values()]
    return [{name: action.to_json()} for name, action in actions if action is not None]
