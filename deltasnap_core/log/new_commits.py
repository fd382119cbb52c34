"""What has been committed since a known version: a poll that costs what is new, not what is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

from deltasnap_core.protocol.file_names import LogFileKind, ParsedLogPath, commit_file, listing_prefix
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.urls import join_url

# Asking for so many commits by name costs about what one listing does.
_MOST_PROBES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommits:
    """What lies in the log at a known version and after it.

    known:  the commit of the known version as it is now; None: gone (cleaned up, or the table with it).
    later:  the commits after it, ascending, as far as none is missing.
    """

    known: FileStatus | None
    later: tuple[FileStatus, ...]


def commits_after(store: LogStore, log_path: str, version: int) -> tuple[FileStatus, ...]:
    """Return the published commits after a version (-1: all), ascending, up to the first that is missing.

    Nothing new costs one request, a few commits one each and one more, many a listing from there on. No folder
    and no commit look the same: none. Commits beyond a gap are not seen; building a segment tells of the gap.
    """
    probed = list(islice(_probe(store, log_path, version + 1), _MOST_PROBES))
    if len(probed) < _MOST_PROBES:
        return tuple(probed)
    return (*probed, *_list_contiguous(store, log_path, version + 1 + len(probed)))


def look_from(store: LogStore, log_path: str, version: int) -> NewCommits:
    """Return the commit of a version as it is now, and those after it: `commits_after` and one request more."""
    known = store.status(join_url(log_path, commit_file(version)))
    return NewCommits(known=known, later=commits_after(store, log_path, version))


def _probe(store: LogStore, log_path: str, first: int) -> Iterator[FileStatus]:
    for version in count(first):
        status = store.status(join_url(log_path, commit_file(version)))
        if status is None:
            return
        yield status


def _list_contiguous(store: LogStore, log_path: str, first: int) -> Iterator[FileStatus]:
    expected = first
    for status in store.list_from(join_url(log_path, listing_prefix(first))):
        parsed = ParsedLogPath.parse(status.name)
        if parsed is None or parsed.kind is not LogFileKind.COMMIT:
            continue
        if parsed.version != expected:
            return
        yield status
        expected += 1
