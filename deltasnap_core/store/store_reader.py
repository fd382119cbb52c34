"""StoreReader: opens the stored data of a table: its folder, its manifests, a version with its files and rows."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from deltasnap_core.errors import StorageError
from deltasnap_core.replay.engine import EngineUse, ReplayEngine
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.sessions import SparkProvider, provider_of
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.scan.changes.row_changes import RowChanges
from deltasnap_core.scan.file_changes import FileChanges
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.storage.urls import is_local, local_path, to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.stored_row_changes import stored_row_changes, stored_rows_as_inserts
from deltasnap_core.store.stored_version import StoredVersion
from deltasnap_core.store.versions.stored_table import StoredTable

VersionNumber = int | VersionManifest
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

    def version(self, table: str, version: VersionNumber) -> StoredVersion:
        """Return a version. Its files are checked before its rows are read. Errors: StoredVersionNotFoundError."""
        (found,) = self.versions(table, [version])
        return found

    def versions(self, table: str, versions: Collection[VersionNumber]) -> list[StoredVersion]:
        """Return versions, as given. They are found in one listing: a later one may have another generation's.

        Errors: StoredVersionNotFoundError; CorruptStoreError.
        """
        stored = self.table(table)
        numbers = [version for version in versions if not isinstance(version, VersionManifest)]
        read = stored.manifests(numbers) if numbers else {}
        found = (version if isinstance(version, VersionManifest) else read[version] for version in versions)
        return [self._opened(stored, manifest) for manifest in found]

    def _opened(self, stored: StoredTable, manifest: VersionManifest) -> StoredVersion:
        folder, log_path = stored.generation_folder(manifest.generation), manifest.log_path
        return StoredVersion(
            engine=self.engine,
            stored=stored,
            manifest=manifest,
            spark_rows=SparkRows(parquet=self.parquet(folder), log_path=log_path),
            driver_rows=DriverRows(storage=self.storage, folder=folder, log_path=log_path),
            check_pages=self.check_pages,
            storage_options=self.storage_options,
        )

    def file_changes(self, table: str, from_version: int, to_version: int, options: ScanOptions | None) -> FileChanges:
        """Return changes of files, as `SnapshotStore.file_changes`, for valid versions."""
        before, after = self.versions(table, [from_version, to_version])
        later = max(before, after, key=lambda version: version.number)
        commits = later.commits(min(from_version, to_version) + 1)
        return FileChanges(Fallback(before), Fallback(after), commits=commits, options=options)

    def row_changes(self, table: str, first: int, last: int, options: ScanOptions | None) -> RowChanges:
        """Return the row changes of the stored versions first to last."""
        stored = self.table(table)
        current = stored.current_names()
        stored.manifests([last], current)  # first, because the range may have 2**62 versions
        manifests = stored.manifests(range(first, last + 1), current)
        versions = [self._opened(stored, each) for each in manifests.values()]
        before = [name for name in (current.get(first - 1),) if name is not None]
        earlier = [self._opened(stored, each) for each in stored.read_sound_manifests(before)]
        return stored_row_changes(versions, next(iter(earlier), None), options)

    def row_changes_since(self, table: str, since: int | None, last: int, options: ScanOptions | None) -> RowChanges:
        """Return the row changes after a version; None: all rows of `last`, as inserts."""
        if since is not None and since != last:
            return self.row_changes(table, since + 1, last, options)
        return stored_rows_as_inserts(self.version(table, last), options, unchanged=since == last)

    def parquet(self, folder: str) -> ParquetFiles:
        """Return the Parquet files of a folder, for Spark."""
        sessions = self.engine.sessions
        return ParquetFiles(sessions=sessions, storage=self.storage, spark_files=self.spark_files, folder=folder)
