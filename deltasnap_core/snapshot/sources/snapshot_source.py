"""SnapshotSource: the data that the metadata tables of a snapshot read: its files, and the current log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from deltasnap_core.log.listing.log_listing import LogListing, list_log
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.protocol.properties.table_config import deleted_file_retention_ms
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.scan.tables.log_tables import listed_versions, log_files_table, versions_table
from deltasnap_core.scan.tables.metadata_tables import FileHistory
from deltasnap_core.scan.tables.vacuum_candidates import ReferencedFiles
from deltasnap_core.snapshot.replayed_version import ReplayedVersion
from deltasnap_core.snapshot.sources.file_history import events_of_commits, file_history
from deltasnap_core.snapshot.sources.history_frame import history_frame
from deltasnap_core.snapshot.sources.referenced_files import referenced_files
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.folder_listing import FolderListing, list_below
from deltasnap_core.storage.urls import join_url

_REASON = "metadata tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSource:
    """`MetadataSource` of a snapshot. It lists the log up to the version again for each table.

    Commits that the snapshot's catalog ratified count as commits of the log.
    """

    context: TableContext
    replayed: Fallback[ReplayedVersion]

    @property
    def log(self) -> VersionLog:
        return self.replayed.version.log

    @property
    def retention_ms(self) -> int:
        return deleted_file_retention_ms(self.log.read().configuration)

    @property
    def now_ms(self) -> int:
        return self.log.now_ms

    @property
    def read_files(self) -> tuple[Sequence[str], Sequence[str]]:
        return (*self.log.replayable.files, self.context.table_log.log_path), ()

    def files(self) -> DataFrame:
        return self.replayed.run(lambda version: version.all_files_with_stats)

    def tombstones(self) -> DataFrame:
        return self.replayed.run(lambda version: version.tombstones(KEEP_ALL))

    def events(self) -> DataFrame | None:
        return events_of_commits(self.context, tuple(self._listing().commits.values()))

    def file_history(self) -> FileHistory:
        found = file_history(self.context, self._listing(), self.log.version, self.log.catalog)
        return found or FileHistory(files=self.files(), events=None)

    def history(self) -> DataFrame:
        return history_frame(self.context.session(_REASON), self._history.get_history(end=self.log.version))

    def versions(self) -> DataFrame:
        timestamps = self._history.commit_timestamps(end=self.log.version)
        return versions_table(self.context.session(_REASON), listed_versions(self._listing(), timestamps))

    def log_files(self) -> DataFrame:
        published = self.context.table_log.store.list_from(join_url(self.context.table_log.log_path, ""))
        files = {file.path: file for file in (*published, *self.log.catalog.log_tail)}
        return log_files_table(self.context.session(_REASON), files.values(), self.log.segment)

    def listing(self) -> FolderListing:
        return list_below(self.context.table_log.table_path, self.context.files.storage_options)

    def referenced_files(self, *, every_commit: bool) -> ReferencedFiles:
        return referenced_files(self.context, self.log, every_commit=every_commit)

    @property
    def _history(self) -> DeltaHistoryManager:
        return DeltaHistoryManager(
            self.context.table_log.store, self.context.table_log.log_path, catalog=self.log.catalog
        )

    def _listing(self) -> LogListing:
        log = self.context.table_log
        return list_log(log.store, log.log_path, last=self.log.version, catalog=self.log.catalog)
