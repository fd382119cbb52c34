"""A log without a Spark session: queries that need one raise SparkRequiredError."""

from __future__ import annotations

from deltasnap_core import DeltaLog, SnapshotOptions, TableLog
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.snapshot.table_context import TableContext


def log_without_spark(table: TableLog) -> DeltaLog:
    """Return the log of a table without a Spark session."""
    sessions = GivenSession(None)
    context = TableContext(
        engine=ReplayEngine(sessions), table_log=table, files=SparkFiles.of(None, sessions), options=SnapshotOptions()
    )
    return DeltaLog(context, staleness_limit_ms=0)
