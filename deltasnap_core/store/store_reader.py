"""StoreReader: opens the stored data of a table: its folder, its manifests, a version with its files and rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from deltasnap_core.errors import StorageError
from deltasnap_core.log.listing.log_segment_builder import check_versions
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.protocol.table_features import check_readable
from deltasnap_core.replay.engine import EngineUse, ReplayEngine
from deltasnap_core.replay.sessions import SparkProvider, provider_of
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.scan.changes.row_changes import RowChanges
from deltasnap_core.scan.file_changes import FileChanges
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import is_local, local_path, to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.stored_history import stored_history
from deltasnap_core.store.stored_row_changes import stored_row_changes, stored_rows_as_inserts
from deltasnap_core.store.stored_version import StoredVersion
from deltasnap_core.store.versions.stored_table import StoredTable

Version = int | VersionManifest
"""A stored version: its number, or its manifest."""


@dataclass(frozen=True, kw_only=True)
class StoreReader:
    """The stored tables below a root. check_pages: whether to read every DataFrame once before returning it."""

    engine: ReplayEngine
    root: str
    storage: WritableFiles
    spark_files: SparkFiles
    storage_options: Mapping[str, Any] | None = None
    check_pages: bool = False

    @classmethod
    def open(
        cls,
        spark: SparkSession | SparkProvider | None,
        root_url: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None,
        *,
        engine: EngineUse,
        check_pages: bool,
    ) -> StoreReader:
        """Return the reader of a store, as `SnapshotStore.open`. Errors: StorageError if the root is a file."""
        root = to_url(root_url)
        if is_local(root) and Path(local_path(root)).is_file():
            raise StorageError(path=root, reason="expected a folder, found a file")
        sessions = provider_of(spark)
        return cls(
            engine=ReplayEngine(sessions, engine),
            root=root,
            storage=WritableFiles(root, storage_options),
            spark_files=SparkFiles.of(storage_options, sessions),
            storage_options=storage_options,
            check_pages=check_pages,
        )

    def table(self, name: str) -> StoredTable:
        """Return a table, which may have no version yet."""
        return StoredTable(storage=self.storage, root=self.root, name=name)

    def manifests(
        self,
        table: str,
        versions: Collection[int] | None = None,
        current: Mapping[int, ManifestName] | None = None,
    ) -> dict[int, VersionManifest]:
        """Return manifests by version, as `SnapshotStore.manifests`. Errors: ValueError for an invalid version."""
        if not isinstance(versions, range | None):
            check_versions(*versions)
        found = self.table(table).current_manifests(versions, current)
        return {manifest.version: manifest for manifest in found}

    def manifests_of(self, table: str, versions: Collection[Version]) -> list[VersionManifest]:
        """Return the manifests of versions, as given. Lists the store only for versions given by number."""
        numbers = [version for version in versions if not isinstance(version, VersionManifest)]
        read = self.manifests(table, numbers) if numbers else {}
        return [version if isinstance(version, VersionManifest) else read[version] for version in versions]

    def version(self, table: str, version: Version) -> StoredVersion:
        """Return a version after checking that all its files exist.

        Errors: StoredVersionNotFoundError; CorruptStoreError.
        """
        (found,) = self.versions(table, [version])
        return found

    def versions(self, table: str, versions: Collection[Version]) -> list[StoredVersion]:
        """Return versions, as given, after checking that all their files exist.

        They are found in one listing: a later one may have the versions of another generation.
        Errors: StoredVersionNotFoundError; CorruptStoreError.
        """
        stored = self.table(table)
        return [self._opened(stored, manifest) for manifest in self.manifests_of(table, versions)]

    def _opened(self, stored: StoredTable, manifest: VersionManifest) -> StoredVersion:
        stored.check_files([manifest])
        folder, log_path = stored.generation_folder(manifest.generation), manifest.log_path
        return StoredVersion(
            engine=self.engine,
            stored=stored,
            manifest=manifest,
            spark_rows=SparkRows(parquet=self.parquet(folder), log_path=log_path),
            driver_rows=DriverRows(storage=self.storage, folder=folder, log_path=log_path),
            check_pages=self.check_pages,
        )

    def scanned(self, found: StoredVersion, options: ScanOptions | None) -> ScannedTable:
        """Return the facts about a version that a scan needs. The log may be deleted.

        options: without storage options, the data files are read with those of the store.
        Errors: UnsupportedProtocolError; ActionNotFoundError if the version was stored without metadata.
        """
        version, protocol, options = found.manifest.version, found.computed_state.protocol, options or ScanOptions()
        if protocol is not None:
            check_readable(protocol, path=found.table_path, version=version)
        storage_options = self.storage_options if options.storage_options is None else options.storage_options
        return ScannedTable(
            self.engine.sessions,
            table_path=found.table_path,
            version=version,
            metadata=found.metadata,
            store=FsspecLogStore(storage_options),
            spark_files=SparkFiles.of(storage_options, self.engine.sessions),
            options=options,
        )

    def file_changes(self, table: str, from_version: int, to_version: int, options: ScanOptions | None) -> FileChanges:
        """Return changes of files, as `SnapshotStore.file_changes`, for valid versions."""
        before, after = self.versions(table, [from_version, to_version])
        scanned = self.scanned(after, options)
        first, last = sorted((from_version, to_version))
        is_forward = from_version <= to_version
        later = after if is_forward else before
        return FileChanges(
            scanned,
            before.all_files(),
            after.all_files(),
            from_version=from_version,
            to_version=to_version,
            commits=stored_history(later, scanned.store, first + 1, last),
            stored_files=(*before.files, *after.files),
            removes=None if is_forward else later.tombstones(KEEP_ALL),
        )

    def row_changes(self, table: str, first: int, last: int, options: ScanOptions | None) -> RowChanges:
        """Return the row changes of the stored versions first to last."""
        current = self.table(table).current_names()
        self.manifests(table, [last], current)  # first, because the range may have 2**62 versions
        found = self.manifests(table, range(first, last + 1), current)
        stored = self.versions(table, found.values())

        def before() -> StoredVersion | None:
            return self.versions(table, self.manifests(table, [first - 1], current).values())[0] if first else None

        scanned, has_before = self.scanned(stored[-1], options), first == 0 or first - 1 in current
        return stored_row_changes(scanned, stored, before, options, has_before=has_before)

    def row_changes_since(self, table: str, since: int | None, last: int, options: ScanOptions | None) -> RowChanges:
        """Return the row changes after a version; None: all rows of `last`, as inserts."""
        if since is not None and since != last:
            return self.row_changes(table, since + 1, last, options)
        found = self.version(table, last)
        return stored_rows_as_inserts(self.scanned(found, options), found, unchanged=since == last)

    def parquet(self, folder: str) -> ParquetFiles:
        """Return the Parquet files of a folder, for Spark."""
        sessions = self.engine.sessions
        return ParquetFiles(sessions=sessions, storage=self.storage, spark_files=self.spark_files, folder=folder)
