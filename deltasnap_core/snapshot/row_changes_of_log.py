"""Reads the row changes of versions from the commits of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession

from deltasnap_core.errors import ActionNotFoundError, RowChangesError, VersionGapError
from deltasnap_core.log.commits.action_lines import FILE_ACTIONS
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.loaded_log import LoadedLog, load_log
from deltasnap_core.log.log_range import LogRange
from deltasnap_core.log.non_file_actions import NonFileActions, non_file_actions_by_version
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.table_features import has_change_data_feed, metadata_to_read
from deltasnap_core.redaction import redacted
from deltasnap_core.replay.driver.full_actions import decoded
from deltasnap_core.replay.engine import Question, UnusualError, actions_text
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.rules.file_actions import FULL_ACTION, values_of
from deltasnap_core.rules.texts.statistics_schema import StatsPolicy
from deltasnap_core.scan.changes.changed_rows import FileAction, LiveFilesBefore, change_data, file_actions
from deltasnap_core.scan.changes.live_files import live_files_before
from deltasnap_core.scan.changes.row_changes import RowChanges, changed_versions, planned_changes
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.version import Version
from deltasnap_core.snapshot.replayed_version import ReplayedVersion
from deltasnap_core.snapshot.table_context import TableContext


def read_row_changes(
    context: TableContext, first: int, last: int, *, options: ScanOptions | None, before: Version | None = None
) -> RowChanges:
    """Return the row changes of the versions first to last, both inclusive.

    before: the version before `first`, if the log no longer has it; None: unknown. Then the live files are those of
            `first` without its changes.
    Errors: see DeltaLog.row_changes.
    """
    log = context.table_log
    listing = log.list(max(first - 1, 0))
    log_range = log.range(first, last, listing)
    _check_has_commits(log_range, first, last, log.table_path)
    earlier = _loaded_before(context, listing, first)
    loaded = earlier or (log_range.load(first) if first else None)
    batch = log_range.read_commits(first, last)
    at_start = NonFileActions() if loaded is None else loaded.non_file
    states = log_range.non_file_actions(at_start, batch, first, last)
    metadata = _metadata(states, log.table_path)
    table = ScannedTable(
        sessions=context.engine.sessions,
        table_path=log.table_path,
        version=last,
        metadata=metadata[last],
        store=log.store,
        spark_files=context.files,
        options=options or ScanOptions(),
    )
    recorded, actions = change_data(batch), _file_actions(context, batch)
    if earlier is not None or first == 0:
        known = at_start.metadata and metadata_to_read(at_start.protocol, at_start.metadata)
        live_before = _live_before(context, loaded, actions, first)
    elif before is not None:
        known = metadata_to_read(before.facts.protocol, before.facts.metadata)
        live_before = partial(live_files_before, before)
    else:
        if not any(rows.version == first for rows in recorded) and _may_have_changed_schema(batch, actions, first):
            reason = "it changes the metadata and removes files, and the log no longer has the schema before it"
            raise RowChangesError(path=redacted(log.table_path), version=first, reason=reason)
        known, live_before = None, _live_before(context, loaded, actions, first)
    versions = changed_versions(
        metadata,
        known or metadata[first],
        log.history.commit_timestamps(first, last),
        _versions_with_feed(states, metadata, batch),
    )
    return planned_changes(table, versions, actions=actions, recorded=recorded, live_before=live_before)


def _check_has_commits(log_range: LogRange, first: int, last: int, table_path: str) -> None:
    gone = next((version for version in range(first, last + 1) if not log_range.has_commit(version)), None)
    if gone is not None:
        reason = "the log no longer has its commit"
        raise RowChangesError(path=redacted(table_path), version=gone, reason=reason)


def _loaded_before(context: TableContext, listing: LogListing, first: int) -> LoadedLog | None:
    """Return the log of the version before `first`; None: the log does not have it."""
    if first and listing.has_version(first - 1):
        with suppress(VersionGapError):
            segment = context.table_log.builder.segment_of(listing, first - 1)
            return load_log(context.table_log.builder, segment)
    return None


def _live_before(
    context: TableContext, log: LoadedLog | None, actions: Sequence[FileAction], first: int
) -> LiveFilesBefore | None:
    """Return the lookup of the live files before a version, from the log of the version before it or of itself.

    From the log of the version itself, without its own changes: files that it adds were not live, and files that it
    removes were.
    """
    if log is None:
        return None
    of_log = VersionLog(builder=log.builder, segment=log.segment, now_ms=context.table_log.clock(), log=log)
    live_files = partial(live_files_before, ReplayedVersion(context=context, log=of_log))
    if log.version < first:
        return live_files
    changed = {action.key for action in actions if action.version == first}
    removed = [action for action in actions if action.version == first and not action.is_add]
    return lambda keys: [*removed, *(file for file in live_files(keys) if file.key not in changed)]


def _may_have_changed_schema(batch: CommitBatch, actions: Sequence[FileAction], version: int) -> bool:
    """Return whether a version has new metadata and removes files, which were written with the metadata before it."""
    has_metadata = any(isinstance(action, Metadata) for action in non_file_actions_by_version(batch).get(version, ()))
    return has_metadata and any(each.version == version and not each.is_add for each in actions)


def _metadata(states: Mapping[int, NonFileActions], path: str) -> dict[int, Metadata]:
    found = {}
    for version, state in states.items():
        if state.metadata is None:
            raise ActionNotFoundError(action="metadata", version=version, path=path)
        found[version] = metadata_to_read(state.protocol, state.metadata)
    return found


def _versions_with_feed(
    states: Mapping[int, NonFileActions], metadata: Mapping[int, Metadata], batch: CommitBatch
) -> frozenset[int]:
    """Return the versions with a change data feed, without those of a MERGE that reports no changed row."""
    return frozenset(
        version
        for version, info in batch.commit_infos().items()
        if has_change_data_feed(states[version].protocol, metadata[version])
        and not (info and info.is_merge_without_changes)
    )


def _file_actions(context: TableContext, batch: CommitBatch) -> list[FileAction]:
    """Return the file actions of commits in the order of the lines, on the suitable engine."""
    size = None if batch.large else batch.num_file_actions
    found = context.engine.answer(
        {Question.ROWS: size},
        work=actions_text(size, "read"),
        driver=partial(_actions_in_driver, batch),
        spark=partial(_actions_on_spark, context, batch),
    ).value
    return file_actions(values_of(found), log_path=context.table_log.log_path)


def _actions_in_driver(batch: CommitBatch) -> pa.Table:
    if batch.large:
        raise UnusualError("a large commit")
    lines = batch.lines_with(*FILE_ACTIONS)
    return decoded(lines["line"].to_pylist()).append_column("commit_version", lines["commit_version"])


def _actions_on_spark(context: TableContext, batch: CommitBatch, session: SparkSession) -> pa.Table:
    actions = context.reader(session, StatsPolicy.NONE).commit_actions(batch)
    if actions is None:
        return decoded([])
    with translated([file.path for file in batch.files]):
        rows = actions.orderBy("commit_version", "line_number")
        return rows.select(*FULL_ACTION.names, "commit_version").toArrow()
