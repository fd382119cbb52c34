"""StateReplay: the computed state and the live files of a version, each on the chosen engine."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.replay.driver.full_actions import live_adds
from deltasnap_core.replay.driver.held_files import HeldFiles, action_count
from deltasnap_core.replay.engine import Answer, Question, actions_text
from deltasnap_core.replay.known_state import KnownFiles, KnownState
from deltasnap_core.replay.spark.measured_files import measure_files
from deltasnap_core.replay.spark.reading.action_reader import PARSED
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.replay.spark.state_reconstruction import live_files, reconciled_files
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.replay.stats_policy import StatsPolicy
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.snapshot.table_context import TableContext


class StateReplay:
    """Replays the log of one snapshot. Later snapshots reuse the files that it keeps."""

    def __init__(self, context: TableContext, name: str, *, keep: bool) -> None:
        """Create a replay. name: of Spark's cache. keep: keep the counted files to follow later versions."""
        self._context = context
        self._name = name
        self._keep = keep

    def compute(self, log: LoadedLog, retention: Retention, known: KnownState | None) -> KnownState:
        """Return the computed state of a version.

        known: of an earlier version, reused if that is cheaper; None: unknown.
        Errors: CorruptLogError, MissingSizeError, SparkRequiredError.
        """
        if known is not None and known.can_advance_to(log, retention):
            change = known.files.delta(known, log, retention)
            if change is not None:
                return _known(log, retention, known.files, change.value.applied_to(known.state), change.computed_by)
        answer = self._count(log, retention)
        if known is not None and self._keep:
            known.files.release()
        files, counted = answer.value
        return _known(log, retention, files, counted.applied_to(None), answer.computed_by)

    def files_to_query(
        self, log: LoadedLog, statistics: frozenset[StatisticPath], frame: Callable[[], DataFrame]
    ) -> DataFrame:
        """Return the live files for a query that runs now. frame: returns them as reconstructed by Spark.

        Columns: those of AddFile, and PARSED if a checkpoint has the requested statistics as values. PARSED is only for
        Spark, which reads it three times as fast as JSON. The driver decodes whole actions. If a checkpoint has both,
        it uses the JSON: the structs of parts and commits have no common type in Arrow. Writers must keep both equal.
        """
        context, count = self._context, action_count(log)

        def by_driver() -> DataFrame:
            adds = live_adds(context.table_log.store, log, context.table_log.log_path)
            return arrow_rows(context.session("planning of a scan"), adds)

        def on_spark(session: SparkSession) -> DataFrame:
            parts = () if log.contents is None else log.contents.files_with_file_actions
            if not statistics or all(part.stats_parsed is None for part in parts):
                return frame()
            reader = context.reader(session, parsed=statistics)
            files = reconciled_files(reader, log, partitions=context.options.snapshot_partitions)
            return frame() if files is None else live_files(files, PARSED)

        work = actions_text(count, "read")
        return context.engine.answer({Question.ROWS: count}, work=work, driver=by_driver, spark=on_spark).value

    def close(self) -> None:
        """Keep no files from now on."""
        self._keep = False

    def _count(self, log: LoadedLog, retention: Retention) -> Answer[tuple[KnownFiles, StateDelta]]:
        context, count = self._context, action_count(log)

        def by_driver() -> tuple[KnownFiles, StateDelta]:
            return HeldFiles.count(context.table_log.store, context.table_log.log_path, log, retention, hold=self._keep)

        def on_spark(session: SparkSession) -> tuple[KnownFiles, StateDelta]:
            reader = context.reader(session, StatsPolicy.NUM_RECORDS)
            files = measure_files(reader, log, self._cache(log), partitions=context.options.snapshot_partitions)
            return files, files.count(log, retention)

        work = actions_text(count, "counted")
        return context.engine.answer({Question.COUNT: count}, work=work, driver=by_driver, spark=on_spark)

    def _cache(self, log: LoadedLog) -> StateCache | None:
        least = self._context.options.cached_counts_from
        is_large = least <= 0 or (log.contents is not None and log.contents.num_rows >= least)
        return StateCache(self._name) if self._keep and is_large else None


def _known(
    log: LoadedLog, retention: Retention, files: KnownFiles, state: SnapshotState, computed_by: str
) -> KnownState:
    return KnownState(log=log, state=state, retention=retention, files=files, computed_by=computed_by)
