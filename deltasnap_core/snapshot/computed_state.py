"""Computes the state of a version, on the suitable engine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.driver.held_files import HeldFiles, action_count
from deltasnap_core.replay.engine import Question, actions_text
from deltasnap_core.replay.known_state import KnownFiles, KnownState
from deltasnap_core.replay.spark.measured_files import measure_files
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.texts.statistics_schema import StatsPolicy
from deltasnap_core.snapshot.table_context import TableContext


def compute_state(
    context: TableContext,
    log: LoadedLog,
    retention: Retention,
    known: KnownState | None = None,
    keep: str | None = None,
) -> KnownState:
    """Return the computed state of a version.

    known: of an earlier version, reused if that is cheaper; None: unknown.
    keep:  the name of Spark's cache for the counted files, which are kept to follow later versions; None: keep none.
    Errors: CorruptLogError, MissingSizeError, SparkRequiredError.
    """
    with translated(log.files):
        if known is not None and known.can_advance_to(log, retention):
            change = known.files.delta(known, log, retention)
            if change is not None:
                state = change.value.applied_to(known.state)
                return replace(known, log=log, state=state, retention=retention, computed_by=change.computed_by)
        count = action_count(log)
        answer = context.engine.answer(
            {Question.COUNT: count},
            work=actions_text(count, "counted"),
            driver=partial(_count_by_driver, context, log, retention, keep),
            spark=partial(_count_on_spark, context, log, retention, keep),
        )
    if known is not None and keep is not None:
        known.files.release()
    files, counted = answer.value
    state = counted.applied_to(None)
    return KnownState(log=log, state=state, retention=retention, files=files, computed_by=answer.computed_by)


def _count_by_driver(
    context: TableContext, log: LoadedLog, retention: Retention, keep: str | None
) -> tuple[KnownFiles, StateDelta]:
    table_log = context.table_log
    return HeldFiles.count(table_log.store, table_log.log_path, log, retention, hold=keep is not None)


def _count_on_spark(
    context: TableContext, log: LoadedLog, retention: Retention, keep: str | None, session: SparkSession
) -> tuple[KnownFiles, StateDelta]:
    least = context.options.cached_counts_from
    is_large = least <= 0 or (log.checkpoint is not None and log.checkpoint.num_rows >= least)
    cache = StateCache(keep) if keep is not None and is_large else None
    reader = context.reader(session, StatsPolicy.NUM_RECORDS)
    files = measure_files(reader, log, cache, partitions=context.options.snapshot_partitions)
    return files, files.count(log, retention)
