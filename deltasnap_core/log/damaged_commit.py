"""Decides whether a commit is damaged. Like a missing one, it proves nothing about the history of a log."""

from __future__ import annotations

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.non_file_actions import non_file_actions_by_version
from deltasnap_core.storage.log_store import FileStatus, LogStore


def is_damaged(store: LogStore, commit: FileStatus) -> bool:
    """Return whether a commit cannot be read: it is deleted, has no actions, or a line or an action is invalid."""
    try:
        batch = read_commits(store, [commit])
        batch.commit_infos()
        non_file_actions_by_version(batch)
    except CorruptLogError:
        return True
    return not (batch.lines.num_rows or batch.num_file_actions)
