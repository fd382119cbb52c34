"""A range of versions of a table: listed once, each commit read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.history.commit_timestamps import version_timestamps
from deltasnap_core.log.listing.log_listing import LogListing, table_path
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.loaded_log import LoadedLog, load_log
from deltasnap_core.log.non_file_actions import NonFileActions, non_file_actions_by_version
from deltasnap_core.log.protocol_checks import check_no_manifest_commits, check_replayable, check_state
from deltasnap_core.protocol.commit_info import CommitInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """A range of versions that all exist, with the builder of their segments."""

    builder: LogSegmentBuilder
    listing: LogListing
    versions: range

    def segment(self, version: int) -> LogSegment:
        """Return the log segment of a version. It is not kept: each may name thousands of commits."""
        return self.builder.segment_of(self.listing, version)

    def segments(self) -> dict[int, LogSegment]:
        """Return the log segments of all versions."""
        return {version: self.segment(version) for version in self.versions}

    def has_commit(self, version: int) -> bool:
        """Return whether the commit of a version exists.

        Without it, the version can only be loaded from its checkpoint.
        """
        return version in self.listing.commits

    def load(self, version: int) -> LoadedLog:
        """Return the loaded log of one version, after checking that it is readable.

        Errors: CorruptLogError; UnsupportedProtocolError, ActionNotFoundError naming the version.
        """
        loaded = load_log(self.builder, self.segment(version))
        check_replayable(loaded, path=self._table_path, validate_state=True)
        return loaded

    def read_commits(self, first: int, last: int) -> CommitBatch:
        """Return the commits of the versions first to last.

        File actions of large commits are checked, but not kept in memory.
        Errors: CorruptLogError naming file and line.
        """
        return read_commits(self.builder.store, self.listing.commits_between(first, last))

    def non_file_actions(
        self, before: NonFileActions, batch: CommitBatch, first: int, last: int
    ) -> dict[int, NonFileActions]:
        """Return the non-file actions in force at each version from first to last. Checks that every one is readable.

        before: those before `first`. batch: the commits of these versions.
        Errors: CorruptLogError; UnsupportedProtocolError, ActionNotFoundError naming the version.
        """
        by_version = non_file_actions_by_version(batch)
        states: dict[int, NonFileActions] = {}
        actions = before
        check_no_manifest_commits(batch, self._table_path)
        for version in range(first, last + 1):
            actions = actions.advanced(by_version.get(version, ()))
            states[version] = actions
            if version in by_version or version == first:
                check_state(actions, path=self._table_path, version=version)
        return states

    def timestamps(
        self, states: Mapping[int, NonFileActions], infos: Mapping[int, CommitInfo | None]
    ) -> dict[int, int]:
        """Return the timestamp (ms) of each version, as `Snapshot.timestamp`. infos: as for `version_timestamps`."""
        segments = (self.segment(version) for version in states)
        return version_timestamps(self.builder.store, segments, lambda version: states[version].configuration, infos)

    @property
    def _table_path(self) -> str:
        return table_path(self.builder.log_path)
