"""StoredSource: the data that the metadata tables of a stored version read. Its log may be deleted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from deltasnap_core.errors import CorruptLogError, DeltaTableNotFoundError
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.protocol.properties.table_config import deleted_file_retention_ms
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.log_tables import log_files_table, versions_table
from deltasnap_core.scan.tables.metadata_tables import FileHistory
from deltasnap_core.scan.tables.vacuum_candidates import LOG_IS_GONE, ReferencedFiles
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
from deltasnap_core.snapshot.sources.file_history import events_of_commits, file_history
from deltasnap_core.snapshot.sources.history_frame import history_frame
from deltasnap_core.snapshot.sources.referenced_files import referenced_files
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.folder_listing import FolderListing, list_below
from deltasnap_core.store.format.commit_facts import commit_times
from deltasnap_core.store.stored_history import stored_history
from deltasnap_core.store.stored_version import StoredVersion
from deltasnap_core.store.versions.common_version import is_version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSource:
    """`MetadataSource` of a stored version."""

    table: ScannedTable
    version: StoredVersion
    now_ms: int

    @property
    def retention_ms(self) -> int:
        return deleted_file_retention_ms(self.table.metadata.configuration)

    @property
    def read_files(self) -> tuple[Sequence[str], Sequence[str]]:
        return (self.version.manifest.log_path,), self.version.files

    def files(self) -> DataFrame:
        return self.version.all_files()

    def tombstones(self) -> DataFrame:
        return self.version.tombstones(KEEP_ALL)

    def events(self) -> DataFrame | None:
        """Return the changes in the log if it still has the version and all commits after the version's base.

        Otherwise those in the store, which begin after the base.
        """
        manifest = self.version.manifest
        with suppress(DeltaTableNotFoundError, CorruptLogError):
            listing = self._context.table_log.list()
            is_whole = manifest.base.last + 1 in listing.commits or manifest.version == manifest.base.last
            if is_whole and is_version_of(manifest, self.table.store, listing):
                return events_of_commits(self._context, listing.commits_between(0, manifest.version))
        return self.version.spark_rows.changes(manifest.changes, manifest.version)

    def file_history(self) -> FileHistory:
        """Return the history in the log if it begins no later than the version's base, otherwise that in the store."""
        manifest = self.version.manifest
        with suppress(DeltaTableNotFoundError, CorruptLogError):
            listing = self._context.table_log.list()
            begins_early = any(start <= manifest.base.last for start in listing.starts_before(manifest.version))
            if begins_early and is_version_of(manifest, self.table.store, listing):
                found = file_history(self._context, listing, manifest.version)
                if found is not None:
                    return found
        changes = self.version.spark_rows.changes(manifest.changes, manifest.version)
        return FileHistory(files=self.version.base_files(), events=changes)

    def history(self) -> DataFrame:
        commits = stored_history(self.version, self.table.store, 0, self.version.manifest.version)
        return history_frame(self.table.spark, commits)

    def versions(self) -> DataFrame:
        return versions_table(self.table.spark, self._stored_versions())

    def log_files(self) -> DataFrame:
        manifest = self.version.manifest
        segment = self.version.stored.log_segments([manifest])[manifest.version]
        return log_files_table(self.table.spark, (*segment.deltas, *segment.checkpoint_provider.files), segment)

    def listing(self) -> FolderListing:
        return list_below(self.table.table_path, self.table.spark_files.storage_options)

    def referenced_files(self, *, every_commit: bool) -> ReferencedFiles:
        """Return the files that the table's current log references. It may have been replaced or deleted."""
        context = self._context
        try:
            return referenced_files(context, every_commit=every_commit)
        except DeltaTableNotFoundError:
            return ReferencedFiles(files=(), tombstones=(), unread=LOG_IS_GONE)

    @property
    def _context(self) -> TableContext:
        log = TableLog(self.table.store, self.version.manifest.log_path)
        engine, files = self.version.engine, self.table.spark_files
        return TableContext(engine=engine, table_log=log, files=files, options=SnapshotOptions())

    def _stored_versions(self) -> Iterator[dict[str, Any]]:
        """Yield the stored versions. Does not read the log."""
        stored = self.version.stored
        manifests = stored.read_sound_manifests(stored.stored_versions().current)
        times = commit_times(manifests)
        for manifest in manifests:
            problems = stored.missing_files([manifest])
            yield {
                "version": manifest.version,
                "ms": times[manifest.version],
                "loadable": not problems,
                "why_not": next((f"{url}: {problem}" for url, problem in problems.items()), None),
            }
