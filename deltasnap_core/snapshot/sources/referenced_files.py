"""Finds the files that the log of a table references. None of them may be deleted."""

from __future__ import annotations

from dataclasses import replace

from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.protocol.properties.table_config import deleted_file_retention_ms
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.scan.changes.changed_rows import change_data
from deltasnap_core.scan.tables.vacuum_candidates import ReferencedFiles, why_unread
from deltasnap_core.snapshot.replayed_version import ReplayedVersion
from deltasnap_core.snapshot.table_context import TableContext


def referenced_files(context: TableContext, known: VersionLog | None = None, *, every_commit: bool) -> ReferencedFiles:
    """Return the files that the newest version in the log references.

    known:        the log of a version whose files the caller has; None: none. Commits that its catalog ratified count.
    every_commit: read every commit that the log still has. This finds tombstones that a checkpoint dropped too early,
                  and files of change data.
    Errors: CorruptLogError; StorageError.
    Source: PROTOCOL.md, Catalog-managed tables (maintenance needs the commits that are not published).
    """
    catalog = NO_CATALOG if known is None else known.catalog
    ratified = replace(catalog, max_version=None)  # commits published since then count too
    newest = context.table_log.latest(catalog=ratified)
    if known is not None and newest.segment == known.segment:
        newest, others = known, []
    else:
        others = [Fallback(ReplayedVersion(context=context, log=newest))]
    found = ReferencedFiles(
        files=[each.run(lambda version: version.all_files) for each in others],
        tombstones=[each.run(lambda version: version.tombstones(KEEP_ALL)) for each in others],
        unread=why_unread(newest.replayable.non_file.protocol, is_catalog_known=catalog.is_known),
        retention_ms=deleted_file_retention_ms(newest.read().configuration),
    )
    if not every_commit:
        return found
    store = context.table_log.store
    commits = list_log(store, context.table_log.log_path, catalog=ratified).commits
    batch = read_commits(store, tuple(commits.values()))
    actions = context.reader(context.session("files that the log names")).commit_actions(batch)
    removed = [] if actions is None else [actions.where("remove is not null").select("remove.*")]
    recorded = [(rows.path, commits[rows.version].modification_time) for rows in change_data(batch)]
    return replace(found, tombstones=[*found.tombstones, *removed], change_data=recorded)
