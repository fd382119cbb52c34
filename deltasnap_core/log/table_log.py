"""TableLog: the entry point to everything that can be read from a log without a replay and without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from deltasnap_core.clock import Clock, milliseconds, system_clock
from deltasnap_core.errors import (
    ActionNotFoundError,
    CorruptLogError,
    DeltaTableNotFoundError,
    StorageError,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.catalog import Catalog, located
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.commits.data_changes import UNKNOWN_SCHEMA, data_changes
from deltasnap_core.log.condition.access_faults import no_table, storage_fault
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.condition.examined_files import ExaminedFiles
from deltasnap_core.log.condition.log_examination import condition_of
from deltasnap_core.log.condition.table_condition import TableCondition
from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits
from deltasnap_core.log.listing.changing_log import read_or_list_again
from deltasnap_core.log.listing.log_listing import LogListing, table_path
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.loaded_log import load_log
from deltasnap_core.log.log_range import LogRange
from deltasnap_core.log.non_file_actions import newest_protocol_and_metadata
from deltasnap_core.log.polling.log_poll import LogCursor, LogStatus, continues_from, cursor_at
from deltasnap_core.log.polling.new_commits import find_new_commits
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER, commit_version
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.storage.failing_log_store import FailingLogStore
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.storage.urls import join_url, to_url


@safe_repr
class TableLog:
    """The log of one table. Each call reads the log again and results are never cached, so threads may share it.

    Errors of methods that resolve a version: DeltaTableNotFoundError, VersionNotFoundError (states the existing
    versions), VersionGapError, StorageError.
    """

    def __init__(self, store: LogStore, log_path: str, *, clock: Clock = system_clock) -> None:
        """Create a log. log_path: URL of the `_delta_log` folder. clock: the current time."""
        self.store = store
        self.log_path = log_path
        self.builder = LogSegmentBuilder(store=store, log_path=log_path)
        self.history = DeltaHistoryManager(store, log_path)
        self.clock = clock

    @classmethod
    def for_path(
        cls,
        path: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        *,
        clock: Clock = system_clock,
    ) -> TableLog:
        """Return the log of the table in a folder or at a URL. storage_options: for fsspec."""
        return cls(FsspecLogStore(storage_options), join_url(to_url(path), LOG_FOLDER), clock=clock)

    @classmethod
    def for_table(cls, name: str, catalog: Catalog, *, clock: Clock = system_clock) -> TableLog:
        """Return the log of the table with a name in a catalog. Errors: CatalogError.

        If the catalog manages the table, the log includes the commits that it ratified: each listing asks for them.
        """
        table = located(catalog, name)
        return cls.for_path(table.location, table.storage_options, clock=clock)

    @classmethod
    def unreachable(cls, name: str, error: StorageError) -> TableLog:
        """Return the log of a table that is known by name only. Everything that reads it raises the error."""
        return cls(FailingLogStore(error), join_url(name, LOG_FOLDER))

    def __repr__(self) -> str:
        return f"TableLog({redacted(self.table_path)})"

    @property
    def table_path(self) -> str:
        """URL of the table's folder."""
        return table_path(self.log_path)

    def latest(self, *, catalog: CatalogCommits = NO_CATALOG) -> VersionLog:
        """Return the log of the latest version. Reads the hint and makes one listing. Delta's `getSnapshotAtInit`.

        catalog: the commits of the catalog of a catalog-managed table.
        """
        builder = replace(self.builder, catalog=catalog)
        return self.version_log(builder.build(hint=builder.read_hint()), catalog)

    def at(
        self,
        version: int | None = None,
        *,
        timestamp: datetime | int | None = None,
        catalog: CatalogCommits = NO_CATALOG,
    ) -> VersionLog:
        """Return the log of a version, or of the last version committed at or before a time.

        timestamp: a datetime (without a zone: local time) or ms since the epoch; a time after the last commit means
                   that commit.
        catalog:   the commits of the catalog of a catalog-managed table.
        Errors: ValueError unless exactly one of version and timestamp is given; TimestampNotFoundError. Delta's
        `getSnapshotAt`.
        """
        if (version is None) == (timestamp is None):
            raise ValueError("Expected either a version or a timestamp")
        if version is None:
            history = DeltaHistoryManager(self.store, self.log_path, catalog=catalog)
            version = history.get_active_commit_at_time(milliseconds(timestamp), can_return_last_commit=True).version
        builder = replace(self.builder, catalog=catalog)
        return self.version_log(builder.build(version, hint=builder.read_hint()), catalog)

    def list(self, first: int = 0) -> LogListing:
        """Return a listing of the log. `status`, `range` and `history_of` may share it.

        first: the earliest version to build from it. The listing may then not cover the whole log.
        """
        return self.builder.list_versions(first)

    def range(self, first: int, last: int, listing: LogListing | None = None) -> LogRange:
        """Return the versions first to last. listing: of the whole log, or of these versions; None: list the log once.

        Errors: as `at`, for the first version that does not exist; ValueError if `last` is before `first`.
        """
        if first > last:
            raise ValueError(f"Expected first <= last, found {first} and {last}")
        listing = listing or self.builder.list_versions(first, last)
        found = LogRange(builder=self.builder, listing=listing, versions=range(first, last + 1))
        for version in found.versions:
            found.segment(version)
        return found

    def latest_of(self, listing: LogListing) -> VersionLog:
        """Return the log of the latest version of a listing. Errors: as `latest`."""
        if listing.latest_version is None:
            raise DeltaTableNotFoundError(path=self.table_path)
        return self.version_log(LogSegment.from_listing(listing, listing.latest_version))

    def history_of(
        self, listing: LogListing, configuration: Callable[[], Mapping[str, str]] | None = None
    ) -> DeltaHistoryManager:
        """Return the history of a listed log.

        configuration: returns the latest properties; None: read them from the log.
        """
        return DeltaHistoryManager(self.store, self.log_path, listing=listing, configuration=configuration)

    def last_data_change(self, listing: LogListing, last: int, first: int = 0) -> int | None:
        """Return the last version from first to last whose commit changes data (see `data_changes`); None: none does.

        A commit that is gone or damaged may have changed data, so it counts. Commits are read one by one, the newest
        first. Errors: StorageError.
        """
        for version in range(last, first - 1, -1):
            if (commit := listing.commits.get(version)) is None:
                return version
            try:
                batch = read_commits(self.store, [commit])
                found = data_changes(batch, UNKNOWN_SCHEMA if version else None)[version]
                if found is None:
                    found = data_changes(batch, self._schema_at(listing, version - 1))[version]
            except (CorruptLogError, VersionGapError, VersionNotFoundError):
                return version
            if found:
                return version
        return None

    def _schema_at(self, listing: LogListing, version: int) -> str | None:
        _, metadata = newest_protocol_and_metadata(self.store, LogSegment.from_listing(listing, version))
        return None if metadata is None else metadata.schema_string

    def condition(
        self,
        listing: LogListing | None = None,
        *,
        first: int | None = None,
        read_pages: bool = True,
        max_page_bytes: int | None = None,
        known: CommitFindings | None = None,
    ) -> TableCondition:
        """Return which versions can be loaded, the faults of the log, and advice. Never raises DeltaSnapError.

        If a file of the listing can no longer be read and has changed since, or the newest checkpoint was replaced, the
        log is listed and examined again, at most twice. Then the pages of another checkpoint are read in any case.

        listing:    of the whole log; None: list the log.
        first:      the first version to check; None: the latest. Everything that it and later versions need is read.
        read_pages: whether to read every page of the newest checkpoint; False: only its footers and non-file actions.
                    Only reading the pages detects damaged pages.
        max_page_bytes: the pages of a larger checkpoint are not read; None: no limit.
        known:      about commits that are not read again; None: nothing is known.
        """
        try:
            listing = self.list() if listing is None else listing
            if listing.latest_version is None:
                raise DeltaTableNotFoundError(path=self.table_path)
            for is_last in (False, False, True):
                files = ExaminedFiles(self.store, listing, read_pages=read_pages, max_page_bytes=max_page_bytes)
                found = condition_of(self.builder, files, first, known or CommitFindings(), self.clock())
                if is_last or not files.is_suspect:
                    break
                # A writer may clean up the log, or replace a checkpoint, while it is read.
                before, listing = listing, self.list()
                if not files.has_outdated(listing):
                    break
                # The caller may know the pages of the checkpoint in its listing, but not those of another one.
                read_pages = read_pages or listing.newest_checkpoint != before.newest_checkpoint
            return found
        except DeltaTableNotFoundError:
            return TableCondition(table=redacted(self.table_path), faults=(no_table(self.store, self.table_path),))
        except StorageError as error:
            return TableCondition(table=redacted(self.table_path), faults=(storage_fault(error),))

    def status(
        self,
        listing: LogListing | None = None,
        table_id: str | None = None,
        *,
        condition: TableCondition | None = None,
    ) -> LogStatus:
        """Return the status of the whole log. It takes one listing and reads commits until it finds the table id.

        If a commit is cleaned up before it is read, the log is listed again.

        listing, table_id: known values; they are not read again.
        condition: of the log; None: unknown. If given, the status includes it, and covers only loadable versions.
        Errors: as `latest`, and CorruptLogError or ActionNotFoundError for broken or missing metadata; with
        `condition` only if no version can be loaded.
        """
        if listing is None or (condition and condition.latest not in (None, listing.latest_version)):
            listing = self.list()  # of a condition: the log was cleaned up during the examination, and examined again
        return read_or_list_again(lambda listed: self._status_of(listed, table_id, condition), listing, self.list)

    def _status_of(self, listing: LogListing, table_id: str | None, condition: TableCondition | None) -> LogStatus:
        latest = listing.latest_version
        if latest is None:
            raise DeltaTableNotFoundError(path=self.table_path)
        versions, newest = listing.reconstructable_versions(), latest
        if condition is not None:
            versions = tuple(condition.loadable)
            newest = latest if condition.newest_loadable is None else condition.newest_loadable
        segment = LogSegment.from_listing(listing, newest)  # reports a gap, even if the id is known
        return LogStatus(
            table_id=table_id or self._table_id(segment),
            latest=latest,
            versions=versions,
            commits=listing.commits,
            listing=listing,
            condition=condition,
        )

    def new_commits(self, since: LogCursor) -> LogStatus | None:
        """Return the new commits after a cursor; None: there are none.

        The cost of an idle poll does not depend on the length of the log. It is one listing from the commit of the
        cursor on. If the storage can only list whole folders, it is three small requests: that commit, the next one,
        and the hint. If the log does not simply continue, the result is a status of the whole log. It shows whether the
        log now belongs to another table (`table_id`) or to the same table with another history (`is_fork`).
        Errors: as `status`.
        """
        known, later = find_new_commits(self.builder, since.version)
        if since.is_at(known) and later is not None:
            if not later:
                return None
            commits = {commit_version(commit.path): commit for commit in later}
            versions = tuple(commits)
            return LogStatus(table_id=since.table_id, latest=versions[-1], versions=versions, commits=commits)
        status = self.status()
        if status.table_id != since.table_id:
            return status
        if not continues_from(self.store, since, known, status.latest):
            return replace(status, is_fork=True)
        return replace(status, versions=tuple(version for version in status.versions if version > since.version))

    def cursor(self, status: LogStatus, version: int | None = None) -> LogCursor:
        """Return the cursor to poll from after a status was processed up to a version (None: its latest)."""
        return cursor_at(self.store, self.log_path, status.table_id, status.latest if version is None else version)

    def _table_id(self, segment: LogSegment) -> str:
        try:
            _, metadata = newest_protocol_and_metadata(self.store, segment)
        except CorruptLogError:  # the checkpoint is broken: try an older one
            metadata = load_log(self.builder, segment).non_file.metadata
        if metadata is None:
            raise ActionNotFoundError(action="metadata", version=segment.version, path=self.table_path)
        return metadata.id

    def version_log(self, segment: LogSegment, catalog: CatalogCommits = NO_CATALOG) -> VersionLog:
        """Return the log of the version of a segment; nothing is read yet. catalog: what the segment was built with."""
        return VersionLog(builder=replace(self.builder, catalog=catalog), segment=segment, now_ms=self.clock())
