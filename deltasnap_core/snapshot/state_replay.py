"""StateReplay: the computed state of a version, on the suitable engine."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.driver.held_files import HeldFiles, action_count
from deltasnap_core.replay.engine import Answer, Question, actions_text
from deltasnap_core.replay.known_state import KnownFiles, KnownState
from deltasnap_core.replay.spark.measured_files import measure_files
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.replay.stats_policy import StatsPolicy
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
                state = change.value.applied_to(known.state)
                return replace(known, log=log, state=state, retention=retention, computed_by=change.computed_by)
        answer = self._count(log, retention)
        if known is not None and self._keep:
            known.files.release()
        files, counted = answer.value
        state = counted.applied_to(None)
        return KnownState(log=log, state=state, retention=retention, files=files, computed_by=answer.computed_by)

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
        is_large = least <= 0 or (log.checkpoint is not None and log.checkpoint.num_rows >= least)
        return StateCache(self._name) if self._keep and is_large else None
