"""SnapshotFrames: the file actions of one version as DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import DataFrame

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.once import forget_all, once
from deltasnap_core.protocol.actions import AddFile
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.replay.spark.fallback import with_fallback
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE
from deltasnap_core.replay.spark.session.local_rows import no_rows
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.replay.spark.state_reconstruction import (
    live_files,
    reconciled_files,
    state_actions,
    unexpired_tombstones,
)
from deltasnap_core.replay.stats_policy import StatsPolicy
from deltasnap_core.rules.file_actions import values_of
from deltasnap_core.snapshot.table_context import TableContext

_REASON = "file actions as a DataFrame"
T = TypeVar("T")


class SnapshotFrames:
    """The file actions of one version, each DataFrame created once. See `Snapshot` for their rows and errors.

    They read one loaded log. If a query finds its checkpoint damaged, all of them are dropped.

    min_file_retention_timestamp: None: use the table's property.
    cache: of `state`; None: Spark does not cache it.
    """

    def __init__(
        self,
        context: TableContext,
        log: VersionLog,
        *,
        min_file_retention_timestamp: int | None = None,
        cache: StateCache | None = None,
    ) -> None:
        self._context = context
        self._log = log
        self._chosen_retention_timestamp = min_file_retention_timestamp
        self._cache = cache

    @property
    def min_file_retention_timestamp(self) -> int:
        """Tombstones of this time (ms) or before have expired; 0: none have."""
        chosen = self._chosen_retention_timestamp
        return self._log.min_file_retention_timestamp if chosen is None else chosen

    @property
    def retention(self) -> Retention:
        """Which tombstones are kept."""
        return Retention.after(self.min_file_retention_timestamp)

    @once
    def state(self) -> DataFrame:
        """The reconstructed state as actions."""
        files = self._files
        actions = state_actions(self._context.session(_REASON), files, self._log.non_file, self.retention)
        return actions if self._cache is None else self._cache.cached(actions)

    @once
    def all_files(self) -> DataFrame:
        """The live files, with the columns of AddFile."""
        if self._cache is not None and self._cache.is_cached:
            return self.state.where("add.path is not null").select("add.*")
        if self._files is None:
            return no_rows(self._context.session(_REASON), ADD)
        return live_files(self._files)

    @once
    def all_files_with_stats(self) -> DataFrame:
        """The live files with their statistics, even if `all_files` has none."""
        if self._context.options.load_stats:
            return self.all_files
        files = self.run(lambda log: self._reconciled(log, self._reader()))
        return no_rows(self._context.session(_REASON), ADD) if files is None else live_files(files)

    @once
    def tombstones(self) -> DataFrame:
        """The removed files whose tombstones have not expired, with the columns of RemoveFile."""
        self._log.rely_on_log()  # its properties decide what has expired
        return self._tombstones(self.retention)

    def every_tombstone(self) -> DataFrame:
        """Return every tombstone of the log, expired or not, with the columns of RemoveFile."""
        return self._tombstones(KEEP_ALL)

    def read_live_files(self) -> list[AddFile]:
        """Return the live files as values, with their statistics. Errors: CorruptLogError."""

        def collected(log: LoadedLog) -> list[AddFile]:
            files = reconciled_files(self._reader(), log)
            rows = [] if files is None else values_of(live_files(files).toArrow())
            try:
                return [AddFile.from_json(row) for row in rows]
            except ValueError as error:
                raise CorruptLogError(path=self._log.segment.log_path, reason=str(error)) from error

        return self.run(collected)

    def run(self, query: Callable[[LoadedLog], T]) -> T:
        """Return the result of a query over the log. If its checkpoint is damaged, the query runs without it."""
        return with_fallback(self._log.replayable, query, self._fall_back)

    def _fall_back(self, log: LoadedLog, error: CorruptLogError) -> LoadedLog:
        replayable = self._log.fall_back(log, error)
        forget_all(self)  # the DataFrames read the damaged checkpoint
        return replayable

    @once
    def _files(self) -> DataFrame | None:
        return self.run(lambda log: self._reconciled(log, self._reader(self._context.options.stats)))

    def _tombstones(self, retention: Retention) -> DataFrame:
        if self._files is None:
            return no_rows(self._context.session(_REASON), REMOVE)
        return unexpired_tombstones(self._files, retention)

    def _reader(self, stats: StatsPolicy = StatsPolicy.ALL) -> ActionReader:
        return self._context.reader(self._context.session(_REASON), stats)

    def _reconciled(self, log: LoadedLog, reader: ActionReader) -> DataFrame | None:
        options = self._context.options
        files = reconciled_files(reader, log, partitions=options.snapshot_partitions)
        if options.check_pages and files is not None:
            files.write.format("noop").mode("overwrite").save()
        return files
