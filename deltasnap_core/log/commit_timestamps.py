"""When each version was committed: by modification times, or by the commits' own word where that counts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commit_scan import read_actions, read_commit_infos
from deltasnap_core.log.log_listing import LogListing
from deltasnap_core.protocol.actions import CommitInfo, Metadata
from deltasnap_core.protocol.file_names import commit_version
from deltasnap_core.protocol.table_config import in_commit_timestamp_enablement, in_commit_timestamps_enabled
from deltasnap_core.protocol.version_checksum import VersionChecksum
from deltasnap_core.storage.log_store import FileStatus, LogStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class InCommitTimestamps:
    """From which version on the commits' own timestamps count, and its timestamp in ms (None: from version 0 on).

    Source: PROTOCOL.md, In-Commit Timestamps.
    """

    since_version: int
    since_ms: int | None


def strictly_increasing(commits: Mapping[int, FileStatus]) -> dict[int, int]:
    """Modification time in ms by version, ascending; one not after that of the version before is a ms after it.

    So that every timestamp means one version, also after files were copied or touched. Source: Delta's
    `DeltaHistoryManager.monotonizeCommitTimestamps`.
    """
    timestamps: dict[int, int] = {}
    previous: int | None = None
    for version in sorted(commits):
        timestamp = commits[version].modification_time
        if previous is not None and timestamp <= previous:
            timestamp = previous + 1
        timestamps[version] = previous = timestamp
    return timestamps


def in_commit_timestamp(commit: FileStatus, info: CommitInfo | None) -> int:
    """The timestamp in ms that a commit gives itself; CorruptLogError where one that must have it does not."""
    if info is None or info.in_commit_timestamp is None:
        reason = "expected commitInfo.inCommitTimestamp: the table has in-commit timestamps enabled at this version"
        raise CorruptLogError(path=commit.path, reason=reason)
    return info.in_commit_timestamp


def read_in_commit_timestamps(store: LogStore, commits: Iterable[FileStatus]) -> Iterator[tuple[int, int]]:
    """Version and own timestamp in ms of each commit, in the order given, read as they are consumed."""
    for commit, info in read_commit_infos(store, commits):
        yield commit_version(commit.path), in_commit_timestamp(commit, info)


def find_in_commit_timestamps(configuration: Mapping[str, str]) -> InCommitTimestamps | None:
    """Where the latest version's properties say that in-commit timestamps start; None: not enabled."""
    if not in_commit_timestamps_enabled(configuration):
        return None
    since = in_commit_timestamp_enablement(configuration)
    return InCommitTimestamps(since_version=since[0], since_ms=since[1]) if since else _ALWAYS


_ALWAYS = InCommitTimestamps(since_version=0, since_ms=None)


def read_latest_configuration(store: LogStore, listing: LogListing) -> Mapping[str, str]:
    """The properties of the latest version, as far as timestamps go, out of the log's JSON files alone.

    Cheap where in-commit timestamps are not in use: the latest commit then carries none, and says all. Otherwise
    the latest `.crc` tells, or the newest commit with metadata. Where no commit has any, whatever enabled them is
    older than all the commits there are.
    """
    newest_first = [listing.commits[version] for version in sorted(listing.commits, reverse=True)]
    latest = next(read_commit_infos(store, newest_first[:1]), None)
    if latest is None or latest[1] is None or latest[1].in_commit_timestamp is None:
        return {}
    checksum = listing.checksums.get(commit_version(newest_first[0].path))
    metadata = (checksum and _metadata_of(store, checksum)) or next(_metadata_in(store, newest_first), None)
    return metadata.configuration if metadata else {"delta.enableInCommitTimestamps": "true"}


def _metadata_of(store: LogStore, checksum: FileStatus) -> Metadata | None:
    try:
        return VersionChecksum.parse(store.read_bytes(checksum.path)).metadata
    except (FileNotFoundError, ValueError) as error:
        logger.warning("The checksum file %s is ignored: %s", checksum.path, error)
        return None


def _metadata_in(store: LogStore, commits: Iterable[FileStatus]) -> Iterator[Metadata]:
    for commit, line, values in read_actions(store, commits, "metaData"):
        try:
            if values is not None:
                yield Metadata.from_json(values)
        except ValueError as error:
            raise CorruptLogError(path=commit.path, line=line, reason=str(error)) from error


def last_at_or_before(versions: Sequence[int], timestamp_ms: int, timestamp_of: Callable[[int], int]) -> int | None:
    """The last of ascending versions committed at or before a time; None: all are later. Asks for few timestamps."""
    low, high = 0, len(versions)
    while low < high:
        middle = (low + high) // 2
        if timestamp_of(versions[middle]) <= timestamp_ms:
            low = middle + 1
        else:
            high = middle
    return versions[low - 1] if low else None
