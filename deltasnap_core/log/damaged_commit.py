"""Decides which commits are damaged. Like a missing one, it proves nothing about the history of a log."""

from __future__ import annotations

from dataclasses import replace

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.non_file_actions import non_file_actions_by_version
from deltasnap_core.storage.log_store import FileStatus, LogStore


def is_damaged(store: LogStore, commit: FileStatus) -> bool:
    """Return whether a commit has no actions, or cannot be read: it is deleted, or a line or an action is invalid."""
    batch = _read(store, commit)
    return batch is None or not (batch.lines.num_rows or batch.num_file_actions)


def without_damaged(store: LogStore, listing: LogListing, first: int, last: int) -> LogListing:
    """Return a listing without the commits that cannot be read although their versions, first to last, can be loaded.

    A checkpoint of the same version replaces such a commit, as if it was missing. Reads no other commits.
    """
    versions = {each.version for each in listing.checkpoints if first <= each.version <= last}
    replaced = {v: commit for v, commit in listing.commits.items() if v in versions}
    damaged = {v for v, commit in replaced.items() if _read(store, commit) is None}
    return replace(listing, commits={v: commit for v, commit in listing.commits.items() if v not in damaged})


def _read(store: LogStore, commit: FileStatus) -> CommitBatch | None:
    try:
        batch = read_commits(store, [commit])
        batch.commit_infos()
        non_file_actions_by_version(batch)
    except CorruptLogError:
        return None
    return batch
