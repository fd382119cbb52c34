"""The metadata tables of a snapshot: from its files, and from the log as it is now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.log_listing import LogListing, list_log
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.protocol.table_config import deleted_file_retention_ms
from deltasnap_core.replay.spark.state_deltas import changes_of_versions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.log_tables import listed_versions, log_files_table, versions_table
from deltasnap_core.scan.tables.metadata_tables import LogFacts, MetadataTables
from deltasnap_core.scan.tables.vacuum_candidates import NamedFiles
from deltasnap_core.snapshot.history_frame import history_frame
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.folder_listing import FolderListing, list_below
from deltasnap_core.storage.urls import join_url

_REASON = "metadata tables"


def snapshot_tables(
    context: TableContext,
    log: VersionLog,
    table: ScannedTable,
    *,
    files: Callable[[], DataFrame],
    tombstones: Callable[[], DataFrame],
    named: Callable[[bool], NamedFiles],
) -> MetadataTables:
    """Return the metadata tables of a version. files, tombstones, named: as in LogFacts."""
    retention = deleted_file_retention_ms(log.configuration)
    source = _SnapshotLog(context=context, log=log)
    facts = LogFacts(
        files=files,
        tombstones=tombstones,
        events=source.events,
        history=source.history,
        versions=source.versions,
        log_files=source.log_files,
        listing=source.listed_files,
        named=named,
        retention_ms=retention,
        now_ms=log.min_file_retention_timestamp + retention,
    )
    return MetadataTables(table, facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SnapshotLog:
    """The facts of the log up to a version, from a separate listing."""

    context: TableContext
    log: VersionLog

    def events(self) -> DataFrame | None:
        batch = read_commits(self.context.log.store, tuple(self._listing().commits.values()))
        actions = self.context.reader(self.context.session(_REASON)).commit_actions(batch)
        return None if actions is None else changes_of_versions(actions)

    def history(self) -> DataFrame:
        return history_frame(self.context.session(_REASON), self.context.log.history.get_history(end=self.log.version))

    def versions(self) -> DataFrame:
        timestamps = self.context.log.history.commit_timestamps(end=self.log.version)
        return versions_table(self.context.session(_REASON), listed_versions(self._listing(), timestamps))

    def log_files(self) -> DataFrame:
        files = self.context.log.store.list_from(join_url(self.context.log.log_path, ""))
        return log_files_table(self.context.session(_REASON), files, self.log.segment)

    def listed_files(self) -> FolderListing:
        return list_below(self.context.log.table_path, self.context.files.storage_options)

    def _listing(self) -> LogListing:
        return list_log(self.context.log.store, self.context.log.log_path, last=self.log.version)
