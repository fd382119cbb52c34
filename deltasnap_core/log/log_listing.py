"""LogListing: what lies in `_delta_log`, sorted out by kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltasnap_core.log.checkpoint_provider import (
    CheckpointFormat,
    CheckpointKind,
    CheckpointProvider,
    EmptyCheckpointProvider,
)
from deltasnap_core.protocol.checkpoint_instance import complete_checkpoints
from deltasnap_core.protocol.file_names import LOG_FOLDER, LogFileKind, ParsedLogPath, listing_prefix
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.urls import join_url

_KINDS: dict[LogFileKind, CheckpointKind] = {
    LogFileKind.CLASSIC_CHECKPOINT: "classic",
    LogFileKind.MULTIPART_CHECKPOINT: "multipart",
    LogFileKind.UUID_CHECKPOINT: "uuid",
}
_AFTER_DIGITS = ":"
_COMMIT_KINDS = (LogFileKind.COMMIT, LogFileKind.STAGED_COMMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListing:
    """The files of a log in a range of versions; unknown files are left out, and empty ones that are no commits.

    commits:     by version, ascending. `checkpoints`: the complete ones, the best first.
    compactions: in the order of their names. `checksums`: by version.
    first:       the version that was listed from; what is of earlier ones was not looked at.
    """

    log_path: str
    commits: Mapping[int, FileStatus]
    checkpoints: tuple[CheckpointProvider, ...]
    compactions: tuple[FileStatus, ...]
    checksums: Mapping[int, FileStatus]
    first: int = 0

    @property
    def latest_version(self) -> int | None:
        """The last version there is a commit or a checkpoint of; None: there is neither."""
        return max([*self.commits, *(checkpoint.version for checkpoint in self.checkpoints)], default=None)

    def has_version(self, version: int) -> bool:
        """Whether there is a commit or a checkpoint of the version."""
        return version in self.commits or any(checkpoint.version == version for checkpoint in self.checkpoints)

    def best_checkpoint(self, version: int) -> CheckpointProvider | EmptyCheckpointProvider:
        """The checkpoint to start from for a version: the newest one not beyond it, the best one of its version."""
        usable = (checkpoint for checkpoint in self.checkpoints if checkpoint.version <= version)
        return next(usable, EmptyCheckpointProvider())

    def reconstructable_versions(self) -> tuple[int, ...]:
        """The versions whose state can be worked out, ascending: by a checkpoint, or by every commit since 0 or one.

        Means what it says for a listing from version 0 on.
        """
        checkpoints = {checkpoint.version for checkpoint in self.checkpoints}
        found: list[int] = []
        for version in sorted(checkpoints.union(self.commits)):
            previous = found[-1] if found else -1
            if version in checkpoints or previous == version - 1:
                found.append(version)
        return tuple(found)


def list_log(
    store: LogStore,
    log_path: str,
    *,
    first: int = 0,
    last: int | None = None,
    log_tail: Sequence[FileStatus] = (),
    exclude_checkpoints: frozenset[str] = frozenset(),
) -> LogListing:
    """What lies in the log for the versions `first` to `last` (None: to its end), in one listing.

    `log_tail`: ratified commits, which stand in for published ones of the same version; those outside the range
    are left out. A checkpoint with a file named in `exclude_checkpoints` is not seen.
    Raises FileNotFoundError where there is no such folder, ValueError where `log_tail` has gaps or other files.
    """
    commits: dict[int, FileStatus] = {}
    checksums: dict[int, FileStatus] = {}
    compactions: list[FileStatus] = []
    checkpoint_files: dict[str, tuple[ParsedLogPath, FileStatus]] = {}
    statuses = store.list_from(join_url(log_path, listing_prefix(first)))
    for parsed, status in _files_until(statuses, last):
        if parsed.kind is LogFileKind.COMMIT:
            commits[parsed.version] = status
        elif parsed.kind is LogFileKind.CHECKSUM:
            checksums[parsed.version] = status
        elif parsed.kind is LogFileKind.COMPACTION:
            compactions.append(status)
        elif parsed.kind.is_checkpoint and parsed.name not in exclude_checkpoints:
            checkpoint_files[parsed.name] = (parsed, status)
    ratified = {v: file for v, file in _by_version(log_tail).items() if v >= first and (last is None or v <= last)}
    merged = {**commits, **ratified}
    return LogListing(
        log_path=log_path,
        commits={version: merged[version] for version in sorted(merged)},
        checkpoints=tuple(_checkpoints(checkpoint_files)),
        compactions=tuple(compactions),
        checksums=checksums,
        first=first,
    )


def table_path(log_path: str) -> str:
    """URL of the table whose log is at `log_path`."""
    return log_path.removesuffix(f"/{LOG_FOLDER}")


def _files_until(statuses: Iterable[FileStatus], last: int | None) -> Iterator[tuple[ParsedLogPath, FileStatus]]:
    """The log files of use, up to a version; stops listing as soon as names can only be beyond it."""
    for status in statuses:
        if status.name >= _AFTER_DIGITS:  # names sort, and every log file's starts with its version
            return
        parsed = ParsedLogPath.parse(status.name)
        if parsed is None:
            continue
        if last is not None and parsed.version > last:
            return
        # Writers that die, and storages without atomic writes, leave empty files. An empty commit makes a version.
        if status.size > 0 or parsed.kind is LogFileKind.COMMIT:
            yield parsed, status


def _checkpoints(files: Mapping[str, tuple[ParsedLogPath, FileStatus]]) -> Iterator[CheckpointProvider]:
    for instance, parts in complete_checkpoints(parsed for parsed, _ in files.values()):
        file_format: CheckpointFormat = "json" if parts[0].extension == "json" else "parquet"
        yield CheckpointProvider(
            version=instance.version,
            files=tuple(files[part.name][1] for part in parts),
            kind=_KINDS[parts[0].kind],
            format=file_format,
        )


def _by_version(log_tail: Sequence[FileStatus]) -> dict[int, FileStatus]:
    found: dict[int, FileStatus] = {}
    for status in log_tail:
        parsed = ParsedLogPath.parse(status.name)
        if parsed is None or parsed.kind not in _COMMIT_KINDS:
            raise ValueError(f"Expected a commit in the log tail, found {status.path}")
        if found and parsed.version != max(found) + 1:
            raise ValueError(f"The log tail goes from version {max(found)} to {parsed.version}: expected no gap")
        found[parsed.version] = status
    return found
