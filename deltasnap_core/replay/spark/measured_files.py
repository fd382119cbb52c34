"""MeasuredFiles: the measured files of a version, and their counts, in Spark."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.engine import Answer
from deltasnap_core.replay.known_state import KnownState
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.reading.file_action_layout import MEASURED, measured
from deltasnap_core.replay.spark.session.state_cache import StateCache, job_description
from deltasnap_core.replay.spark.state_deltas import counted, totals_between
from deltasnap_core.replay.spark.state_reconstruction import is_small
from deltasnap_core.replay.state_delta import StateDelta


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFiles:
    """The measured files of a version in Spark. A KnownFiles.

    rows:  MEASURED; None: no files.
    cache: keeps the rows in Spark's storage; None: they are not cached.
    """

    reader: ActionReader
    version: int
    rows: DataFrame | None
    cache: StateCache | None

    def count(self, log: LoadedLog, retention: Retention) -> StateDelta:
        """Return the StateDelta that counts the files, from one aggregation. Errors: MissingSizeError."""
        with self._described(log):
            return counted(self.rows, log.non_file, retention)

    def delta(self, known: KnownState, log: LoadedLog, retention: Retention) -> Answer[StateDelta]:
        """Return the changes of the commits after a known state. See KnownFiles."""
        since = log.batch.after(self.version)
        with self._described(log):
            earlier = self.reader.commit_measures(since.up_to(known.log.version))
            newer = self.reader.commit_measures(since.after(known.log.version))
            begun, ended = totals_between(self.rows, earlier, newer, known.retention, retention)
        change = StateDelta(begun=begun, ended=ended, non_file=log.non_file)
        return Answer(value=change, computed_by=known.computed_by)

    def release(self) -> None:
        """Remove the rows from Spark's storage."""
        if self.cache is not None:
            self.cache.release()

    def _described(self, log: LoadedLog) -> AbstractContextManager[None]:
        return job_description(self.reader.spark, f"Delta: Compute snapshot for version: {log.version}")


def measure_files(
    reader: ActionReader, log: LoadedLog, cache: StateCache | None, *, partitions: int | None
) -> MeasuredFiles:
    """Return the measured files of a version, cached if `cache` is given."""
    checkpoint = None if log.checkpoint is None else reader.checkpoint_actions(log.checkpoint)
    base = None if checkpoint is None else measured(checkpoint)
    commits = reader.commit_measures(log.batch)
    rows = MEASURED.reconcile(base, commits, broadcast=is_small(log.batch), partitions=partitions)
    if rows is not None and cache is not None:
        rows = cache.cached(rows)
    return MeasuredFiles(reader=reader, version=log.version, rows=rows, cache=cache)
