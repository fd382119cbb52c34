"""A few of the files that a commit added and removed, to look at."""

from __future__ import annotations

from deltasnap_core.log.commit_batch import ChangedFile
from deltasnap_core.log.commit_scan import sample_changes as _sample_changes
from deltasnap_core.storage.log_store import FileStatus, LogStore

__all__ = ["ChangedFile", "sample_changes"]


def sample_changes(store: LogStore, commit: FileStatus, most: int = 5) -> tuple[ChangedFile, ...]:
    """Return the first files that a commit names, in its order, `most` of them. Reads no further than it must."""
    return _sample_changes(store, commit, most)
