"""Finds the commits since a known version.

The cost depends on the number of new commits, not on the length of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice

from deltasnap_core.log.listing.catalog_commits import asks_catalog
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.log_files.file_names import LogFileKind, ParsedLogPath, commit_file, listing_prefix
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.urls import join_url

# This many requests for single commits cost about as much as one listing of the folder.
_MAX_PROBES = 8


NewCommits = tuple[FileStatus | None, tuple[FileStatus, ...] | None]
"""The commit of a known version as it is now, and the commits after it, ascending, up to the first missing one.

The first is None if it no longer exists (cleaned up, or the table was dropped). The second is None if there are no such
commits, but a checkpoint of a later version, or a later commit in a listing: those up to it are lost or cleaned up.
"""


def find_new_commits(builder: LogSegmentBuilder, version: int) -> NewCommits:
    """Return the commit of a version as it is now, and the later ones.

    If the storage can list from a name, this is one listing from that version. Otherwise it takes three small requests
    if nothing is new, one request for each of a few new commits, or a listing for many. A missing folder and a log
    without commits give the same result. Commits after a gap are ignored; building a segment reports the gap.
    Requests by name do not detect a gap right after the known version.
    """
    return (_listed if _lists(builder.store, builder.log_path) else _requested_by_name)(builder, version)


def commit_of(store: LogStore, log_path: str, version: int) -> FileStatus | None:
    """Return the commit of a version as `find_new_commits` returns it; None: there is none.

    It uses the same kind of request: some storages report times in milliseconds in a listing, but in seconds otherwise.
    """
    if not _lists(store, log_path):
        return store.status(join_url(log_path, commit_file(version)))
    try:
        return list_log(store, log_path, first=version, last=version).commits.get(version)
    except FileNotFoundError:
        return None


def _lists(store: LogStore, log_path: str) -> bool:
    """Return whether a poll lists the log. Commits that a catalog ratified cannot be requested by name."""
    return asks_catalog(store) or store.lists_from_name(log_path)


def _listed(builder: LogSegmentBuilder, version: int) -> NewCommits:
    try:
        listing = list_log(builder.store, builder.log_path, first=version)
    except FileNotFoundError:
        return None, ()
    later = tuple(_contiguous(listing.commits.items(), version + 1))
    latest = version if listing.latest_version is None else listing.latest_version
    return listing.commits.get(version), None if latest > version and not later else later


def _requested_by_name(builder: LogSegmentBuilder, version: int) -> NewCommits:
    known = commit_of(builder.store, builder.log_path, version)
    later = tuple(islice(_probe(builder.store, builder.log_path, version + 1), _MAX_PROBES))
    if len(later) == _MAX_PROBES:
        later = (*later, *_list_contiguous(builder.store, builder.log_path, version + 1 + _MAX_PROBES))
    hint = None if later else builder.read_hint()
    return known, None if hint is not None and hint.version > version else later


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
    """Yield the commits from a version on, up to the first missing one. commits: ascending by version."""
    expected = first
    for version, commit in commits:
        if version > expected:
            return
        if version == expected:
            yield commit
            expected += 1
