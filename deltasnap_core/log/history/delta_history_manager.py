"""DeltaHistoryManager: the history of commits, the existing versions, and the version at a time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from deltasnap_core.errors import (
    CorruptLogError,
    DeltaTableNotFoundError,
    TimestampNotFoundError,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.commits.action_lines import missing_commit
from deltasnap_core.log.commits.commit_scan import read_commit_infos
from deltasnap_core.log.history.commit_timestamps import (
    decreasing,
    in_commit_timestamp,
    modification_times,
    read_in_commit_timestamps,
    read_latest_configuration,
    start_of_in_commit_timestamps,
)
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits
from deltasnap_core.log.listing.changing_log import read_or_list_again
from deltasnap_core.log.listing.log_listing import LogListing, table_path
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.actions import CommitInfo
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus, LogStore


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaHistory(CommitInfo):
    """A commit of the history: the fields of its commitInfo (None: not stated), its version and its time.

    timestamp: ms since the epoch; the in-commit timestamp where enabled, otherwise the modification time of the file,
               adjusted to be greater than that of the previous version.
    """

    version: int
    timestamp: int

    @classmethod
    def of(cls, version: int, timestamp: int, info: CommitInfo | None) -> DeltaHistory:
        """Return the history entry of a commit. info: None: the commit has no commitInfo."""
        values: dict[str, Any] = {field.name: getattr(info or CommitInfo(), field.name) for field in fields(CommitInfo)}
        return cls(**{**values, "version": version, "timestamp": timestamp})


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A version and its commit time in ms since the epoch."""

    version: int
    timestamp: int


class DeltaHistoryManager:
    """Reads the history of a log. Each call makes one listing and reads only the commits that it needs.

    It needs no Spark and does not check the table's features. Every method raises DeltaTableNotFoundError if there is
    no table. Commits after a missing commit count too.
    """

    def __init__(
        self,
        store: LogStore,
        log_path: str,
        *,
        configuration: Callable[[], Mapping[str, str]] | None = None,
        catalog: CatalogCommits = NO_CATALOG,
        listing: LogListing | None = None,
    ) -> None:
        """Create a history manager.

        log_path:      URL of the `_delta_log` folder.
        configuration: returns the table properties of the latest version; None: read them from the log if needed.
        catalog:       the commits of the catalog of a catalog-managed table.
        listing:       a listing of the whole log. All results then refer to that listing, and nothing is listed again.
        """
        self._store = store
        self._log_path = log_path
        self._configuration = configuration
        self._catalog = catalog
        self._listing = listing

    def get_history(
        self, limit: int | None = None, start: int | None = None, end: int | None = None
    ) -> list[DeltaHistory]:
        """Return the commits, newest first: at most `limit` of those from version `start` to `end`, both inclusive.

        A version that is cleaned up during the call is skipped.
        Errors: CorruptLogError, naming file and line, if a commitInfo is broken.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit must be 0 or more, not {limit}")
        listing = self._list()
        versions = [v for v in sorted(listing.commits, reverse=True) if (start or 0) <= v and (end is None or v <= end)]
        return list(self._histories(listing, [listing.commits[version] for version in versions[:limit]]))

    def commit_timestamps(self, start: int | None = None, end: int | None = None) -> dict[int, int]:
        """Return the timestamp in ms by version, ascending, from version `start` to `end`, both inclusive.

        Reads no commit if in-commit timestamps are not enabled.
        """
        listing = self._list()
        since, _ = self._start_of_in_commit_timestamps(listing)
        by_mtime = modification_times(self._store, listing.commits)
        wanted = {v: t for v, t in by_mtime.items() if (start or 0) <= v and (end is None or v <= end)}
        with_own_time = [listing.commits[version] for version in wanted if version >= since]
        found = dict(read_in_commit_timestamps(self._store, with_own_time))
        return {v: found.get(v, t) for v, t in wanted.items() if v < since or v in found}

    def get_active_commit_at_time(
        self,
        timestamp_ms: int,
        can_return_last_commit: bool = False,
        must_be_recreatable: bool = True,
        can_return_earliest_commit: bool = False,
    ) -> Commit:
        """Return the last commit at or before a time (time travel). Delta's `getActiveCommitAtTime`.

        The times are those of the history: modification times are adjusted from the earliest commit on. Delta adjusts
        them from the earliest recreatable version on. The results differ only if a later file has an earlier time.

        can_return_last_commit:     allow a time after the latest commit, and return that commit.
        must_be_recreatable:        ignore versions before the earliest one that has a commit and whose state can be
                                    reconstructed.
        can_return_earliest_commit: allow a time before the earliest commit, and return that commit.
        Errors: TimestampNotFoundError, stating the range, if the time is outside of it and not allowed;
        VersionGapError if commits are missing between that commit and the time, so that one of them may be the last.
        """
        search = partial(
            self._active_commit,
            timestamp_ms=timestamp_ms,
            can_return_last_commit=can_return_last_commit,
            must_be_recreatable=must_be_recreatable,
            can_return_earliest_commit=can_return_earliest_commit,
        )
        return read_or_list_again(search, self._list(), self._list)

    def _active_commit(
        self,
        listing: LogListing,
        *,
        timestamp_ms: int,
        can_return_last_commit: bool,
        must_be_recreatable: bool,
        can_return_earliest_commit: bool,
    ) -> Commit:
        earliest = self._earliest(listing, must_be_recreatable)
        if must_be_recreatable:  # an old checkpoint may lack the commits up to the first existing one
            with_state = (version for version in listing.reconstructable_versions() if version in listing.commits)
            earliest = next(with_state, _latest(listing) + 1)
        timeline = _Timeline(self._store, listing, earliest, self._start_of_in_commit_timestamps(listing))
        if not timeline.versions:
            raise TimestampNotFoundError(path=table_path(self._log_path), timestamp_ms=timestamp_ms)
        version = timeline.last_at_or_before(timestamp_ms)
        found = Commit(version=version, timestamp=timeline.timestamp_of(version))
        too_early = found.timestamp > timestamp_ms and not can_return_earliest_commit
        is_last = version == timeline.versions[-1]
        if too_early or (is_last and found.timestamp < timestamp_ms and not can_return_last_commit):
            raise TimestampNotFoundError(
                path=table_path(self._log_path),
                timestamp_ms=timestamp_ms,
                earliest_ms=timeline.timestamp_of(timeline.versions[0]),
                latest_ms=timeline.timestamp_of(timeline.versions[-1]),
            )
        if found.timestamp < timestamp_ms and (missing := _missing_after(listing, version)):
            raise VersionGapError(path=table_path(self._log_path), version=version + 1, missing=missing)
        return found

    def check_version_exists(
        self, version: int, must_be_recreatable: bool = True, allow_out_of_range: bool = False
    ) -> None:
        """Raise VersionNotFoundError, stating the range, if a version is outside of it.

        must_be_recreatable: the range starts at the earliest version whose state can be reconstructed, not at the
                             earliest commit.
        allow_out_of_range:  allow a version after the latest one.
        """
        listing = self._list()
        earliest, latest = self._earliest(listing, must_be_recreatable), _latest(listing)
        if version < earliest or (version > latest and not allow_out_of_range):
            raise VersionNotFoundError(
                path=table_path(self._log_path), version=version, earliest=earliest, latest=latest
            )

    def earliest_version(self) -> int:
        """Return the earliest version that has a commit; without any commits, that of the earliest checkpoint."""
        return self._earliest(self._list(), must_be_recreatable=False)

    def latest_version(self) -> int:
        """Return the latest version that has a commit or a checkpoint."""
        return _latest(self._list())

    def earliest_recreatable_version(self) -> int:
        """Return the earliest version whose state can be reconstructed. Errors: VersionGapError if there is none."""
        return self._earliest(self._list(), must_be_recreatable=True)

    def reconstructable_versions(self) -> tuple[int, ...]:
        """Return the versions whose state can be reconstructed, ascending."""
        return self._list().reconstructable_versions()

    def _list(self) -> LogListing:
        if self._listing is not None:
            return self._listing
        return LogSegmentBuilder(self._store, self._log_path, catalog=self._catalog).list_versions(0)

    def _start_of_in_commit_timestamps(self, listing: LogListing) -> tuple[int, int | None]:
        if self._configuration is not None:
            return start_of_in_commit_timestamps(self._configuration())
        return start_of_in_commit_timestamps(read_latest_configuration(self._store, listing))

    def _histories(self, listing: LogListing, commits: Sequence[FileStatus]) -> Iterator[DeltaHistory]:
        if not commits:
            return
        since, _ = self._start_of_in_commit_timestamps(listing)
        by_mtime = modification_times(self._store, listing.commits)
        for commit, info in read_commit_infos(self._store, commits):
            version = commit_version(commit.path)
            time = in_commit_timestamp(commit, info) if version >= since else by_mtime[version]
            yield DeltaHistory.of(version, time, info)

    def _earliest(self, listing: LogListing, must_be_recreatable: bool) -> int:
        if not must_be_recreatable:
            return next(iter(listing.commits or listing.reconstructable_versions()), _latest(listing))
        earliest = next(iter(listing.reconstructable_versions()), None)
        if earliest is None:
            latest = _latest(listing)
            missing = VersionRanges.between(0, latest - 1, listing.commits)
            raise VersionGapError(path=table_path(self._log_path), version=latest, missing=missing)
        return earliest


class _Timeline:
    """The commits from a version on, in order of time. Reads as few timestamps as possible."""

    def __init__(self, store: LogStore, listing: LogListing, first: int, own_times: tuple[int, int | None]) -> None:
        self._store = store
        self._commits = listing.commits
        self._since, self._since_ms = own_times
        self._by_mtime = modification_times(store, listing.commits)
        self.versions = [version for version in self._by_mtime if version >= first]
        self._read: dict[int, int] = {}

    def timestamp_of(self, version: int) -> int:
        if version < self._since:
            return self._by_mtime[version]
        if version not in self._read:
            commit = self._commits[version]
            self._read |= read_in_commit_timestamps(self._store, [commit])
            if version not in self._read:
                raise missing_commit(commit.path)
        return self._read[version]

    def last_at_or_before(self, timestamp_ms: int) -> int:
        """Return the last version committed at or before a time; the first one of the era if all are later.

        Errors: CorruptLogError if times that the search reads, or those next to the result, decrease.
        """
        era = self._era(timestamp_ms)
        place = max(bisect_right(era, timestamp_ms, key=self.timestamp_of) - 1, 0)
        for version in era[max(place - 1, 0) : place + 2]:
            with suppress(CorruptLogError):  # the search read what it needs
                self.timestamp_of(version)
        for version in decreasing(self._read):
            reason = "expected an in-commit timestamp that is not before those of earlier versions"
            raise CorruptLogError(path=self._commits[version].path, reason=f"{reason}, found {self._read[version]}")
        return era[place]

    def _era(self, timestamp_ms: int) -> list[int]:
        """Return the versions to search: those before in-commit timestamps, or those after.

        The times of both may overlap.
        """
        place = bisect_left(self.versions, self._since)
        before, after = self.versions[:place], self.versions[place:]
        if not (before and after):
            return self.versions
        since_ms = self.timestamp_of(after[0]) if self._since_ms is None else self._since_ms
        return after if since_ms <= timestamp_ms else before


def _missing_after(listing: LogListing, version: int) -> VersionRanges:
    """Return the versions without a commit between a commit and the next existing one, or the latest version."""
    following = next((each for each in listing.commits if each > version), _latest(listing) + 1)
    return VersionRanges.between(version + 1, following - 1, ())


def _latest(listing: LogListing) -> int:
    if listing.latest_version is None:
        raise DeltaTableNotFoundError(path=table_path(listing.log_path))
    return listing.latest_version
