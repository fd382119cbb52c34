"""The commit time of each version: the in-commit timestamp where enabled, otherwise the modification time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from types import MappingProxyType

from deltasnap_core.errors import CorruptLogError, VersionGapError
from deltasnap_core.log.checksum_validation import read_checksum
from deltasnap_core.log.commits.action_lines import missing_commit
from deltasnap_core.log.commits.commit_scan import read_commit_infos, read_first_actions
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.non_file_actions import newest_protocol_and_metadata
from deltasnap_core.protocol.actions import CommitInfo, Metadata
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.protocol.properties.table_config import (
    IN_COMMIT_TIMESTAMPS,
    in_commit_timestamp_enablement,
    in_commit_timestamps_enabled,
)
from deltasnap_core.protocol.table_features import properties_in_force
from deltasnap_core.storage.log_store import FileStatus, LogStore, is_file

_COMMITS_CHECKED = 10
"""The number of latest commits to read to find out whether a table has in-commit timestamps."""
_NEVER = 1 << 63
"""Later than every version."""


def modification_times(store: LogStore, commits: Mapping[int, FileStatus]) -> dict[int, int]:
    """Return the modification times (ms) of commits by version, ascending, strictly increasing.

    A link or folder in place of a commit has no such time, and is left out.
    """
    return strictly_increasing(
        {version: file.modification_time for version, file in commits.items() if file.size or is_file(store, file.path)}
    )


def strictly_increasing(times: Mapping[int, int]) -> dict[int, int]:
    """Return times (ms) by version, ascending.

    A time that is not after the previous one is set to 1 ms after it. So every timestamp belongs to one version, even
    if files were copied or touched. Source: Delta's `DeltaHistoryManager.monotonizeCommitTimestamps`.
    """
    timestamps: dict[int, int] = {}
    previous: int | None = None
    for version in sorted(times):
        timestamp = times[version]
        if previous is not None and timestamp <= previous:
            timestamp = previous + 1
        timestamps[version] = previous = timestamp
    return timestamps


def in_commit_timestamp(commit: FileStatus, info: CommitInfo | None) -> int:
    """Return the in-commit timestamp (ms) of a commit that must have one. Errors: CorruptLogError if it has none."""
    if info is None or info.in_commit_timestamp is None:
        reason = "expected commitInfo.inCommitTimestamp: the table has in-commit timestamps enabled at this version"
        raise CorruptLogError(path=commit.path, reason=reason)
    return info.in_commit_timestamp


def read_in_commit_timestamps(store: LogStore, commits: Iterable[FileStatus]) -> Iterator[tuple[int, int]]:
    """Yield the version and in-commit timestamp (ms) of each commit, in the order given. Reads commits on demand."""
    for commit, info in read_commit_infos(store, commits):
        yield commit_version(commit.path), in_commit_timestamp(commit, info)


def decreasing(timestamps: Mapping[int, int]) -> list[int]:
    """Return the versions whose timestamp is before that of the previous given version."""
    return [after for before, after in pairwise(sorted(timestamps)) if timestamps[after] < timestamps[before]]


def version_timestamps(
    store: LogStore,
    segments: Iterable[LogSegment],
    configuration_of: Callable[[int], Mapping[str, str]],
    infos: Mapping[int, CommitInfo | None] = MappingProxyType({}),
) -> dict[int, int]:
    """Return the timestamp (ms) of each segment's version.

    This is the in-commit timestamp where enabled, otherwise the modification time of the commit.

    configuration_of: returns the table properties at a version.
    infos:            the commitInfo of commits that are read already, by version; the other commits are read.
    If the commit was cleaned up, this is the in-commit timestamp in the `.crc` file, else the time of the checkpoint.
    Errors: CorruptLogError naming a commit without a required timestamp, or one deleted after the listing.
    Delta's `Snapshot.timestamp`. Source: PROTOCOL.md, In-Commit Timestamps.
    """
    listed = {segment.version: segment for segment in segments}
    timestamps = {version: segment.last_commit_timestamp for version, segment in listed.items()}
    enabled = {v: segment for v, segment in listed.items() if in_commit_timestamps_enabled(configuration_of(v))}
    with_own_time = {v: segment.last_commit_file for v, segment in enabled.items() if segment.last_commit_file}
    found = {v: in_commit_timestamp(commit, infos[v]) for v, commit in with_own_time.items() if v in infos}
    for version in enabled.keys() - with_own_time.keys():
        checksum = read_checksum(store, enabled[version].checksum_file)
        if checksum is not None and checksum.in_commit_timestamp is not None:
            found[version] = checksum.in_commit_timestamp
    found |= read_in_commit_timestamps(
        store, [commit for version, commit in with_own_time.items() if version not in infos]
    )
    for version, segment in listed.items():
        commit, is_own = segment.last_commit_file, version in with_own_time
        if commit is not None and (version not in found if is_own else _is_no_file(store, segment, commit)):
            raise missing_commit(commit.path)
    return timestamps | found


def _is_no_file(store: LogStore, segment: LogSegment, commit: FileStatus) -> bool:
    """Return whether the time of a version is that of a link or folder in place of its commit. Those have no size."""
    return (
        not commit.size and segment.checkpoint_provider.version != segment.version and not is_file(store, commit.path)
    )


def start_of_in_commit_timestamps(configuration: Mapping[str, str]) -> tuple[int, int | None]:
    """Return the first version with an in-commit timestamp, and that timestamp in ms (None: not stated).

    If they are not enabled, all versions are before it. configuration: the properties of the latest version.
    Source: PROTOCOL.md, In-Commit Timestamps.
    """
    if not in_commit_timestamps_enabled(configuration):
        return _NEVER, None
    version, timestamp = in_commit_timestamp_enablement(configuration)
    return version or 0, timestamp


def read_latest_configuration(store: LogStore, listing: LogListing) -> Mapping[str, str]:
    """Return the properties of the latest version that concern timestamps, from as few files as possible.

    It reads the `.crc` file and the latest commits, and decides in this order:

    1. The checksum and the latest commit have the same in-commit timestamp, or none, and the properties in the checksum
       agree: these.
    2. The checksum has properties, or one of the latest commits has a timestamp: the properties in force. The latest
       commit may lack a required timestamp.
    3. Otherwise none: in-commit timestamps are not enabled.

    If the log is too damaged to read the properties in force, the latest commit decides: if it has a timestamp, the
    newest metadata in the commits counts.
    """
    newest_first = [listing.commits[version] for version in sorted(listing.commits, reverse=True)]
    if not newest_first:
        return {}
    checksum = read_checksum(store, listing.checksums.get(commit_version(newest_first[0].path)))
    stated = stated_time = None
    if checksum is not None and checksum.metadata is not None:
        stated, stated_time = properties_in_force(checksum.protocol, checksum.metadata), checksum.in_commit_timestamp
    infos = _readable_infos(store, newest_first[:_COMMITS_CHECKED])
    times = (None if info is None else info.in_commit_timestamp for info in infos)
    newest = next(times, None)
    is_enabled = newest is not None
    if stated is not None and stated_time == newest and in_commit_timestamps_enabled(stated) == is_enabled:
        return stated
    if stated is None and not is_enabled and all(time is None for time in times):
        return {}
    if (in_force := _properties_in_force(store, listing)) is not None:
        return in_force
    if not is_enabled:
        return {}
    metadata = next(_metadata_in(store, newest_first), None)
    return {IN_COMMIT_TIMESTAMPS: "true"} if metadata is None else metadata.configuration


def _readable_infos(store: LogStore, commits: Iterable[FileStatus]) -> Iterator[CommitInfo | None]:
    """Yield the commitInfo of commits. Skips a damaged commit: the history of the others can still be read."""
    for commit in commits:
        with suppress(CorruptLogError):
            yield from (info for _, info in read_commit_infos(store, [commit]))


def _properties_in_force(store: LogStore, listing: LogListing) -> Mapping[str, str] | None:
    """Return the properties in force at the latest version; None: the log is too damaged, or has no metadata."""
    assert listing.latest_version is not None
    try:
        segment = LogSegment.from_listing(listing, listing.latest_version)
        protocol, metadata = newest_protocol_and_metadata(store, segment)
    except (CorruptLogError, VersionGapError):
        return None
    return None if metadata is None else properties_in_force(protocol, metadata)


def _metadata_in(store: LogStore, commits: Iterable[FileStatus]) -> Iterator[Metadata]:
    for commit, line, values in read_first_actions(store, commits, "metaData"):
        try:
            if values is not None:
                yield Metadata.from_json(values)
        except ValueError as error:
            raise CorruptLogError(path=commit.path, line=line, reason=str(error)) from error
