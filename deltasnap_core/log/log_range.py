"""What the log of a table says of a range of versions: read once, for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deltasnap_core.log.commit_batch import CommitBatch, read_commits
from deltasnap_core.log.commit_scan import read_commit_infos
from deltasnap_core.log.loaded_log import LoadedLog, LogLoader
from deltasnap_core.log.log_listing import list_log
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.non_file_actions import NonFileActions, non_file_actions_by_version
from deltasnap_core.log.protocol_gate import check_replayable
from deltasnap_core.protocol.file_names import commit_version
from deltasnap_core.protocol.table_config import deleted_file_retention_ms, in_commit_timestamps_enabled


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


def read_log_range(loader: LogLoader, first: int, last: int) -> LogRange:
    """Give the versions first to last of a log, by two listings and no Spark.

    Errors: as LogSegmentBuilder.build; VersionGapError where a commit is missing that no checkpoint stands in for.
    """
    start = loader.builder.build(first)
    log_path = loader.builder.log_path
    listing = list_log(loader.store, log_path, first=max(start.checkpoint_provider.version, 0), last=last)
    segments = {
        version: LogSegment.try_new(
            log_path=log_path,
            version=version,
            commits=listing.commits,
            checkpoint=listing.best_checkpoint(version),
            compactions=listing.compactions,
            checksums=listing.checksums,
        )
        for version in range(first, last + 1)
    }
    return LogRange(loader=loader, segments=segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeActions:
    """The actions that are not of files, of a run of commits, and what holds of each version because of them.

    by_version: the actions of each commit, in its order; commits without any left out.
    states:     what has come of them at each version.
    """

    by_version: Mapping[int, list[Any]]
    states: Mapping[int, NonFileActions]


def range_actions(logged: LogRange, before: NonFileActions, batch: CommitBatch, first: int, last: int) -> RangeActions:
    """Follow the actions that are not of files through the versions first to last, each found to be readable.

    Errors: CorruptLogError; UnsupportedProtocolError, ActionNotFoundError naming the version.
    """
    by_version = non_file_actions_by_version(batch)
    states: dict[int, NonFileActions] = {}
    actions = before
    for version in range(first, last + 1):
        actions = actions.advanced(by_version.get(version, ()))
        states[version] = actions
        if version in by_version or version == last:
            loaded = LoadedLog(segment=logged.segments[version], contents=None, batch=batch, non_file=actions)
            check_replayable(loaded, path=logged.loader.builder.log_path, validate_state=True)
    return RangeActions(by_version=by_version, states=states)


def commit_timestamps(logged: LogRange, states: Mapping[int, NonFileActions]) -> dict[int, int]:
    """Give the timestamp (ms) of each version, as on Snapshot: the commit's own where enabled, else that of its file.

    Source: PROTOCOL.md, In-Commit Timestamps.
    """
    timestamps = {version: logged.segments[version].last_commit_timestamp for version in states}
    telling = [
        commit
        for version, state in states.items()
        if state.metadata is not None
        and in_commit_timestamps_enabled(state.metadata.configuration)
        and (commit := logged.segments[version].last_commit_file) is not None
    ]
    for commit, info in read_commit_infos(logged.loader.store, telling):
        if info is not None and info.in_commit_timestamp is not None:
            timestamps[commit_version(commit.path)] = info.in_commit_timestamp
    return timestamps


def retention_timestamp(actions: NonFileActions, timestamp: int) -> int:
    """Give the time (ms) up to which tombstones have expired at a version committed at `timestamp`.

    It does not depend on when it is asked for, so that storing a version again gives the same content. -1: none has.
    """
    configuration = actions.metadata.configuration if actions.metadata else {}
    return max(-1, timestamp - deleted_file_retention_ms(configuration))


def contiguous_runs(versions: Iterable[int]) -> list[tuple[int, int]]:
    """Give the runs of consecutive versions, ascending: first and last of each."""
    runs: list[tuple[int, int]] = []
    for version in versions:
        if runs and runs[-1][1] == version - 1:
            runs[-1] = (runs[-1][0], version)
        else:
            runs.append((version, version))
    return runs
