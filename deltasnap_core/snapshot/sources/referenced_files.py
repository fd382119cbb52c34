"""Finds the files that the log of a table references. None of them may be deleted."""

from __future__ import annotations

from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.scan.changes.changed_rows import change_data
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
    paths = [rows.path for rows in change_data(batch)]
    return ReferencedFiles(files=files, tombstones=[*tombstones, *removed], change_data=paths)
