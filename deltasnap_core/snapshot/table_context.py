"""The parts that all snapshots of one table share."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from deltasnap_core.log.table_log import TableLog
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.rules.texts.statistics_schema import StatisticPath, StatsPolicy
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """The location of a table and the objects that read it. Immutable."""

    engine: ReplayEngine
    table_log: TableLog
    files: SparkFiles
    options: SnapshotOptions

    def session(self, reason: str) -> SparkSession:
        """Return the Spark session. reason: its purpose, for errors. Errors: SparkRequiredError."""
        return self.engine.sessions.session(reason)

    def reader(
        self,
        spark: SparkSession,
        stats: StatsPolicy = StatsPolicy.ALL,
        parsed: frozenset[StatisticPath] = frozenset(),
    ) -> ActionReader:
        """Return a reader of file actions on Spark. stats, parsed: as in ActionReader."""
        return ActionReader(spark=spark, files=self.files, log_path=self.table_log.log_path, stats=stats, parsed=parsed)
