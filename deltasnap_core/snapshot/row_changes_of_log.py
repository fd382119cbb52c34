"""Reads the row changes of versions from the commits of a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import DataFrame

from deltasnap_core.errors import ActionNotFoundError, RowChangesError
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.log_range import LogRange, range_actions
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.table_config import change_data_feed_enabled
from deltasnap_core.redaction import redacted
from deltasnap_core.replay.spark.spark_failures import translated
from deltasnap_core.replay.stats_policy import StatsPolicy
from deltasnap_core.scan.changes.change_columns import DELETE
from deltasnap_core.scan.changes.changed_rows import (
    ChangedRows,
    FileAction,
    change_data,
    changed_rows,
    file_action,
    with_partition_values,
)
from deltasnap_core.scan.changes.row_changes import RowChanges, VersionFacts
from deltasnap_core.scan.changes.schema_changes import check_schemas
from deltasnap_core.scan.options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.snapshot.table_context import TableContext

_VALUES = ("partitionValues", "size", "deletionVector")


def read_row_changes(
    context: TableContext,
    first: int,
    last: int,
    *,
    options: ScanOptions | None,
    files_before: Callable[[Sequence[str]], DataFrame],
) -> RowChanges:
    """Return the row changes of the versions first to last, both inclusive.

    files_before: returns files of the version before `first`, by path, with the columns of AddFile.
    Errors: see DeltaLog.row_changes.
    """
    log = context.log
    listing = log.list(max(first - 1, 0) if first >= 0 else first)
    logged = log.range(first, last, listing)
    gone = next((version for version in range(first, last + 1) if not logged.has_commit(version)), None)
    if gone is not None:
        reason = "the log no longer has its commit"
        raise RowChangesError(path=redacted(log.table_path), version=gone, reason=reason)
    if first == 0:
        before = NonFileActions()
    elif listing.has_version(first - 1):
        before = log.loader.load(log.builder.segment_of(listing, first - 1)).non_file
    else:
        before = logged.load(first).non_file
    batch = logged.read_commits(first, last)
    metadata = _metadata(logged, range_actions(logged, before, batch, first, last), log.table_path)
    table = ScannedTable(
        context.engine.sessions,
        table_path=log.table_path,
        version=last,
        metadata=metadata[last],
        store=log.store,
        spark_files=context.files,
        options=options,
    )
    recorded = change_data(batch)
    actions = _file_actions(context, batch, without={rows.version for rows in recorded})
    rows = changed_rows(actions, table.vectors.rows)
    metadata_before = {version: metadata.get(version - 1, before.metadata or metadata[first]) for version in metadata}
    if any(each.version == first and each.change == DELETE for each in rows):
        metadata = {first - 1: metadata_before[first], **metadata}
    check_schemas(metadata, path=redacted(log.table_path))
    timestamps = log.history.commit_timestamps(first, last)
    return RowChanges(
        table=table,
        versions={
            version: VersionFacts(
                timestamp=timestamps[version],
                metadata=metadata[version],
                metadata_before=metadata_before[version],
                is_recorded=change_data_feed_enabled(metadata[version].configuration),
            )
            for version in metadata_before
        },
        rows=[*recorded, *_with_partition_values(rows, actions, metadata_before, files_before)],
    )


def _metadata(logged: LogRange, states: Mapping[int, NonFileActions], path: str) -> dict[int, Metadata]:
    found = {}
    for version, state in states.items():
        if state.metadata is None:
            raise ActionNotFoundError(action="metadata", version=version, path=path)
        found[version] = state.metadata
    return found


def _file_actions(context: TableContext, batch: CommitBatch, *, without: Collection[int]) -> list[FileAction]:
    """Return the file actions of commits; one Spark job."""
    reader = context.reader(context.session("row changes"), StatsPolicy.NONE)
    with translated(batch.files):
        actions = reader.commit_actions(batch)
        if actions is None:
            return []
        if without:
            actions = actions.where(f"commit_version not in ({', '.join(map(str, sorted(without)))})")
        rows = actions.selectExpr(
            "commit_version",
            "add.path is not null as is_add",
            "path",
            *(f"if(add.path is not null, add.{name}, remove.{name}) as {name}" for name in _VALUES),
            "add.modificationTime",
            "coalesce(add.dataChange, remove.dataChange, true) as dataChange",
        ).toArrow()
    return [file_action(row, log_path=context.log.log_path) for row in rows.to_pylist(maps_as_pydicts="strict")]


def _with_partition_values(
    rows: Sequence[ChangedRows],
    actions: Sequence[FileAction],
    metadata_before: Mapping[int, Metadata],
    files_before: Callable[[Sequence[str]], DataFrame],
) -> list[ChangedRows]:
    """Return rows with the partition values that a `remove` does not state: writers may leave them out."""
    if not any(each.partition_values is None and metadata_before[each.version].partition_columns for each in rows):
        return [*rows]

    def before(paths: Sequence[str]) -> dict[str, dict[str, str | None]]:
        found = files_before(paths).select("path", "partitionValues").toArrow().to_pylist(maps_as_pydicts="strict")
        return {row["path"]: row["partitionValues"] or {} for row in found}

    return with_partition_values(rows, actions, before)
