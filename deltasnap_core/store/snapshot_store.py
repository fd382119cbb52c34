"""SnapshotStore: every stored version of every table, below one folder or URL.

What lies below the root, for a table `events`:

    events/
      manifests/
        000001-<table id>.00000000000000000012.json     one a version: the commit point
        000002of000001at8-<table id>.fork.json          a generation that forked off another after version 8
      000001-<table id>/                                a generation: all the versions of one log
        base/<first>-<last>-<write>/part-*.parquet      key, add, remove: the whole state of one version
        changes/<first>-<last>-<write>/part-*.parquet   version, key, add, remove: what those versions changed
        documents/<digest>.json                         what the manifests of many versions share
        all_files/version=12/all_files.parquet          with materialize_as="table" only
        tombstones/version=12/tombstones.parquet
        staging/                                        what is being written; empty otherwise

A version is there when its manifest is; nothing else in the folders counts. The manifest names every file of the
version, its computed state and its log segment, and what tells its commit from another of the same number. The state
of a version is its base, and then the newest row of each logical file among the changes up to the version: `add.path
is not null` are the live files, the others tombstones. A logical file is its decoded path and its deletion vector;
`key` hashes the path. All of it opens with `spark.read.parquet` and `pandas.read_parquet`.

A table that is dropped and created again begins a generation of its own; one that is restored from a backup, or
rolled back, begins one that forks off: the versions up to the fork stay where they are and count further on.
`stored_versions` says which versions count, `generations` how a fork is found.

Manifests are written last, each in one piece, and only when the log is still the one that was read; data files have
names that no other write has. So a run that is killed leaves nothing but files that no manifest names (`prune`
removes them when they are old), and two runs at once store the same versions twice, of which the manifest written
last counts: both have the same content.

`change_sets` says when changes are merged and when a new base is written; `shared_documents` what manifests share.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.log.log_listing import LogListing
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.table_log import TableLog, system_clock
from deltasnap_core.protocol.retention import KEEP_ALL, Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.engine import EngineUse, Question, ReplayEngine
from deltasnap_core.replay.sessions import SparkProvider, provider_of
from deltasnap_core.replay.spark.spark_failures import translated
from deltasnap_core.replay.spark.spark_files import SparkFiles
from deltasnap_core.scan.file_changes import FileChanges
from deltasnap_core.scan.metadata_tables import MetadataTables
from deltasnap_core.scan.options import ScanOptions
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.generations import CommonVersion, find_common_version
from deltasnap_core.store.pruning import DAY_MS, PruneReport, StoreUsage, prune, usage
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.stored_scan import scanned_version, stored_history, stored_tables
from deltasnap_core.store.stored_table import StoredTable
from deltasnap_core.store.stored_version import FileKind, RowKind, StoredVersion, rows_of
from deltasnap_core.store.writing.change_sets import ChangePolicy
from deltasnap_core.store.writing.range_writer import Progress
from deltasnap_core.store.writing.store_writer import StoredRange, StoreWriter

MaterializeAs = Literal["view", "table"]
T = TypeVar("T")

Version = int | VersionManifest
"""A stored version: its number, or its manifest."""


@safe_repr
class SnapshotStore:
    """Stored versions of tables, by the names of the tables. Safe to use from several threads and processes.

    A version is one that counts: of the generation begun last, or shared with those that it forked off. It is named by
    its number, or by its manifest where that is at hand: then the store is not asked for it again.
    Errors of all that reads a version: StoredVersionNotFoundError; CorruptStoreError naming the file.

    `state`, `all_files` and `tombstones` are frames that the caller runs, of files found to be there in their sizes.
    Where one fails on a file of the store, its pages are damaged: a store opened with `check_pages=True` reads them
    all first, and raises CorruptStoreError naming it. `write_range` stores such a version anew once the file is gone.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        root: str,
        *,
        storage: WritableFiles,
        spark_files: SparkFiles,
        policy: ChangePolicy | None = None,
        storage_options: Mapping[str, Any] | None = None,
        check_pages: bool = False,
    ) -> None:
        self._engine = engine
        self._storage_options = storage_options
        self._check_pages = check_pages
        self._storage = storage
        self._spark_files = spark_files
        self._policy = policy or ChangePolicy()
        self.root = root

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
        """Open a store; the folder need not be there yet.

        spark:           a session; or what provides one when it is needed; None: only what needs no Spark.
        root_url:        local path or fsspec URL. storage_options: for fsspec.
        engine:          auto: the driver reads versions that fit into it; spark: Spark reads all (`SnapshotOptions`).
        policy:          when changes are merged and when a new base is written.
        check_pages:     whether every frame is read once before it is handed out.
        """
        root = to_url(root_url)
        sessions = provider_of(spark)
        return cls(
            ReplayEngine(sessions, engine),
            root,
            storage=WritableFiles(root, storage_options),
            spark_files=SparkFiles.of(storage_options, sessions),
            policy=policy,
            storage_options=storage_options,
            check_pages=check_pages,
        )

    def __repr__(self) -> str:
        return f"SnapshotStore({self.root})"

    def versions(self, table: str) -> list[int]:
        """Return the versions that are stored whole, ascending, by one listing; none for a table never stored."""
        return [name.version for name in self._table(table).stored_versions().current()]

    def manifest(self, table: str, version: int) -> VersionManifest:
        """Return what a version consists of."""
        return self.manifests(table, [version])[version]

    def in_force(self, table: str) -> dict[int, ManifestName]:
        """Return the names of the manifests of the versions that are stored and count, ascending, by one listing."""
        return self._table(table).names_in_force()

    def manifests(
        self,
        table: str,
        versions: Collection[int] | None = None,
        in_force: Mapping[int, ManifestName] | None = None,
    ) -> dict[int, VersionManifest]:
        """Return what versions (None: all that are stored) consist of, ascending. Needs no Spark.

        in_force: what `in_force` gave; None: it is asked.
        """
        found = self._table(table).manifests_in_force(versions, in_force)
        return {manifest.version: manifest for manifest in found}

    def computed_state(self, table: str, version: Version) -> SnapshotState:
        """Return the computed state of a version, as on Snapshot. Needs no Spark."""
        return next(iter(self.computed_states(table, [version]).values()))

    def computed_states(self, table: str, versions: Collection[Version]) -> dict[int, SnapshotState]:
        """Return the computed states of versions, by version; what they share is read once. Needs no Spark."""
        return self._table(table).computed_states(self._manifests(table, versions))

    def log_segment(self, table: str, version: Version) -> LogSegment:
        """Return the log segment of a version, as on Snapshot, also where the log has lost it. Needs no Spark."""
        return next(iter(self.log_segments(table, [version]).values()))

    def log_segments(self, table: str, versions: Collection[Version]) -> dict[int, LogSegment]:
        """Return the log segments of versions, by version; what they share is read once. Needs no Spark."""
        return self._table(table).log_segments(self._manifests(table, versions))

    def common_version(self, table: str, log: TableLog, listing: LogListing | None = None) -> CommonVersion:
        """Return up to where what is stored of a table is what its log says now. Needs no Spark, and stores nothing.

        listing: of the log, to its end, from some way below the last stored version on; None: it is listed.
        One listing of the store and of the log and one manifest, where the log is still the one that was stored.
        Errors: DeltaTableNotFoundError, CorruptLogError.
        """
        stored = self._table(table)
        in_force = stored.stored_versions().current()
        if listing is None:
            listing = log.builder.list_versions(in_force[-1].version if in_force else 0)
        return find_common_version(stored, in_force, log, listing)

    def begin_fork(self, table: str, common: CommonVersion) -> None:
        """Let the stored versions after a common one count no longer: of a log that was rolled back. Needs no Spark.

        `write_range` does so by itself; this is for a log that has nothing left to be written. Nothing is deleted.
        """
        stored = self._table(table)
        versions = stored.stored_versions()
        newest = max((name.version for name in versions.current()), default=None)
        if common.version is not None and not common.is_continued and newest == common.latest_stored:
            stored.begin_fork(versions.forked_generation(common.version))

    def state(self, table: str, version: Version, *, min_file_retention_timestamp: int | None = None) -> DataFrame:
        """Return the reconciled state of a version as actions, as Snapshot.state.

        min_file_retention_timestamp: tombstones of this time (ms) or before have expired; 0: none has; None: it is
        the commit's timestamp minus `delta.deletedFileRetentionDuration`, so that the answer is always the same.
        """
        found = self._version(table, version)
        return found.state(_retention(min_file_retention_timestamp) or found.manifest.retention)

    def all_files(self, table: str, version: Version) -> DataFrame:
        """Return the live files of a version, with the columns of AddFile."""
        return self._version(table, version).all_files()

    def tombstones(self, table: str, version: Version, *, min_file_retention_timestamp: int | None = None) -> DataFrame:
        """Return the files removed whose tombstones have not expired, with the columns of RemoveFile; see `state`."""
        return self._version(table, version).tombstones(_retention(min_file_retention_timestamp))

    def read_arrow(
        self,
        table: str,
        version: Version,
        kind: RowKind = "all_files",
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Return `all_files`, `tombstones` or `state` of a version in Arrow, any order. Small versions need no Spark.

        columns: some of those that there are; None: all. Errors: ValueError on one that is not there.
        """
        return self._version(table, version).arrow(kind, columns)

    def reason_for_spark(self, table: str) -> str | None:
        """Return why the version after the newest stored one needs Spark; None: the driver is likely to follow it."""
        newest = max(self.in_force(table), default=None)
        if newest is None:
            return self._engine.reason_for_spark({Question.RECONSTRUCT: None})
        return self._engine.reason_for_spark({Question.ROWS: rows_of(self.manifest(table, newest))})

    def query(
        self,
        table: str,
        version: Version,
        kind: FileKind,
        columns: Sequence[str] | None = None,
        *,
        driver: Callable[[pa.Table], T],
        spark: Callable[[DataFrame], T],
    ) -> T:
        """Return what a question about the files or tombstones of a version comes to, on the engine that fits.

        driver, spark: the question, on the rows in Arrow and on those in Spark. columns: those that it reads.
        """
        return self._version(table, version).query(kind, columns, driver=driver, spark=spark)

    def scan(
        self,
        table: str,
        version: int,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        options: ScanOptions | None = None,
    ) -> Scan:
        """Return a scan of the rows of a version, as Snapshot.scan; its log may be gone, its data files may not.

        Errors besides those of Snapshot.scan: UnsupportedProtocolError.
        """
        found = self._version(table, version)
        return Scan(self._scanned(found, options), found.to_scan(), where=where, columns=columns)

    def file_changes(
        self, table: str, from_version: int, to_version: int, *, options: ScanOptions | None = None
    ) -> FileChanges:
        """Return the files that came and went between two stored versions, as DeltaLog.file_changes.

        Of the commits between them, those that the log still has are told.
        """
        before, after = (self._version(table, version) for version in (from_version, to_version))
        scanned = self._scanned(after, options)
        first, last = sorted((from_version, to_version))
        return FileChanges(
            scanned,
            before.all_files(),
            after.all_files(),
            from_version=from_version,
            to_version=to_version,
            commits=stored_history(scanned, after.manifest, first + 1, last),
            reading=partial(translated, stored_files=[*before.files, *after.files]),
        )

    def tables(self, table: str, version: int | None = None, *, options: ScanOptions | None = None) -> MetadataTables:
        """Return the metadata tables of a stored version (None: the latest), as Snapshot.tables.

        `versions` are the stored ones, `history` and `log_files` what the log still has, and `entries` goes back to
        the version that the stored changes begin at.
        """
        if version is None:
            version = max(self.versions(table), default=-1)
        found = self._version(table, version)
        return stored_tables(
            self._scanned(found, options),
            found.stored,
            found.manifest,
            files=found.all_files,
            tombstones=lambda: found.tombstones(KEEP_ALL),
            events=lambda: found.rows.changes(found.manifest.changes, found.manifest.version),
            now_ms=system_clock(),
        )

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

        Versions that are whole already stay as they are; one that has lost a file is written again. The others cost
        what they changed: a few Spark jobs for the range, not for each version. Versions that the log has lost since
        they were stored are given as they are. Where the log is another one than was stored, from some version on, a
        generation begins (`StoredRange.common` tells).

        The log is listed at the start and before the manifests are written, the store once; each commit is read once.

        materialize_as: "table": write `all_files` and `tombstones` of each version as plain Parquet too.
        on_progress:    called with what is being done, how many versions of it are done, and how many there are.
        listing:        of the log, to its end, that all of them can be loaded from; None: it is listed.
        Errors: ValueError on a range or name that cannot be; those of reading the log; LogChangedError where the log
        became another one meanwhile; CorruptStoreError. What was stored before stays as it was.
        """
        if not 0 <= first <= last:
            raise ValueError(f"expected versions 0 <= first <= last, found {first} and {last}")
        return self.write_versions(
            table,
            log,
            range(first, last + 1),
            materialize_as=materialize_as,
            on_progress=on_progress,
            listing=listing,
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
        """Store versions of a log, which may leave out some, as `write_range`."""
        if not versions or min(versions) < 0:
            raise ValueError(f"expected versions of 0 or more, found {versions}")
        if materialize_as not in ("view", "table"):
            raise ValueError(f"expected materialize_as to be 'view' or 'table', found {materialize_as!r}")
        stored = self._table(table)
        writer = StoreWriter(
            stored=stored,
            parquet=self._parquet(stored.folder),
            log=log,
            policy=self._policy,
            progress=on_progress or _no_progress,
        )
        return writer.write(
            sorted(set(versions)), as_plain_parquet=materialize_as == "table", listing=listing, common=common
        )

    def usage(self, table: str) -> StoreUsage:
        """Return how much is stored of a table."""
        return usage(self._table(table))

    def prune(
        self, table: str, *, keep: int | None = None, keep_generations: int = 1, min_age_ms: int = DAY_MS
    ) -> PruneReport:
        """Remove old versions, generations that were replaced, and files of no version. See `pruning.prune`."""
        return prune(self._table(table), keep=keep, keep_generations=keep_generations, min_age_ms=min_age_ms)

    def _scanned(self, found: StoredVersion, options: ScanOptions | None) -> ScannedTable:
        return scanned_version(
            self._engine.sessions, found.stored, found.manifest, options or ScanOptions(), self._storage_options
        )

    def _table(self, name: str) -> StoredTable:
        return StoredTable(storage=self._storage, root=self.root, name=name)

    def _manifests(self, table: str, versions: Collection[Version]) -> list[VersionManifest]:
        """Return the manifests of versions, as given; the store is listed only for those given by number."""
        numbers = [version for version in versions if isinstance(version, int)]
        read = self.manifests(table, numbers) if numbers else {}
        return [read[version] if isinstance(version, int) else version for version in versions]

    def _version(self, table: str, version: Version) -> StoredVersion:
        """Return a version whose files are all there. Errors: StoredVersionNotFoundError; CorruptStoreError."""
        stored = self._table(table)
        (manifest,) = self._manifests(table, [version])
        stored.check_files(manifest)
        folder, log_path = stored.generation_folder(manifest.generation), manifest.log_path
        return StoredVersion(
            engine=self._engine,
            stored=stored,
            manifest=manifest,
            rows=SparkRows(parquet=self._parquet(folder), log_path=log_path),
            driver_rows=DriverRows(storage=self._storage, folder=folder, log_path=log_path),
            check_pages=self._check_pages,
        )

    def _parquet(self, folder: str) -> ParquetFiles:
        sessions = self._engine.sessions
        return ParquetFiles(sessions=sessions, storage=self._storage, spark_files=self._spark_files, folder=folder)


def _retention(chosen: int | None) -> Retention | None:
    return None if chosen is None else Retention.after(chosen)


def _no_progress(message: str, done: int, total: int) -> None: ...
