"""LogSegment: the files of the log that make up one version, valid by construction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from deltasnap_core.errors import VersionGapError, VersionNotFoundError
from deltasnap_core.log.listing.checkpoint_provider import (
    CheckpointProvider,
    checkpoint_from_json,
)
from deltasnap_core.log.listing.log_listing import CommitRun, LogListing, table_path
from deltasnap_core.protocol.log_files.file_names import ParsedLogPath, commit_version
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.storage.log_store import FileStatus


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LogSegment:
    """An optional checkpoint and the commits after it, up to a version. It guarantees:

    1. The checkpoint is complete, and not newer than the version.
    2. The commits start after the checkpoint (at 0 without one), ascending, with no version missing.
    3. The last commit, or otherwise the checkpoint, is of the version.
    4. Every compaction lies completely within the commits. Every other file is of the version itself.

    log_path:              URL of the `_delta_log` folder.
    deltas:                the commits, ascending; published ones or ratified ones in `_staged_commits`.
    compactions:           by first, then last version. They are not read or checked here.
    checksum_file:         the `.crc` file of the version; None: there is none.
    last_commit_file:      the commit of the version, even if a checkpoint replaces it; None: it no longer exists.
    last_commit_timestamp: modification time in ms of that file, or otherwise of the checkpoint.

    Two segments are equal if they name the same files with the same sizes and times.
    Source: PROTOCOL.md, Delta Log Entries, Checkpoints and Log Compaction Files.
    """

    log_path: str
    version: int
    deltas: tuple[FileStatus, ...]
    checkpoint_provider: CheckpointProvider
    compactions: tuple[FileStatus, ...] = ()
    checksum_file: FileStatus | None = None
    last_commit_file: FileStatus | None = None
    last_commit_timestamp: int

    def __post_init__(self) -> None:
        checkpoint = self.checkpoint_provider
        if checkpoint.version > self.version or checkpoint.is_empty != (checkpoint.version < 0):
            raise ValueError(f"{checkpoint} cannot be the start of version {self.version} of {redacted(self.log_path)}")
        self._check_commits(checkpoint.version + 1)
        if strays := [c.path for c in self.compactions if not is_within(c, checkpoint.version, self.version)]:
            raise ValueError(f"Compactions outside ({checkpoint.version}, {self.version}]: {strays}")
        for file in filter(None, (self.checksum_file, self.last_commit_file)):
            parsed = ParsedLogPath.parse(file.name)
            if parsed is None or parsed.version != self.version:
                raise ValueError(f"Expected a file of version {self.version}, found {file.name}")

    def _check_commits(self, first: int) -> None:
        """Raise VersionNotFoundError unless the commits, or without any the checkpoint, end at the version.

        Raise VersionGapError if a version from `first` on has no commit; ValueError for a wrong order.
        The cost depends on the number of existing commits, not on the width of a gap.
        """
        if isinstance(self.deltas, CommitRun) and _spans(self.deltas, first, self.version):
            return
        versions = [commit_version(file.path) for file in self.deltas]
        if (versions[-1] if versions else first - 1) != self.version:
            raise VersionNotFoundError(path=table_path(self.log_path), version=self.version)
        if all(found == expected for expected, found in enumerate(versions, start=first)):
            return
        if missing := VersionRanges.between(first, self.version, versions):
            raise VersionGapError(path=table_path(self.log_path), version=self.version, missing=missing)
        raise ValueError(f"Commits of {redacted(self.log_path)} out of order or outside the range of {self.version}")

    @classmethod
    def from_listing(
        cls,
        listing: LogListing,
        version: int,
        checkpoint: CheckpointProvider | None = None,
    ) -> LogSegment:
        """Return the segment of a version from a listing. Files that do not belong to it are left out.

        checkpoint: the checkpoint to start from; None: the best one for the version.
        Errors: VersionNotFoundError if the version has neither a commit nor this checkpoint; VersionGapError if commits
        between the checkpoint (or 0) and the version are missing.
        """
        checkpoint = listing.best_checkpoint(version) if checkpoint is None else checkpoint
        last_commit = listing.commits.get(version)
        written = max(checkpoint.files, key=lambda file: file.modification_time, default=None)
        if last_commit and (last_commit.size or checkpoint.version != version):
            written = last_commit  # otherwise it is lost, truncated or no file, and the time of the checkpoint is used
        return cls(
            log_path=listing.log_path,
            version=version,
            deltas=listing.commits_between(checkpoint.version + 1, version),
            checkpoint_provider=checkpoint,
            compactions=tuple(c for c in listing.compactions if is_within(c, checkpoint.version, version)),
            checksum_file=listing.checksums.get(version),
            last_commit_file=last_commit,
            last_commit_timestamp=written.modification_time if written else 0,
        )

    @property
    def files(self) -> tuple[FileStatus, ...]:
        """The files to read for the version: those of the checkpoint, then the commits."""
        return (*self.checkpoint_provider.files, *self.deltas)

    @property
    def size_in_bytes(self) -> int:
        """The size of all of `files`."""
        return sum(map(attrgetter("size"), self.files))  # there may be thousands: no Python code for each

    def continues(self, previous: LogSegment) -> bool:
        """Return whether this segment extends `previous`, so that its loaded data can be reused.

        True if both start from the same checkpoint and this segment begins with the unchanged commits of `previous`.
        False after a new checkpoint, and if the table was recreated, restored or rewritten.
        """
        return (
            self.log_path == previous.log_path
            and self.checkpoint_provider == previous.checkpoint_provider
            and self.deltas[: len(previous.deltas)] == previous.deltas
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            **self.to_json_without_lists(),
            "logPath": self.log_path,
            "checkpoint": self.checkpoint_provider.to_json(),
            "deltas": [file.to_json() for file in self.deltas],
            "compactions": [file.to_json() for file in self.compactions],
        }

    def to_json_without_lists(self) -> dict[str, Any]:
        """Return the result of `to_json` without the path and the lists of files, also of the checkpoint.

        With these, `from_json` returns an equal segment.
        """
        checkpoint = self.checkpoint_provider.to_json()
        return {
            "version": self.version,
            "checkpoint": checkpoint and {name: value for name, value in checkpoint.items() if name != "files"},
            "checksumFile": self.checksum_file and self.checksum_file.to_json(),
            "lastCommitFile": self.last_commit_file and self.last_commit_file.to_json(),
            "lastCommitTimestamp": self.last_commit_timestamp,
        }

    @classmethod
    def from_json(
        cls,
        values: Mapping[str, Any],
        *,
        log_path: str,
        deltas: Iterable[FileStatus],
        compactions: Iterable[FileStatus],
        checkpoint_files: Iterable[FileStatus],
    ) -> LogSegment:
        """Return the segment from the result of `to_json_without_lists`, the path and the lists of files.

        Errors: KeyError for a missing field; ValueError, VersionGapError if the files are not a segment.
        """
        checksum, last_commit = values["checksumFile"], values["lastCommitFile"]
        return cls(
            log_path=log_path,
            version=values["version"],
            deltas=tuple(deltas),
            checkpoint_provider=checkpoint_from_json(values["checkpoint"], checkpoint_files),
            compactions=tuple(compactions),
            checksum_file=checksum and FileStatus.from_json(checksum),
            last_commit_file=last_commit and FileStatus.from_json(last_commit),
            last_commit_timestamp=values["lastCommitTimestamp"],
        )


def is_within(compaction: FileStatus, after: int, version: int) -> bool:
    """Return whether a compaction contains only commits of `(after, version]`."""
    parsed = ParsedLogPath.parse(compaction.name)
    return (
        parsed is not None and parsed.end_version is not None and after < parsed.version < parsed.end_version <= version
    )


def _spans(commits: CommitRun, first: int, last: int) -> bool:
    """Return whether commits are those of the versions first to last. Takes the same time for any number of commits."""
    return bool(commits) and (commit_version(commits[0].path), commit_version(commits[-1].path)) == (first, last)
