"""SnapshotFiles: the live files of a snapshot, for a scan, on the suitable engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.replay.driver.full_actions import live_adds
from deltasnap_core.replay.driver.held_files import action_count
from deltasnap_core.replay.engine import Question, actions_text
from deltasnap_core.replay.spark.reading.action_reader import PARSED
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.state_reconstruction import live_files, reconciled_files
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.snapshot.snapshot_counts import SnapshotCounts
from deltasnap_core.snapshot.snapshot_frames import SnapshotFrames
from deltasnap_core.snapshot.table_context import TableContext

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """The live files of a snapshot, as `ScannedFiles`. The driver reads them for a query if they are few."""

    context: TableContext
    frames: SnapshotFrames
    counts: SnapshotCounts

    def frame(self) -> DataFrame:
        return self.frames.all_files_with_stats

    def run(self, statistics: frozenset[StatisticPath], query: Callable[[DataFrame], T]) -> T:
        return self.frames.run(lambda log: query(self._files_of(log, statistics)))

    def totals(self) -> tuple[int, int] | None:
        return self.counts.totals

    def _files_of(self, log: LoadedLog, statistics: frozenset[StatisticPath]) -> DataFrame:
        """Return the live files for a query that runs now.

        Columns: those of AddFile, and PARSED if a checkpoint has the requested statistics as values. PARSED is only for
        Spark, which reads it three times as fast as JSON. The driver decodes whole actions. If a checkpoint has both,
        it uses the JSON: the structs of parts and commits have no common type in Arrow. Writers must keep both equal.
        """
        context, count = self.context, action_count(log)

        def by_driver() -> DataFrame:
            adds = live_adds(context.table_log.store, log, context.table_log.log_path)
            return arrow_rows(context.session("planning of a scan"), adds)

        def on_spark(session: SparkSession) -> DataFrame:
            parts = () if log.checkpoint is None else log.checkpoint.files_with_file_actions
            if not statistics or all(part.stats_parsed is None for part in parts):
                return self.frame()
            reader = context.reader(session, parsed=statistics)
            files = reconciled_files(reader, log, partitions=context.options.snapshot_partitions)
            return self.frame() if files is None else live_files(files, PARSED)

        work = actions_text(count, "read")
        return context.engine.answer({Question.ROWS: count}, work=work, driver=by_driver, spark=on_spark).value
