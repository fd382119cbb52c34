"""Action reconciliation in Spark: combines a checkpoint and later commits into the state of a version."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.reading.file_action_layout import FULL
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE, STATE
from deltasnap_core.replay.spark.session.local_rows import local_rows
from deltasnap_core.rules.file_actions import vector_sql


def _fields(kind: str, schema: StructType) -> tuple[str, ...]:
    others = {"path": "path", "deletionVector": f"{vector_sql(kind)} as deletionVector"}
    return tuple(others.get(name, f"{kind}.{name}") for name in schema.names)


ADD_COLUMNS, REMOVE_COLUMNS = _fields("add", ADD), _fields("remove", REMOVE)
"""The SQL over FULL for the columns of AddFile and of RemoveFile.

They are single columns, so that Spark reads only the columns that a query needs.
"""

NEXT_VERSION = (
    f"min(version) over (partition by {', '.join(FULL.key)} order by version"
    " range between 1 following and unbounded following)"
)
"""SQL over version and FULL for the next version with an action of the same logical file; null: none.

Not `lead`: a checkpoint may have a file twice, and both rows end with the next version.
"""

_BROADCAST_BYTES = 32 << 20
"""Commits up to this size are sent to every task that scans the base, so that the base is not shuffled."""


def reconciled_files(reader: ActionReader, log: LoadedLog, *, partitions: int | None = None) -> DataFrame | None:
    """Return the newest action of each logical file (FULL), including expired tombstones. None: there are none.

    partitions: the number of shuffle partitions, if there is a shuffle. Delta's `stateReconstruction`.
    Source: PROTOCOL.md, Action Reconciliation.
    """
    base = None if log.checkpoint is None else reader.checkpoint_actions(log.checkpoint)
    commits = reader.commit_actions(log.batch)
    broadcast = is_small(log.batch)
    changed = reader.commit_keys(log.batch) if base is not None and broadcast else None
    return FULL.reconcile(base, commits, broadcast=broadcast, changed=changed, partitions=partitions)


def is_small(batch: CommitBatch) -> bool:
    """Return whether the keys of a batch are few enough to send to every task."""
    return batch.size_in_bytes <= _BROADCAST_BYTES


def live_files(files: DataFrame, *others: str) -> DataFrame:
    """Return the live files of the table: the columns of AddFile, as in PROTOCOL.md, Add File; in any order.

    others: more fields of `add`.
    """
    return files.where("add.path is not null").selectExpr(*ADD_COLUMNS, *(f"add.{name}" for name in others))


def unexpired_tombstones(files: DataFrame, retention: Retention) -> DataFrame:
    """Return the tombstones that have not expired: the columns of RemoveFile; in any order.

    Source: PROTOCOL.md, Action Reconciliation.
    """
    return FULL.unexpired(files.where("remove.path is not null"), retention).selectExpr(*REMOVE_COLUMNS)


def state_actions(
    spark: SparkSession, files: DataFrame | None, non_file: NonFileActions, retention: Retention
) -> DataFrame:
    """Return the whole state as actions (STATE), with one column set in each row; in any order.

    Expired tombstones are left out. The caller must leave expired transactions out of `non_file`.
    """
    small = local_rows(spark, non_file.rows(), STATE)
    if files is None:
        return small
    # Typed nulls: some engines give columns that `unionByName` adds no type.
    missing = (f"cast(null as {field.dataType.simpleString()}) as {field.name}" for field in STATE.fields[2:])
    kept = FULL.unexpired(files, retention)
    return kept.selectExpr(_whole("add", ADD_COLUMNS), _whole("remove", REMOVE_COLUMNS), *missing).unionByName(small)


def _whole(kind: str, columns: tuple[str, ...]) -> str:
    # Rebuilding a struct is expensive: only the rare absolute paths and descriptors without a field need it.
    is_other = f"{kind}.path != path or {kind}.deletionVector is not null and {vector_sql(kind)} is null"
    whole = f"when {is_other} then struct({', '.join(columns)}) else {kind}"
    return f"case when {kind}.path is null then null {whole} end as {kind}"
