"""What the log of a table says of a range of versions: listed once, and each commit read once, for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltasnap_core.errors import DeltaTableNotFoundError
from deltasnap_core.log.commit_batch import CommitBatch, read_commits
from deltasnap_core.log.loaded_log import LoadedLog, LogLoader
from deltasnap_core.log.log_listing import LogListing, list_log, table_path
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.non_file_actions import NonFileActions, non_file_actions_by_version
from deltasnap_core.log.protocol_gate import check_replayable
from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.protocol.table_config import (
    deleted_file_retention_ms,
    in_commit_timestamps_enabled,
    set_transaction_retention_ms,
)

# One page of an S3 listing; writers leave a checkpoint every 10 to 100 commits.
_LOOK_BACK_VERSIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """The versions of a range, and what the commits after its start hold.

    segments: by version, ascending.
    """

    loader: LogLoader
    segments: Mapping[int, LogSegment]

    def has_commit(self, version: int) -> bool:
        """Whether the commit of a version is there; without it, the version can only be loaded from its checkpoint."""
        return self.segments[version].last_commit_file is not None

    def load(self, version: int) -> LoadedLog:
        """Read the whole log of one version, found to be readable.

        Errors: CorruptLogError; UnsupportedProtocolError, ActionNotFoundError naming the version.
        """
        loaded = self.loader.load(self.segments[version])
        check_replayable(loaded, path=self.loader.builder.log_path, validate_state=True)
        return loaded

    def read_commits(self, first: int, last: int) -> CommitBatch:
        """Read the commits of the versions first to last; large ones are only checked.

        Errors: CorruptLogError naming file and line.
        """
        commits = [self.segments[version].last_commit_file for version in range(first, last + 1)]
        return read_commits(self.loader.store, [commit for commit in commits if commit is not None])


def list_range(log: LogSegmentBuilder, first: int) -> LogListing:
    """Return a listing, to the end of the log, that version `first` and all later ones can be loaded from.

    One listing, of little more than is asked for, where a checkpoint lies among the thousand versions before.
    Errors: DeltaTableNotFoundError.
    """
    start = max(first - _LOOK_BACK_VERSIONS, 0)
    listing = _listed(log, start)
    if not reaches_back(listing, first):
        listing = _listed(log, 0)
    if listing.latest_version is None:
        raise DeltaTableNotFoundError(path=table_path(log.log_path))
    return listing


def reaches_back(listing: LogListing, first: int) -> bool:
    """Return whether version `first` and the later ones can be loaded from a listing, if they are there at all."""
    return not listing.first or (listing.first <= first and not listing.best_checkpoint(first).is_empty)


def list_again(log: LogSegmentBuilder, listing: LogListing) -> LogListing:
    """Return what is now in the log where a listing looked; an empty listing where there is no log any more."""
    try:
        return _listed(log, listing.first)
    except DeltaTableNotFoundError:
        return replace(listing, commits={}, checkpoints=(), compactions=(), checksums={})


def log_range(loader: LogLoader, listing: LogListing, first: int, last: int) -> LogRange:
    """Return the versions first to last of a listed log; no more of the log is asked for.

    Errors: as LogSegmentBuilder.build; VersionGapError where a commit is missing that no checkpoint stands in for.
    """
    for version in (first, last):
        if not listing.has_version(version):
            loader.builder.build(version)  # says which versions there are
    segments = {}
    for version in range(first, last + 1):
        segments[version] = LogSegment.try_new(
            log_path=listing.log_path,
            version=version,
            commits=listing.commits,
            checkpoint=listing.best_checkpoint(version),
            compactions=listing.compactions,
            checksums=listing.checksums,
        )
    return LogRange(loader=loader, segments=segments)


def read_log_range(loader: LogLoader, first: int, last: int) -> LogRange:
    """Return the versions first to last of a log, found by one listing; see `log_range`."""
    return log_range(loader, list_range(loader.builder, first), first, last)


def _listed(log: LogSegmentBuilder, first: int) -> LogListing:
    try:
        return list_log(log.store, log.log_path, first=first)
    except FileNotFoundError as error:
        raise DeltaTableNotFoundError(path=table_path(log.log_path)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeActions:
    """The non-file actions of a run of commits, and those in force at each of its versions.

    by_version: the actions of each commit, in its order; commits without any left out.
    states:     what is in force, by version.
    """

    by_version: Mapping[int, list[Any]]
    states: Mapping[int, NonFileActions]


def range_actions(logged: LogRange, before: NonFileActions, batch: CommitBatch, first: int, last: int) -> RangeActions:
    """Return the non-file actions in force at the versions first to last; every version is checked to be readable.

    Errors: CorruptLogError; UnsupportedProtocolError, ActionNotFoundError naming the version.
    """
    by_version = non_file_actions_by_version(logged.loader.store, batch)
    states: dict[int, NonFileActions] = {}
    actions = before
    for version in range(first, last + 1):
        actions = actions.advanced(by_version.get(version, ()))
        states[version] = actions
        if version in by_version or version == last:
            loaded = LoadedLog(segment=logged.segments[version], contents=None, batch=batch, non_file=actions)
            check_replayable(loaded, path=logged.loader.builder.log_path, validate_state=True)
    return RangeActions(by_version=by_version, states=states)


def commit_timestamps(
    logged: LogRange, states: Mapping[int, NonFileActions], infos: Mapping[int, CommitInfo]
) -> dict[int, int]:
    """Return the timestamp (ms) of each version, as on Snapshot: in-commit where enabled, else that of its file.

    infos: by version, what the commits say of themselves.
    Source: PROTOCOL.md, In-Commit Timestamps.
    """
    timestamps = {version: logged.segments[version].last_commit_timestamp for version in states}
    for version, state in states.items():
        in_commit = None if version not in infos else infos[version].in_commit_timestamp
        enabled = state.metadata is not None and in_commit_timestamps_enabled(state.metadata.configuration)
        if enabled and in_commit is not None:
            timestamps[version] = in_commit
    return timestamps


def retention_timestamp(actions: NonFileActions, timestamp: int) -> int:
    """Return the time (ms) up to which tombstones have expired at a version committed at `timestamp`.

    It does not depend on when it is asked for, so that storing a version again gives the same content. -1: none has.
    """
    configuration = actions.metadata.configuration if actions.metadata else {}
    return max(-1, timestamp - deleted_file_retention_ms(configuration))


def without_expired_transactions(actions: NonFileActions, timestamp: int) -> NonFileActions:
    """Return the actions without the transactions that have expired at a version committed at `timestamp` (ms).

    With `delta.setTransactionRetentionDuration`, those no younger than that have, and those without a time.
    """
    retention = set_transaction_retention_ms(actions.metadata.configuration) if actions.metadata else None
    if retention is None:
        return actions
    kept = {name: txn for name, txn in actions.transactions.items() if (txn.last_updated or 0) > timestamp - retention}
    return replace(actions, transactions=kept)


def contiguous_runs(versions: Iterable[int]) -> list[tuple[int, int]]:
    """Return the runs of consecutive versions, ascending: first and last of each."""
    runs: list[tuple[int, int]] = []
    for version in versions:
        if runs and runs[-1][1] == version - 1:
            runs[-1] = (runs[-1][0], version)
        else:
            runs.append((version, version))
    return runs
