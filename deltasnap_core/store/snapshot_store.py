"""SnapshotStore: every stored version of every table, below one folder or URL.

`layout` documents the files below the root. A table that is dropped and created again starts a new generation. A table
that is restored from a backup, or rolled back, starts a generation that forks off: the versions up to the fork stay in
place and remain current. `stored_versions` decides which versions are current, `common_version` finds a fork.

Manifests are written last, each atomically, and only if the log did not change since it was read. Names of data files
are unique. So a killed run leaves only files that no manifest names, which `prune` removes when they are old.
Concurrent runs store the same versions twice. Their manifests have the same content, and the last one written counts.

`change_sets` decides when changes are merged and when a new base is written; `shared_documents` stores the parts that
manifests share.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.clock import system_clock
from deltasnap_core.errors import StorageError
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import check_versions
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.engine import EngineUse, Question, ReplayEngine
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.sessions import SparkProvider, provider_of
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.scan.changes.row_changes import RowChangeOptions, RowChanges, check_options
from deltasnap_core.scan.file_changes import FileChanges
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.search.known_versions import KnownVersions
from deltasnap_core.scan.table_version import TableVersion
from deltasnap_core.scan.tables.metadata_tables import MetadataTables
from deltasnap_core.scan.version import Rows
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.storage.urls import is_local, local_path, to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.fleet.fleet_history import keep_fleet, kept_fleets, prune_fleets
from deltasnap_core.store.fleet.fleet_row import fleet_table, worst_first
from deltasnap_core.store.fleet.last_polls import LastPolls
from deltasnap_core.store.fleet.table_level import TableStatus
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.format.commit_facts import commit_times
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.known_versions import versions_of_both
from deltasnap_core.store.repair import LogRepair, Repair
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.stored_row_changes import stored_row_changes, stored_rows_as_inserts
from deltasnap_core.store.stored_version import RowKind, StoredVersion
from deltasnap_core.store.versions.common_version import CommonVersion, begin_fork, find_common_version
from deltasnap_core.store.versions.pruning import DAY_MS, PruneReport, StoreUsage, prune, usage
from deltasnap_core.store.versions.stored_table import StoredTable
from deltasnap_core.store.writing.range_writer import Progress
from deltasnap_core.store.writing.store_writer import StoredRange, StoreWriter

MaterializeAs = Literal["view", "table"]
VersionNumber = int | VersionManifest
"""A stored version: its number, or its manifest."""


@safe_repr
class SnapshotStore:
    """Stored versions of tables, by table name. Threads and processes may share a store.

    Only current versions can be read: those of the newest generation, and those shared with the generations it forked
    off. A version is given by its number or by its manifest, which is then not read again. Errors of all methods that
    read a version: StoredVersionNotFoundError; CorruptStoreError naming the file.

    `state`, `all_files` and `tombstones` are DataFrames that the caller runs. All their files exist and have the right
    size. If such a DataFrame fails on a file of the store, its pages are damaged. A store opened with
    `check_pages=True` reads all pages first and raises CorruptStoreError naming the file. To repair the version, delete
    the file and call `write_range`.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        parquet: ParquetFiles,
        policy: ChangePolicy | None = None,
        *,
        check_pages: bool = False,
    ) -> None:
        """Create a store. parquet: of the root, with the storage. policy, check_pages: as for `open`."""
        self._engine = engine
        self._parquet = parquet
        self._storage = parquet.storage
        self._policy = policy or ChangePolicy()
        self._check_pages = check_pages
        self.root = parquet.folder

    @classmethod
    def open(
        cls,
        spark: SparkSession | SparkProvider | None,
        root_url: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        *,
        engine: EngineUse = "auto",
        policy: ChangePolicy | None = None,
        check_pages: bool = False,
    ) -> SnapshotStore:
        """Return a store. The folder need not exist yet. Errors: StorageError if it is a file.

        spark:           a session, or a provider of one; None: only operations without Spark.
        root_url:        local path or fsspec URL. storage_options: for fsspec.
        engine:          auto: the driver reads small versions; spark: Spark reads all (see `SnapshotOptions`).
        policy:          when changes are merged and when a new base is written.
        check_pages:     whether to read every DataFrame once before returning it.
        """
        root = to_url(root_url)
        if is_local(root) and Path(local_path(root)).is_file():
            raise StorageError(path=root, reason="expected a folder, found a file")
        sessions = provider_of(spark)
        parquet = ParquetFiles(
            sessions=sessions,
            storage=WritableFiles(root, storage_options),
            spark_files=SparkFiles.of(storage_options, sessions),
            folder=root,
        )
        return cls(ReplayEngine(sessions, engine), parquet, policy, check_pages=check_pages)

    def __repr__(self) -> str:
        return f"SnapshotStore({self.root})"

    def versions(self, table: str) -> list[int]:
        """Return the complete stored versions, ascending, from one listing; empty for a table that was never stored."""
        return [name.version for name in self.table(table).stored_versions().current]

    def commit_timestamps(self, table: str) -> dict[int, int]:
        """Return the timestamp in ms of each stored version, ascending, as in the history of its log.

        Reads all manifests. Errors: StorageError, CorruptStoreError.
        """
        times = commit_times(self.table(table).manifests().values())
        return {version: times[version] for version in sorted(times)}

    def manifest(self, table: str, version: int) -> VersionManifest:
        """Return the manifest of a version."""
        return self.table(table).manifests([version])[version]

    def table(self, name: str) -> StoredTable:
        """Return the stored data of one table: its manifests, and values of several versions. Needs no Spark."""
        return StoredTable(storage=self._storage, root=self.root, name=name)

    def version(self, table: str, version: VersionNumber) -> TableVersion:
        """Return a stored version: a value with the members of a Snapshot. Only members that read rows may need Spark.

        `min_file_retention_timestamp` is the time of the commit minus `delta.deletedFileRetentionDuration`, so the rows
        are always the same.
        """
        return TableVersion(Fallback(self._version(table, version)))

    def computed_state(self, table: str, version: VersionNumber) -> SnapshotState:
        """Return the computed state of a version, as Snapshot.computed_state. Needs no Spark."""
        return self.version(table, version).computed_state

    def log_segment(self, table: str, version: VersionNumber) -> LogSegment:
        """Return the log segment of a version, even if the log no longer has it. Needs no Spark."""
        return self.version(table, version).log_segment

    def common_version(self, table: str, log: TableLog, listing: LogListing | None = None) -> CommonVersion:
        """Return the last version that the store and the current log of a table have in common. Needs no Spark.

        listing: of the log, to its end, starting below the last stored version; None: list the log.
        If the log is still the stored one, this takes one listing of the store, one of the log, and one manifest.
        Errors: DeltaTableNotFoundError, CorruptLogError.
        """
        stored = self.table(table)
        return find_common_version(stored, stored.stored_versions(), log, listing)

    def begin_fork(self, table: str, common: CommonVersion) -> None:
        """Start a fork after a common version, if the log was rolled back: later versions are no longer current.

        `write_range` does this automatically. Use this method if the log has no new versions to write. Nothing is
        deleted. Needs no Spark.
        """
        begin_fork(self.table(table), common)

    def state(
        self, table: str, version: VersionNumber, *, min_file_retention_timestamp: int | None = None
    ) -> DataFrame:
        """Return the reconciled state of a version as actions, as Snapshot.state.

        min_file_retention_timestamp: tombstones of this time (ms) or before have expired; 0: none have; None: the
        commit's timestamp minus `delta.deletedFileRetentionDuration`, so that the result is always the same.
        """
        found, chosen = self._version(table, version), min_file_retention_timestamp
        return found.actions_kept_by(found.retention if chosen is None else Retention.after(chosen))

    def all_files(self, table: str, version: VersionNumber) -> DataFrame:
        """Return the live files of a version, with the columns of ALL_FILES_SCHEMA."""
        return self.version(table, version).all_files

    def tombstones(
        self, table: str, version: VersionNumber, *, min_file_retention_timestamp: int | None = None
    ) -> DataFrame:
        """Return the tombstones that have not expired, with the columns of TOMBSTONES_SCHEMA; see `state`."""
        chosen = min_file_retention_timestamp
        return self._version(table, version).tombstones(None if chosen is None else Retention.after(chosen))

    def read_arrow(
        self, table: str, version: VersionNumber, kind: RowKind = "all_files", columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return `all_files`, `tombstones` or `state` of a version in Arrow, in any order.

        The columns are those of `all_files`, `tombstones` and `state`, with Arrow's types. Small versions need no
        Spark.
        columns: some of the existing ones; None: all. Errors: ValueError for an unknown column.
        """
        return self._version(table, version).arrow(kind, columns)

    def reason_for_spark(self, table: str) -> str | None:
        """Return why the version after the newest stored one needs Spark; None: the driver can probably write it."""
        stored = self.table(table)
        current = stored.current_names()
        newest = max(current, default=None)
        if newest is None:
            return self._engine.reason_for_spark({Question.RECONSTRUCT: None})
        return self._engine.reason_for_spark({Question.COUNT: stored.manifests([newest], current)[newest].rows})

    def files_and_tombstones(
        self, table: str, version: VersionNumber, file_columns: Sequence[str], tombstone_columns: Sequence[str]
    ) -> AbstractContextManager[tuple[Rows, Rows]]:
        """Yield the files and the tombstones of a version to count them: both in Arrow, or both in Spark.

        The driver reads them up to the limit of a computed state: a run that computes a version without Spark also
        counts its files without Spark.
        file_columns, tombstone_columns: of ALL_FILES_SCHEMA and TOMBSTONES_SCHEMA.
        """
        return self._version(table, version).files_and_tombstones(file_columns, tombstone_columns)

    def scan(
        self,
        table: str,
        version: VersionNumber,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        options: ScanOptions | None = None,
    ) -> Scan:
        """Return a scan of the rows of a version, as Snapshot.scan. The log may be deleted, but not the data files.

        Additional errors: UnsupportedProtocolError.
        """
        found = self.version(table, version)
        _ = found.computed_state  # a scan knows the number of files and bytes
        return found.scan(where, columns, options=options)

    def file_changes(
        self, table: str, from_version: int, to_version: int, *, options: ScanOptions | None = None
    ) -> FileChanges:
        """Return the files that were added or removed between two stored versions, as DeltaLog.file_changes.

        The commits between them are those of the log if it still has the later version, otherwise those of the stored
        versions.
        """
        check_versions(from_version, to_version)
        before, after = self._versions(table, [from_version, to_version])
        later = max(before, after, key=lambda version: version.number)
        commits = later.commits(min(from_version, to_version) + 1)
        return FileChanges(Fallback(before), Fallback(after), commits=commits, options=options)

    def row_changes(self, table: str, first: int, last: int, **wanted: Unpack[RowChangeOptions]) -> DataFrame:
        """Return the rows that stored versions changed, as DeltaLog.row_changes. Their data files must exist.

        All versions from `first` to `last` must be stored. If the log no longer has their commits, the changes are
        derived from the stored files; then the version before `first` must be stored too, and an update of a table with
        a change data feed is a delete and an insert, unless `key` pairs them. Modification times that do not increase
        are then adjusted from `first` on, not from the earliest version.
        Additional errors: those of `scan`.
        """
        check_versions(first, last)
        if first > last:
            raise ValueError(f"Expected first <= last, found {first} and {last}")
        check_options(wanted, RowChangeOptions)
        return self._row_changes(table, first, last, wanted.get("options")).to_df(wanted)

    def row_changes_since(
        self, table: str, since: int | None, last: int, **wanted: Unpack[RowChangeOptions]
    ) -> DataFrame:
        """Return the rows that changed after a stored version, up to the stored version `last`; as `row_changes`.

        since: None: all rows of `last`, as inserts of this version; equal to `last`: no rows. Errors: ValueError if
        `last` is before `since`; those of `row_changes`.
        """
        check_versions(last, *(() if since is None else (since,)))
        if since is not None and since > last:
            raise ValueError(f"Expected since <= last, found {since} and {last}")
        check_options(wanted, RowChangeOptions)
        return self._row_changes_since(table, since, last, wanted.get("options")).to_df(wanted)

    def known_versions(self, table: str, log: DeltaLog | None = None) -> KnownVersions:
        """Return the versions of a table in the store, and in its log (None: without it), for `bisect` and `blame`."""
        return versions_of_both(self, table, log)

    def tables(
        self, table: str, version: VersionNumber | None = None, *, options: ScanOptions | None = None
    ) -> MetadataTables:
        """Return the metadata tables of a stored version (None: the latest), as Snapshot.tables.

        `versions` lists the stored versions. `history` has the commits of the log if the log still has this version,
        and those of the stored versions that the log no longer has. `entries` goes back to the first commit of such a
        log; without it, to the base of this version: files of the base have no `added_version`, and those removed
        before it are left out.
        """
        if version is None:
            version = self.known_versions(table).numbers[-1]
        return MetadataTables(Fallback(self._version(table, version)), options)

    def write_range(
        self,
        table: str,
        log: DeltaLog,
        first: int,
        last: int,
        *,
        materialize_as: MaterializeAs = "view",
        on_progress: Progress | None = None,
        listing: LogListing | None = None,
    ) -> StoredRange:
        """Store the versions first to last of a log, and return their manifests, ascending.

        Complete stored versions are not written again; a version that lost a file is. The cost depends on the changes:
        a few Spark jobs for the range, not for each version. Stored versions that the log no longer has are returned as
        they are. If the log differs from the stored one from some version on, a new generation starts (see
        `StoredRange.common`).

        The log and the store are listed at the start and before the manifests are written. Each commit is read once.
        Of a catalog-managed table without its catalog, only published versions can be stored.

        materialize_as: "table": also write `all_files` and `tombstones` of each version as plain Parquet.
        on_progress:    called with a description of the step, the number of versions done, and their total number.
        listing:        of the log, to its end, from which all versions can be loaded; None: list the log.
        Errors: ValueError for an invalid range or name; those of reading the log; LogChangedError if the log was
        replaced during the run; StoreChangedError if another run replaced or pruned versions that this one builds on;
        CorruptStoreError. On an error, the stored versions are not changed.
        """
        check_versions(first, last)
        if first > last:
            raise ValueError(f"expected versions 0 <= first <= last, found {first} and {last}")
        return self.write_versions(
            table, log, range(first, last + 1), materialize_as=materialize_as, on_progress=on_progress, listing=listing
        )

    def write_versions(
        self,
        table: str,
        log: DeltaLog,
        versions: Collection[int],
        *,
        materialize_as: MaterializeAs = "view",
        on_progress: Progress | None = None,
        listing: LogListing | None = None,
        common: CommonVersion | None = None,
    ) -> StoredRange:
        """Store some versions of a log, perhaps with gaps, as `write_range`."""
        if not versions:
            raise ValueError("expected at least one version, found none")
        check_versions(*versions)
        if materialize_as not in ("view", "table"):
            raise ValueError(f"expected materialize_as to be 'view' or 'table', found {materialize_as!r}")
        writer = StoreWriter(
            stored=self.table(table),
            parquet=self._parquet,
            log=log,
            policy=self._policy,
            progress=on_progress or (lambda *_: None),
        )
        return writer.write(
            sorted(set(versions)), as_plain_parquet=materialize_as == "table", listing=listing, common=common
        )

    def fleet(
        self,
        tables: Sequence[str] | None = None,
        *,
        now_ms: int | None = None,
        keep: bool = False,
        conditions: Mapping[str, TableStatus] | None = None,
        paths: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Return one row for each table, the worst first, then by name, with the columns of `FLEET_SCHEMA`.

        It reads only the store: no log, no Spark. `FleetRow` describes the columns. The condition is derived from the
        last poll of the log (`polls`): `unknown` without a poll in the last day.

        tables: None: all tables of the store. now_ms: None: the clock. keep: whether to keep them for `fleet_history`.
        conditions, paths: see `LastPolls.rows`.
        """
        now = system_clock() if now_ms is None else now_ms
        names = self.polls.table_names() if tables is None else list(dict.fromkeys(tables))
        rows = fleet_table(sorted(self.polls.rows(names, now, paths, conditions), key=worst_first))
        if keep:
            keep_fleet(self._storage, self.root, rows, now)
        return rows

    def fleet_history(self, since_ms: int | None = None, until_ms: int | None = None) -> pa.Table:
        """Return the rows of all kept fleets of a span, ascending by `taken_at_ms`, the first column.

        The columns: `taken_at_ms` (int64, not null, ms since the epoch), then those of `FLEET_SCHEMA`.
        since_ms, until_ms: both included; None: no limit. No Spark. Errors: CorruptStoreError naming the file.
        """
        return kept_fleets(self._storage, self.root, since_ms, until_ms)

    def prune_fleet_history(self, before_ms: int) -> int:
        """Delete the kept fleets taken before a time (ms since the epoch), and return their number. No Spark."""
        return prune_fleets(self._storage, self.root, before_ms)

    @property
    def polls(self) -> LastPolls:
        """The result of the last poll of the log of each table, to read and to replace. No Spark."""
        return LastPolls(storage=self._storage, root=self.root)

    def usage(self, table: str) -> StoreUsage:
        """Return the number of versions, generations and files of a table. Lists all files, reads every manifest."""
        return usage(self.table(table))

    def repair(self, table: str, log: DeltaLog, *, write: bool = False) -> Repair:
        """Return what makes a damaged log readable for every reader, and write it on request. Nothing is deleted.

        That is a checkpoint of the smallest stored version after the last damage whose commit, with the digest of the
        stored one, and all later commits are whole. The log may have been moved. Other writers may commit meanwhile.
        Errors: RepairRefusedError with what to do by hand; those of DeltaLog.checkpoint; CorruptStoreError.
        """
        repair = LogRepair.of(self.table(table), log)
        version = None if repair.chosen is None else self.version(table, repair.chosen)
        return repair.written(version) if write else repair.plan

    def prune(
        self, table: str, *, keep: int | None = None, keep_generations: int = 1, min_age_ms: int = DAY_MS
    ) -> PruneReport:
        """Remove old versions, replaced generations, and files of no version. Return what was removed.

        keep:             the number of latest versions to keep, at least 1; None: all current versions.
        keep_generations: the number of latest generations to keep completely, at least 1, including the versions that
                          they share with the generations they forked off. A fork without its own versions does not
                          count: it marks a rolled-back log, whose lost versions are kept until the log gets new
                          commits.
        min_age_ms:       the minimum age of a file of no version to be removed. It must be longer than any run takes
                          to write a range: until the run ends, its files belong to no version.
        The latest version always stays, with everything that later versions are based on.
        Errors: ValueError for `keep` or `keep_generations` below 1; CorruptStoreError naming a damaged manifest that
        would remain. In both cases, nothing is removed. StorageError.
        """
        return prune(self.table(table), keep=keep, keep_generations=keep_generations, min_age_ms=min_age_ms)

    def _version(self, table: str, version: VersionNumber) -> StoredVersion:
        (found,) = self._versions(table, [version])
        return found

    def _versions(self, table: str, versions: Collection[VersionNumber]) -> list[StoredVersion]:
        """Return versions, as given. They are found in one listing: a later one may have another generation's."""
        stored = self.table(table)
        numbers = [each for each in versions if not isinstance(each, VersionManifest)]
        read = stored.manifests(numbers) if numbers else {}
        return [self._opened(stored, each if isinstance(each, VersionManifest) else read[each]) for each in versions]

    def _opened(self, stored: StoredTable, manifest: VersionManifest) -> StoredVersion:
        folder, log_path = stored.generation_folder(manifest.generation), manifest.log_path
        return StoredVersion(
            engine=self._engine,
            stored=stored,
            manifest=manifest,
            spark_rows=SparkRows(parquet=self._parquet.below(folder), log_path=log_path),
            driver_rows=DriverRows(storage=self._storage, folder=folder, log_path=log_path),
            check_pages=self._check_pages,
        )

    def _row_changes(self, table: str, first: int, last: int, options: ScanOptions | None) -> RowChanges:
        stored = self.table(table)
        current = stored.current_names()
        stored.manifests([last], current)  # first, because the range may have 2**62 versions
        manifests = stored.manifests(range(first, last + 1), current)
        versions = [self._opened(stored, each) for each in manifests.values()]
        before = [name for name in (current.get(first - 1),) if name is not None]
        earlier = [self._opened(stored, each) for each in stored.read_sound_manifests(before)]
        return stored_row_changes(versions, next(iter(earlier), None), options)

    def _row_changes_since(self, table: str, since: int | None, last: int, options: ScanOptions | None) -> RowChanges:
        if since is not None and since != last:
            return self._row_changes(table, since + 1, last, options)
        return stored_rows_as_inserts(self._version(table, last), options, unchanged=since == last)
