"""The changes of the files of a table, from the earliest version after which the log is complete."""

from __future__ import annotations

from pyspark.sql import DataFrame

from deltasnap_core.errors import ActionNotFoundError, CorruptLogError, UnsupportedProtocolError
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.redaction import logger_of
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.spark.reading.schemas import ADD
from deltasnap_core.replay.spark.session.local_rows import no_rows
from deltasnap_core.replay.spark.state_deltas import changes_of_versions
from deltasnap_core.scan.tables.metadata_tables import FileHistory
from deltasnap_core.snapshot.replayed_version import ReplayedVersion
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.log_store import FileStatus

_REASON = "metadata tables"
_log = logger_of(__name__)


def file_history(
    context: TableContext, listing: LogListing, version: int, catalog: CatalogCommits = NO_CATALOG
) -> FileHistory | None:
    """Return the file history of a listed version; None: no version to start from can be read.

    It starts at the earliest version whose later commits all exist. If deltasnap cannot
    read that one, it starts at the next one.
    """
    for start in listing.starts_before(version):
        try:
            if start < 0:
                files = no_rows(context.session(_REASON), ADD)
            else:
                log = context.table_log.at(start, catalog=catalog)
                files = Fallback(ReplayedVersion(context=context, log=log)).run(lambda version: version.all_files)
        except (ActionNotFoundError, CorruptLogError, UnsupportedProtocolError) as error:
            _log.warning("The history of files does not start at version %d: %s", start, error)
            continue
        return FileHistory(files=files, events=events_of_commits(context, listing.commits_between(start + 1, version)))
    return None


def events_of_commits(context: TableContext, commits: tuple[FileStatus, ...]) -> DataFrame | None:
    """Return the file actions of commits by version, see `changes_of_versions`. None: there are none."""
    batch = read_commits(context.table_log.store, commits)
    actions = context.reader(context.session(_REASON)).commit_actions(batch)
    return None if actions is None else changes_of_versions(actions)
