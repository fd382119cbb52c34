"""What has been committed since a known version: a poll that costs what is new, not what is there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count, islice

from deltasnap_core.log.log_listing import list_log
from deltasnap_core.log.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.file_names import LogFileKind, ParsedLogPath, commit_file, listing_prefix
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.urls import join_url

# Asking for so many commits by name costs about what one listing of the folder does.
_MOST_PROBES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommits:
    """What lies in the log at a known version and after it.

    known:  the commit of the known version as it is now; None: gone (cleaned up, or the table with it).
    later:  the commits after it, ascending, as far as none is missing.
    is_cut: whether none follows, but a checkpoint of a later version: the commits up to it are lost or cleaned away.
    """

    known: FileStatus | None
    later: tuple[FileStatus, ...]
    is_cut: bool


def look_from(log: LogSegmentBuilder, version: int) -> NewCommits:
    """Return the commit of a version as it is now, and those after it.

    One listing from that version on, where the storage can do that. Else nothing new costs three small requests, a few
    commits one each, many a listing. No folder and no commit look the same: none. Commits beyond a gap are not seen;
    building a segment tells of the gap.
    """
    return (_listed if log.store.lists_from_name(log.log_path) else _asked_by_name)(log, version)


def commit_of(store: LogStore, log_path: str, version: int) -> FileStatus | None:
    """Return the commit of a version as `look_from` sees it; None: there is none.

    By the same kind of request: some storages tell its time to the millisecond in a listing, and else to the second.
    """
    path = join_url(log_path, commit_file(version))
    if not store.lists_from_name(log_path):
        return store.status(path)
    try:
        first = next(store.list_from(path), None)
    except FileNotFoundError:
        return None
    return first if first is not None and first.path == path else None


def _listed(log: LogSegmentBuilder, version: int) -> NewCommits:
    try:
        listing = list_log(log.store, log.log_path, first=version)
    except FileNotFoundError:
        return NewCommits(known=None, later=(), is_cut=False)
    later = tuple(_contiguous(listing.commits.items(), version + 1))
    has_checkpoint = any(checkpoint.version > version for checkpoint in listing.checkpoints)
    return NewCommits(known=listing.commits.get(version), later=later, is_cut=has_checkpoint and not later)


def _asked_by_name(log: LogSegmentBuilder, version: int) -> NewCommits:
    known = commit_of(log.store, log.log_path, version)
    later = tuple(islice(_probe(log.store, log.log_path, version + 1), _MOST_PROBES))
    if len(later) == _MOST_PROBES:
        later = (*later, *_list_contiguous(log.store, log.log_path, version + 1 + _MOST_PROBES))
    hint = None if later else log.read_hint()
    return NewCommits(known=known, later=later, is_cut=hint is not None and hint.version > version)


def _probe(store: LogStore, log_path: str, first: int) -> Iterator[FileStatus]:
    for version in count(first):
        status = store.status(join_url(log_path, commit_file(version)))
        if status is None:
            return
        yield status


def _list_contiguous(store: LogStore, log_path: str, first: int) -> Iterator[FileStatus]:
    listed = store.list_from(join_url(log_path, listing_prefix(first)))
    parsed = ((ParsedLogPath.parse(status.name), status) for status in listed)
    commits = ((name.version, status) for name, status in parsed if name and name.kind is LogFileKind.COMMIT)
    return _contiguous(commits, first)


def _contiguous(commits: Iterable[tuple[int, FileStatus]], first: int) -> Iterator[FileStatus]:
    """Yield the commits from a version on, out of those ascending by version, up to the first that is missing."""
    expected = first
    for version, commit in commits:
        if version > expected:
            return
        if version == expected:
            yield commit
            expected += 1
