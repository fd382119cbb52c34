"""What the snapshots of one table have in common."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from deltasnap_core.log.log_segment_builder import LogSegmentBuilder
from deltasnap_core.replay.load_actions import ActionReader
from deltasnap_core.snapshot.loaded_log import LogLoader
from deltasnap_core.snapshot.options import SnapshotOptions
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.storage.spark_files import SparkFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContext:
    """Where a table is, and what reads it; nothing in it changes.

    log_path: URL of the `_delta_log` folder.
    """

    spark: SparkSession
    store: LogStore
    files: SparkFiles
    log_path: str
    options: SnapshotOptions

    @property
    def builder(self) -> LogSegmentBuilder:
        """Finds the log segments of the table."""
        return LogSegmentBuilder(store=self.store, log_path=self.log_path)

    @property
    def loader(self) -> LogLoader:
        """Reads the log segments of the table."""
        return LogLoader(store=self.store, builder=self.builder)

    def reader(self, *, counts_only: bool = False) -> ActionReader:
        """Reads the file actions of the table; counts_only: no more than the computed state needs."""
        return ActionReader(spark=self.spark, files=self.files, log_path=self.log_path, counts_only=counts_only)
