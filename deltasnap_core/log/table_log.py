"""TableLog: the door to all that the log of a table says without a replay, and without Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from deltasnap_core.errors import (
    ActionNotFoundError,
    CorruptLogError,
    DeltaTableNotFoundError,
)
from deltasnap_core.log.catalog_commits import NO_CATALOG, CatalogCommits
from deltasnap_core.log.delta_history_manager import DeltaHistoryManager
from deltasnap_core.log.loaded_log import LogLoader
from deltasnap_core.log.log_examination import examine_log
from deltasnap_core.log.log_listing import LogListing, table_path
from deltasnap_core.log.log_poll import LogCursor, LogStatus, cursor_at, goes_on_from
from deltasnap_core.log.log_range import LogRange, read_log_range
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.new_commits import look_from
from deltasnap_core.log.protocol_metadata import newest_protocol_and_metadata
from deltasnap_core.log.table_condition import TableCondition
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.protocol.file_names import LOG_FOLDER, commit_version
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.storage.urls import join_url, redacted, to_url

Clock = Callable[[], int]
"""The present, in milliseconds since the epoch."""


def system_clock() -> int:
    """Return the present, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@safe_repr
class TableLog:
    """The log of one table as it lies there at each call: results are never cached, so threads may share it.

    Errors of what looks for a version: DeltaTableNotFoundError, VersionNotFoundError (says which versions there are),
    VersionGapError, StorageError.
    """

    def __init__(self, store: LogStore, log_path: str, *, clock: Clock = system_clock) -> None:
        """log_path: URL of the `_delta_log` folder. clock: the present, for what expires."""
        self.store = store
        self.log_path = log_path
        self.builder = LogSegmentBuilder(store=store, log_path=log_path)
        self.loader = LogLoader(store=store, builder=self.builder)
        self.history = DeltaHistoryManager(store, log_path)
        self._clock = clock

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

    def __repr__(self) -> str:
        return f"TableLog({redacted(self.table_path)})"

    @property
    def table_path(self) -> str:
        """URL of the table's folder."""
        return table_path(self.log_path)

    def latest(self, *, catalog: CatalogCommits = NO_CATALOG) -> VersionLog:
        """Return what the log says of the latest version; the hint and one listing. Delta's `getSnapshotAtInit`.

        catalog: what the catalog of a catalog-managed table knows.
        """
        segment = self.builder.build(hint=self.builder.read_hint(), catalog=catalog)
        return self._version_log(segment, asks_catalog=catalog.is_known)

    def at(
        self,
        version: int | None = None,
        *,
        timestamp: datetime | int | None = None,
        catalog: CatalogCommits = NO_CATALOG,
    ) -> VersionLog:
        """Return what the log says of a version, or of the one as of a time: of the last commit at or before it.

        timestamp: a datetime (without a zone: local time) or ms since the epoch; after the last commit it means that.
        Errors: ValueError unless one of the two is given; TimestampNotFoundError. Delta's `getSnapshotAt`.
        """
        if (version is None) == (timestamp is None):
            raise ValueError("Either a version or a timestamp says which version is wanted")
        if version is None:
            history = DeltaHistoryManager(self.store, self.log_path, catalog=catalog)
            version = history.get_active_commit_at_time(milliseconds(timestamp), can_return_last_commit=True).version
        segment = self.builder.build(version, hint=self.builder.read_hint(), catalog=catalog)
        return self._version_log(segment, asks_catalog=catalog.is_known)

    def list(self, first: int = 0) -> LogListing:
        """Return what lies in the log, by one listing: `status`, `range` and `history_of` may share it.

        first: the earliest version to be built from it; less may then be listed than the whole log.
        """
        return self.builder.list_versions(first)

    def range(self, first: int, last: int, listing: LogListing | None = None) -> LogRange:
        """Return the versions first to last, by one listing, or by none where one of the whole log is given."""
        return read_log_range(self.loader, first, last, listing)

    def latest_of(self, listing: LogListing) -> VersionLog:
        """Return what the log says of the latest version of a listing. Errors: as `latest`."""
        if listing.latest_version is None:
            raise DeltaTableNotFoundError(path=self.table_path)
        return self._version_log(LogSegment.from_listing(listing, listing.latest_version), asks_catalog=False)

    def history_of(
        self, listing: LogListing, configuration: Callable[[], Mapping[str, str]] | None = None
    ) -> DeltaHistoryManager:
        """Return the history of the log as it was listed. configuration: the latest properties, where known."""
        return DeltaHistoryManager(self.store, self.log_path, listing=listing, configuration=configuration)

    def condition(
        self,
        listing: LogListing | None = None,
        *,
        first: int | None = None,
        sound_until: int = -1,
        read_pages: bool = True,
    ) -> TableCondition:
        """Return which versions can be loaded, what is wrong with the log, and what helps. Raises no DeltaSnapError.

        listing:    of the whole log, where it is known.
        first:      the first version whose commit is read; None: the commits that the latest version needs.
        sound_until: the commits up to this version are known to be sound, as those of stored versions; they are not
                    read.
        read_pages: whether to read every page of the newest checkpoint, or no more than its footers and non-file
                    actions. Damaged pages are found only by reading them.
        """
        return examine_log(
            self.store, self.builder, listing=listing, first=first, sound_until=sound_until, read_pages=read_pages
        )

    def status(
        self, listing: LogListing | None = None, generation: str | None = None, *, examine_after: int | None = None
    ) -> LogStatus:
        """Return what the whole log holds now; one listing, and as many commits as it takes to find the table's id.

        listing, generation: where they are known, they are not asked for.
        examine_after: the last version whose commit is known to be sound (-1: none). The later commits are read, the
            status is of the versions that can be loaded, and has the condition of the log.
        Errors: those of finding the latest version and its metadata, where there is no table or its log is damaged;
        with `examine_after` only where no version can be loaded.
        """
        listing = listing or self.list()
        latest = listing.latest_version
        if latest is None:
            raise DeltaTableNotFoundError(path=self.table_path)
        condition = None
        versions, newest = listing.reconstructable_versions(), latest
        if examine_after is not None:
            condition = self.condition(listing, first=examine_after + 1, sound_until=examine_after, read_pages=False)
            versions = tuple(condition.loadable)
            newest = latest if condition.newest_loadable is None else condition.newest_loadable
        segment = LogSegment.from_listing(listing, newest)  # a hole before it is told, whether or not the id is known
        return LogStatus(
            generation=generation or self._table_id(segment),
            latest=latest,
            versions=versions,
            commits=listing.commits,
            listing=listing,
            condition=condition,
        )

    def new_commits(self, since: LogCursor) -> LogStatus | None:
        """Return what came after a cursor; None: nothing.

        An idle poll costs as much however long the log is: one listing from the commit of the cursor on, or where the
        storage lists whole folders only, three small requests: that commit, the one after it, the hint. What is no
        plain continuation costs a status of the whole log, which then says whether it is another table's now
        (`generation`), or the same one's with another past (`is_fork`).
        Errors: as `status`.
        """
        found = look_from(self.builder, since.version)
        if since.is_at(found.known):
            if found.later:
                commits = {commit_version(commit.path): commit for commit in found.later}
                versions = tuple(commits)
                return LogStatus(generation=since.generation, latest=versions[-1], versions=versions, commits=commits)
            if not found.is_cut:
                return None
        status = self.status()
        if status.generation != since.generation:
            return status
        if not goes_on_from(self.store, since, found.known, status.latest):
            return replace(status, is_fork=True)
        return replace(status, versions=tuple(version for version in status.versions if version > since.version))

    def cursor(self, status: LogStatus, version: int | None = None) -> LogCursor:
        """Return the cursor to poll from once a status was dealt with up to a version (None: to its latest)."""
        return cursor_at(self.store, self.log_path, status.generation, status.latest if version is None else version)

    def _table_id(self, segment: LogSegment) -> str:
        try:
            _, metadata = newest_protocol_and_metadata(self.store, segment)
        except CorruptLogError:  # of a checkpoint: an older one may tell
            metadata = self.loader.load(segment).non_file.metadata
        if metadata is None:
            raise ActionNotFoundError(action="metadata", version=segment.version, path=self.table_path)
        return metadata.id

    def _version_log(self, segment: LogSegment, *, asks_catalog: bool) -> VersionLog:
        return VersionLog(self.loader, segment, now_ms=self._clock(), asks_catalog=asks_catalog)


def milliseconds(timestamp: datetime | int | None) -> int:
    """Return a time in ms since the epoch. Errors: ValueError for what is no time."""
    if isinstance(timestamp, datetime):
        try:
            aware = timestamp if timestamp.utcoffset() is not None else timestamp.astimezone()
        except OverflowError as error:
            raise ValueError(f"{timestamp!r} is out of range in the local time zone") from error
        # Not by way of a float, which would lose the milliseconds of far dates, nor of UTC, where the first and the
        # last day of some zones are no date.
        return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if isinstance(timestamp, int):
        return timestamp
    raise ValueError(f"A timestamp is a datetime or milliseconds since the epoch, not {timestamp!r}")
