"""Finds the files that the log of a table references. None of them may be deleted."""

from __future__ import annotations

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits.action_lines import CHANGE_DATA_ACTION
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.scan.tables.vacuum_candidates import ReferencedFiles
from deltasnap_core.snapshot.snapshot_frames import SnapshotFrames
from deltasnap_core.snapshot.table_context import TableContext


def referenced_files(context: TableContext, newest: SnapshotFrames | None, *, every_commit: bool) -> ReferencedFiles:
    """Return the files that the log references. newest: its newest version; None: the caller already has its files.

    every_commit: read every commit that the log still has. This finds tombstones that a checkpoint dropped too early,
                  and files of change data.
    Errors: CorruptLogError; StorageError.
    """
    files = [] if newest is None else [newest.all_files]
    tombstones = [] if newest is None else [newest.every_tombstone()]
    if not every_commit:
        return ReferencedFiles(files=files, tombstones=tombstones)
    store = context.log.store
    batch = read_commits(store, tuple(list_log(store, context.log.log_path).commits.values()))
    actions = context.reader(context.session("files that the log names")).commit_actions(batch)
    removed = [] if actions is None else [actions.where("remove is not null").select("remove.*")]
    return ReferencedFiles(files=files, tombstones=[*tombstones, *removed], change_data=_change_data(batch))


def _change_data(batch: CommitBatch) -> list[str]:
    paths = []
    for commit, number, _, values in batch.actions(CHANGE_DATA_ACTION):
        path = values.get("path")
        if not isinstance(path, str):
            reason = f"expected a {CHANGE_DATA_ACTION} action with a path, found {values!r:.200}"
            raise CorruptLogError(path=commit.file.path, line=number, reason=reason)
        paths.append(path)
    return paths
