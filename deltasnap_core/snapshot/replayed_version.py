"""ReplayedVersion: the file actions of one version, replayed from its log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.errors import CorruptLogError, UnsupportedServerError
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.once import once
from deltasnap_core.protocol.actions import AddFile
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.driver.full_actions import live_adds
from deltasnap_core.replay.driver.held_files import action_count
from deltasnap_core.replay.engine import Question, actions_text
from deltasnap_core.replay.spark.reading.action_reader import PARSED, ActionReader
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE
from deltasnap_core.replay.spark.session.local_rows import arrow_rows, no_rows
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.replay.spark.state_reconstruction import (
    live_files,
    reconciled_files,
    state_actions,
    unexpired_tombstones,
)
from deltasnap_core.replay.stats_policy import StatsPolicy
from deltasnap_core.rules.file_actions import values_of
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.snapshot.table_context import TableContext

_REASON = "file actions as a DataFrame"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReplayedVersion:
    """The file actions of one version as its log states them, each DataFrame created once. Immutable.

    A member that meets a damaged checkpoint raises an error; `without` returns the version that goes on without it.
    See `Snapshot` for the rows and errors.

    min_file_retention_timestamp: None: use the table's property.
    cache: of `state`; None: Spark does not cache it.
    """

    context: TableContext
    log: VersionLog
    min_file_retention_timestamp: int | None = None
    cache: StateCache | None = None

    def without(self, error: CorruptLogError | UnsupportedServerError) -> ReplayedVersion:
        """Return the same version without the checkpoint that a query could not read. Errors: VersionLog.without."""
        return replace(self, log=self.log.without(error))

    @property
    def retention(self) -> Retention:
        """Which tombstones are kept."""
        chosen = self.min_file_retention_timestamp
        return Retention.after(self.log.read().min_file_retention_timestamp if chosen is None else chosen)

    @property
    def read_files(self) -> tuple[Sequence[str], Sequence[str]]:
        """The files of the log that a query reads, and none of a store."""
        return self.log.replayable.files, ()

    @once
    def state(self) -> DataFrame:
        """The reconstructed state as actions."""
        files = self._files
        actions = state_actions(self._session, files, self.log.non_file, self.retention)
        return actions if self.cache is None else self.cache.cached(actions)

    @once
    def all_files(self) -> DataFrame:
        """The live files, with the columns of AddFile."""
        if self.cache is not None and self.cache.is_cached:
            return self.state.where("add.path is not null").select("add.*")
        return self._live(self._files)

    @once
    def all_files_with_stats(self) -> DataFrame:
        """The live files with their statistics, even if `all_files` has none."""
        return self.all_files if self.context.options.load_stats else self._live(self._reconciled(StatsPolicy.ALL))

    def files_with(self, statistics: frozenset[StatisticPath]) -> DataFrame:
        """Return the live files for a query that runs now. The driver reads them if they are few.

        Columns: those of AddFile, and PARSED if a checkpoint has the requested statistics as values. PARSED is only for
        Spark, which reads it three times as fast as JSON. The driver decodes whole actions. If a checkpoint has both,
        it uses the JSON: the structs of parts and commits have no common type in Arrow. Writers must keep both equal.
        """
        count = action_count(self.log.replayable)
        return self.context.engine.answer(
            {Question.ROWS: count},
            work=actions_text(count, "read"),
            driver=self._files_by_driver,
            spark=partial(self._files_on_spark, statistics),
        ).value

    def read_live_files(self) -> list[AddFile]:
        """Return the live files as values, with their statistics. Errors: CorruptLogError."""
        log = self.log.replayable
        with translated(log.files):
            files = reconciled_files(self.context.reader(self._session), log)
            rows = [] if files is None else values_of(live_files(files).toArrow())
        try:
            return [AddFile.from_json(row) for row in rows]
        except ValueError as error:
            raise CorruptLogError(path=self.log.segment.log_path, reason=str(error)) from error

    def tombstones(self, retention: Retention) -> DataFrame:
        """Return the removed files whose tombstones a retention keeps, with the columns of RemoveFile."""
        files = self._files
        return no_rows(self._session, REMOVE) if files is None else unexpired_tombstones(files, retention)

    @property
    def _session(self) -> SparkSession:
        return self.context.session(_REASON)

    @once
    def _files(self) -> DataFrame | None:
        return self._reconciled(self.context.options.stats)

    def _reconciled(self, stats: StatsPolicy) -> DataFrame | None:
        log = self.log.replayable  # first: without a session, an unsupported protocol is the error to report
        with translated(log.files):
            files = self._replayed(self.context.reader(self._session, stats))
            if self.context.options.check_pages and files is not None:
                files.write.format("noop").mode("overwrite").save()
            return files

    def _replayed(self, reader: ActionReader) -> DataFrame | None:
        return reconciled_files(reader, self.log.replayable, partitions=self.context.options.snapshot_partitions)

    def _live(self, files: DataFrame | None) -> DataFrame:
        return no_rows(self._session, ADD) if files is None else live_files(files)

    def _files_by_driver(self) -> DataFrame:
        table_log = self.context.table_log
        adds = live_adds(table_log.store, self.log.replayable, table_log.log_path)
        return arrow_rows(self.context.session("planning of a scan"), adds)

    def _files_on_spark(self, statistics: frozenset[StatisticPath], session: SparkSession) -> DataFrame:
        checkpoint = self.log.replayable.checkpoint
        parts = () if checkpoint is None else checkpoint.files_with_file_actions
        if not statistics or all(part.stats_parsed is None for part in parts):
            return self.all_files_with_stats
        files = self._replayed(self.context.reader(session, parsed=statistics))
        return self.all_files_with_stats if files is None else live_files(files, PARSED)
