"""DeltaLog: the entry point to a table. It only connects the other parts."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from threading import Lock
from typing import Any, ClassVar, Unpack
from weakref import WeakValueDictionary

from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.clock import Clock, milliseconds, system_clock
from deltasnap_core.errors import DeltaTableNotFoundError, VersionGapError, VersionNotFoundError
from deltasnap_core.log.catalog import Catalog, located
from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from deltasnap_core.log.listing.catalog_commits import CatalogCommits
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import check_versions
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.protocol.properties.retention import KEEPS_EVERYTHING
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.replay.sessions import SparkProvider, provider_of
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.scan.changes.row_changes import RowChangeOptions, check_options
from deltasnap_core.scan.file_changes import FileChanges
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.search.known_versions import KnownVersions
from deltasnap_core.scan.tables.history_frame import history_frame
from deltasnap_core.snapshot.checkpoints.checkpoint_permission import check_not_protected, check_writer
from deltasnap_core.snapshot.checkpoints.checkpoint_writer import CheckpointWriter
from deltasnap_core.snapshot.checkpoints.written_checkpoint import WrittenCheckpoint
from deltasnap_core.snapshot.row_changes_of_log import read_row_changes
from deltasnap_core.snapshot.session_properties import (
    staleness_limit_ms as session_staleness_limit_ms,
    with_session_defaults,
)
from deltasnap_core.snapshot.snapshot import Snapshot
from deltasnap_core.snapshot.snapshot_management import SnapshotManagement
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.temporary_options import key_of_options
from deltasnap_core.storage.urls import join_url, to_url
from deltasnap_core.storage.writable_files import WritableFiles

_MAX_TABLES_KEPT = 100


@safe_repr
class DeltaLog:
    """One table in one Spark session: its current snapshot, earlier versions and history. Thread-safe.

    Get one with `for_table`. `snapshot` and `update` return the InitialSnapshot if the table does not exist yet.
    """

    _kept: ClassVar[OrderedDict[tuple[Any, ...], DeltaLog]] = OrderedDict()
    _all: ClassVar[WeakValueDictionary[tuple[Any, ...], DeltaLog]] = WeakValueDictionary()
    _registry_lock = Lock()

    def __init__(self, context: TableContext, *, staleness_limit_ms: int) -> None:
        self._context = context
        self._management = SnapshotManagement(context, staleness_limit_ms=staleness_limit_ms)
        self.history = context.table_log.history
        """The commits of the log. Of a catalog-managed table, only published ones if there is no catalog."""

    @classmethod
    def for_table(
        cls,
        spark: SparkSession | SparkProvider | None,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        staleness_limit_ms: int | None = None,
        options: SnapshotOptions | None = None,
        store: LogStore | None = None,
        catalog: Catalog | None = None,
    ) -> DeltaLog:
        """Return the DeltaLog of a table and session. The same arguments return the same object.

        spark:              a session, or a provider of one; None: only operations without Spark.
        path:               folder or URL of the table; its name, if there is a `catalog`.
        storage_options:    for fsspec, passed to the URL's filesystem.
        clock:              returns the current time in ms since the epoch; default: the system clock.
        staleness_limit_ms: the maximum age of an update for which `update(staleness_acceptable=True)` returns the
                            cached snapshot. None: the session's `spark.databricks.delta.stalenessLimit`, otherwise 0.
        options:            None, and fields that are None: use the session's properties, see SnapshotOptions.
        store:              reads the log instead of fsspec.
        catalog:            knows the table by its name. `storage_options` replace those that it gives. If the catalog
                            manages the table, each listing of the log asks for the commits that it ratified.
        The last hundred tables stay cached, with all data read from them, even if they are no longer used.
        Errors: ValueError for an invalid session property; CatalogError.
        """
        if catalog is not None:
            table = located(catalog, os.fspath(path), storage_options)
            path, storage_options = table.location, table.storage_options
        url = to_url(path)
        sessions = provider_of(spark)
        options = with_session_defaults(sessions, options or SnapshotOptions())
        if staleness_limit_ms is None:
            staleness_limit_ms = session_staleness_limit_ms(sessions)
        # The DeltaLog holds every object named by its id here, so the id stays valid as long as the key.
        key = (url, key_of_options(storage_options), options, staleness_limit_ms, id(spark), id(clock), id(store))
        with cls._registry_lock:
            log = cls._all.get(key)
            if log is None:
                log_path, log_store = join_url(url, LOG_FOLDER), store or FsspecLogStore(storage_options)
                context = TableContext(
                    engine=ReplayEngine(sessions, options.engine),
                    table_log=TableLog(log_store, log_path, clock=clock or system_clock),
                    files=SparkFiles.of(storage_options, sessions),
                    options=options,
                )
                cls._all[key] = log = cls(context, staleness_limit_ms=staleness_limit_ms)
            cls._kept[key] = log
            cls._kept.move_to_end(key)
            while len(cls._kept) > _MAX_TABLES_KEPT:
                cls._kept.popitem(last=False)
            return log

    @classmethod
    def clear_cache(cls) -> None:
        """Remove every DeltaLog from the cache, and release the data that Spark caches for them.

        Existing objects keep working.
        """
        with cls._registry_lock:
            logs = list(cls._all.values())
            cls._kept.clear()
            cls._all.clear()
        for log in logs:
            log.close()

    def __repr__(self) -> str:
        return f"DeltaLog({redacted(self.path)})"

    @property
    def path(self) -> str:
        """URL of the `_delta_log` folder."""
        return self._context.table_log.log_path

    @property
    def context(self) -> TableContext:
        """The objects that read the table, for code that reads its log differently, such as the snapshot store."""
        return self._context

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot, loaded on first use; not updated."""
        return self._management.snapshot

    @property
    def last_update_timestamp(self) -> int:
        """When (ms) the last update began; -1: no update yet."""
        return self._management.last_update_timestamp

    @property
    def is_snapshot_stale(self) -> bool:
        """Whether the last update is older than the staleness limit; always True for 0. Delta's `isSnapshotStale`."""
        return self._management.is_snapshot_stale

    def update(
        self,
        staleness_acceptable: bool = False,
        check_if_updated_since_ts: int | None = None,
        *,
        log_tail: Sequence[FileStatus] = (),
        max_catalog_version: int | None = None,
    ) -> Snapshot:
        """Return the current snapshot after checking for new commits; the InitialSnapshot if there is no table.

        staleness_acceptable:      return the cached snapshot without waiting, unless it is stale; at most one update
                                   then runs in the background.
        check_if_updated_since_ts: do nothing if an update began at this time (ms) or later.
        log_tail, max_catalog_version: the commits of the catalog of a catalog-managed table; see CatalogCommits.
        Files that were read are recognized by name, size and modification time. A restore may keep all three of a
        commit and change its content; then call `clear_cache` first. (The snapshot store compares digests.)
        Errors: VersionGapError, CorruptLogError, ActionNotFoundError, StorageError.
        """
        catalog = CatalogCommits(log_tail=tuple(log_tail), max_version=max_catalog_version)
        return self._management.update(staleness_acceptable, check_if_updated_since_ts, catalog)

    def update_after_commit(
        self,
        committed_version: int,
        new_checksum: VersionChecksum | None = None,
        pre_commit_segment: LogSegment | None = None,
    ) -> Snapshot:
        """Return a snapshot of the version just committed, or of a later one. Delta's `updateAfterCommit`.

        new_checksum:       the version's checksum, from the committer.
        pre_commit_segment: the segment of the previous version; with it, only the new commit is looked up, without a
                            listing.
        Errors: VersionNotFoundError if a listing does not show the commit; StorageError.
        """
        check_versions(committed_version)
        return self._management.update_after_commit(committed_version, new_checksum, pre_commit_segment)

    def get_log_segment_after_commit(
        self, committed_version: int, pre_commit_segment: LogSegment | None = None
    ) -> LogSegment:
        """Return a segment of the version just committed, or of a later one. Delta's `getLogSegmentAfterCommit`.

        pre_commit_segment and errors: as in update_after_commit.
        """
        check_versions(committed_version)
        return self._management.get_log_segment_after_commit(committed_version, pre_commit_segment)

    def get_snapshot_at(
        self,
        version: int | None = None,
        *,
        timestamp: datetime | int | None = None,
        last_checkpoint_hint: LastCheckpointInfo | None = None,
        min_file_retention_timestamp: int | None = None,
        can_return_last_commit: bool = False,
        can_return_earliest_commit: bool = False,
        log_tail: Sequence[FileStatus] = (),
        max_catalog_version: int | None = None,
    ) -> Snapshot:
        """Return the snapshot of a version, or of the last version committed at or before a time.

        timestamp:                    a datetime (without a zone: local time) or ms since the epoch.
        last_checkpoint_hint:         a checkpoint to start the listing from; None: that of the current snapshot.
        min_file_retention_timestamp: tombstones of this time (ms) or before have expired; 0: none have; None: use the
                                      table's property.
        can_return_last_commit:       return the last version for a time after it; otherwise that is an error.
        can_return_earliest_commit:   return the earliest version for a time before it; otherwise that is an error.
        log_tail, max_catalog_version: the commits of the catalog of a catalog-managed table; see CatalogCommits.
        Errors: ValueError unless exactly one of version and timestamp is given; DeltaTableNotFoundError,
        VersionNotFoundError, TimestampNotFoundError (both state the existing range), VersionGapError.
        Delta's `getSnapshotAt`.
        """
        if (version is None) == (timestamp is None):
            raise ValueError("Expected either a version or a timestamp")
        catalog = CatalogCommits(log_tail=tuple(log_tail), max_version=max_catalog_version)
        if version is None:
            history = DeltaHistoryManager(self._context.table_log.store, self.path, catalog=catalog)
            version = history.get_active_commit_at_time(
                milliseconds(timestamp),
                can_return_last_commit=can_return_last_commit,
                can_return_earliest_commit=can_return_earliest_commit,
            ).version
        return self._management.get_snapshot_at(
            version,
            last_checkpoint_hint=last_checkpoint_hint,
            min_file_retention_timestamp=min_file_retention_timestamp,
            catalog=catalog,
        )

    def checkpoint(self, version: int | None = None) -> WrittenCheckpoint:
        """Write a checkpoint of a version into the table's log, and return it. None: the latest version.

        This writes to the table: the checkpoint, and `_last_checkpoint` unless that names a newer one. It deletes no
        commit. The checkpoint is written under a temporary name, read back and compared with the version before it is
        put in place. If the version has a checkpoint already, or another writer is faster, the existing one is returned
        (`is_new` False).
        Classic, or V2 with sidecars if `delta.checkpointPolicy` is `v2`. It follows `delta.checkpoint.writeStatsAsJson`
        and `writeStatsAsStruct`, and leaves out expired tombstones and transactions. It needs Spark, and writes through
        fsspec: `store` only reads.
        Errors: as get_snapshot_at, CorruptLogError also for an invalid property that decides what a checkpoint leaves
        out; UnsupportedWriterError naming the features, ProtectedVersionError, CheckpointMismatchError, LogChangedError
        and StorageError. After an error, the table is unchanged.
        Source: PROTOCOL.md, Checkpoints. Delta's `Checkpoints.checkpoint`, without the cleanup of the log.
        """
        newest = self.update()
        if newest.version < 0:
            raise DeltaTableNotFoundError(path=self._context.table_log.table_path)
        snapshot = newest if version in (None, newest.version) else self.get_snapshot_at(version)
        for each in (newest.log.read(), snapshot.log.read()):  # a wrong checksum must not allow what the log forbids
            check_writer(each.table_path, each.version, each.protocol, each.metadata, each.place_of_metadata)
        check_not_protected(self._context.table_log.table_path, snapshot.version, newest.protocol, newest.metadata)
        storage, segment = WritableFiles(self.path, self._context.files.storage_options), snapshot.log_segment
        read = (*segment.deltas, *segment.checkpoint_provider.files)
        return CheckpointWriter(context=self._context, storage=storage, snapshot=snapshot, read=read).write()

    def file_changes(self, from_version: int, to_version: int, *, options: ScanOptions | None = None) -> FileChanges:
        """Return the files that were added or removed, net, from one version to another.

        `to_version` may be the earlier one. Of a catalog-managed table, the commits of the catalog count if the later
        one is the current snapshot.
        Errors: as get_snapshot_at.
        """
        first, last = sorted((from_version, to_version))
        later = self._with_commits_after(first, last)
        earlier = self._management.get_snapshot_at(first, catalog=later.log.catalog)
        before, after = (earlier, later) if from_version <= to_version else (later, earlier)
        commits = later.versions.version.commits(first + 1)
        return FileChanges(before.versions, after.versions, commits=commits, options=options)

    def _with_commits_after(self, first: int, version: int) -> Snapshot:
        """Return the snapshot of a version with every tombstone, and with all commits after an earlier version.

        A checkpoint does not tell which actions only rearranged rows. If the log lacks some of the commits, it replays
        the newest checkpoint.
        """
        snapshot = self.get_snapshot_at(version, min_file_retention_timestamp=KEEPS_EVERYTHING)
        if snapshot.log_segment.checkpoint_provider.version <= first:
            return snapshot
        catalog = snapshot.log.catalog
        listing = replace(self._context.table_log.builder, catalog=catalog).list_versions(first)
        with suppress(VersionGapError, VersionNotFoundError):
            segment = LogSegment.from_listing(listing, version, listing.best_checkpoint(first))
            log = self._context.table_log.version_log(segment, catalog)
            return Snapshot.load(
                self._context, log, predecessor=snapshot, min_file_retention_timestamp=KEEPS_EVERYTHING
            )
        return snapshot

    def row_changes(self, first: int, last: int, **wanted: Unpack[RowChangeOptions]) -> DataFrame:
        """Return the rows that the versions `first` to `last`, both inclusive, changed, in any order.

        Columns: those of the table at `last` (nullable), then
        - `_change_type` (string, not null): `insert`, `delete`, `update_preimage`, `update_postimage`;
        - `_commit_version` (long, not null);
        - `_commit_timestamp` (timestamp): as in the history.

        The page "As a library" has the rules for each case. The call reads the log; Spark reads the rows when the
        DataFrame runs. Of a catalog-managed table without its catalog, only
        published versions have row changes.

        wanted: see RowChangeOptions.
        Errors: ValueError for an unknown column, or if `last` is before `first`; PredicateError; those of
        get_snapshot_at for a version that cannot be loaded; RowChangesError, naming the version, if its commit is
        gone, or if its schema cannot be read with that of `last`; and those of Scan.to_df: DataFileNotFoundError names
        a file that VACUUM removed.
        Source: PROTOCOL.md, Reader Requirements for AddCDCFile.
        """
        check_versions(first, last)
        check_options(wanted, RowChangeOptions)
        return read_row_changes(self._context, first, last, options=wanted.get("options")).to_df(wanted)

    def known_versions(self) -> KnownVersions:
        """Return the versions that the log has, for `bisect` and `blame`.

        Errors: DeltaTableNotFoundError; VersionGapError if no version can be reconstructed.
        """
        numbers = self.history.reconstructable_versions() or (self.history.earliest_recreatable_version(),)
        return KnownVersions(numbers=numbers, open=self.get_snapshot_at)

    def history_frame(self, limit: int | None = None, start: int | None = None, end: int | None = None) -> DataFrame:
        """Return the history as a DataFrame, newest first, with the columns of Delta's DESCRIBE HISTORY.

        version (long, not null), timestamp (timestamp, null: outside of the years 1 to 9999), userId, userName,
        operation (string), operationParameters, job, notebook (map of string to string), clusterId (string),
        readVersion (long), isolationLevel (string), isBlindAppend (boolean), operationMetrics (map), userMetadata
        (string), tags (map), engineInfo, txnId (string). Null: the commit does not state the value. A value in a map
        that is not text is JSON.
        limit, start, end: as in DeltaHistoryManager.get_history. Errors: as there, SparkRequiredError.
        Of a catalog-managed table, only published commits if there is no catalog: `Snapshot.tables.history` also has
        those of `log_tail`.
        """
        check_versions(*(version for version in (start, end) if version is not None))
        return history_frame(
            self._context.session("the history as a DataFrame"),
            self.history.get_history(limit=limit, start=start, end=end),
        )

    def close(self) -> None:
        """Release the data that Spark caches for this table. The next use loads it again."""
        self._management.close()
