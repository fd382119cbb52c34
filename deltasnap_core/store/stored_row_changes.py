"""The row changes between stored versions: from the log if it still has their commits, otherwise from the stored files.

Stored versions do not name files of change data. Without the log, a version of a table with a change data feed is
derived from its files: an update is a delete and an insert, unless a key pairs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.errors import ActionNotFoundError, DeltaTableNotFoundError
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.rules.deletion_vector_ids import KEY_FIELDS
from deltasnap_core.scan.changes.changed_rows import FileAction, file_action
from deltasnap_core.scan.changes.row_changes import RowChanges, planned_changes
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.snapshot.row_changes_of_log import read_row_changes
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.stored_version import FileKind, StoredVersion
from deltasnap_core.store.versions.generations import is_version_of

_COLUMNS = ("path", "partitionValues", "size", "modificationTime", "dataChange", "deletionVector")
_OF_REMOVED = ("path", "dataChange", "deletionVector")


def stored_row_changes(
    engine: ReplayEngine,
    table: ScannedTable,
    versions: Sequence[StoredVersion],
    before: Callable[[], StoredVersion | None],
    options: ScanOptions,
) -> RowChanges:
    """Return the row changes of consecutive stored versions.

    table:    at the last version. before: returns the version before the first; None: the first is version 0.
    Errors: see SnapshotStore.row_changes.
    """
    first, last = versions[0].manifest, versions[-1].manifest

    def files_before(paths: Sequence[str]) -> DataFrame:
        found = before()
        return table.no_rows if found is None else found.all_files().where(F.col("path").isin(*paths))

    def metadata_before() -> Metadata | None:
        found = before()
        return None if found is None else _metadata(found, table.table_path)

    if _is_in_log(table, [version.manifest for version in versions]):
        log = TableLog(table.store, last.log_path)
        context = TableContext(engine=engine, log=log, files=table.spark_files, options=SnapshotOptions())
        return read_row_changes(
            context,
            first.version,
            last.version,
            options=options,
            files_before=files_before,
            metadata_before=metadata_before,
        )
    metadata = {each.manifest.version: _metadata(each, table.table_path) for each in versions}
    earlier = before()
    return planned_changes(
        table,
        metadata=metadata,
        metadata_before=metadata[first.version] if earlier is None else _metadata(earlier, table.table_path),
        timestamps={each.manifest.version: each.manifest.timestamp for each in versions},
        has_feed=(),
        recorded=(),
        actions=_actions(earlier, versions),
        files_before=files_before,
    )


def stored_rows_as_inserts(table: ScannedTable, version: StoredVersion, *, unchanged: bool = False) -> RowChanges:
    """Return all rows of a stored version as inserts of this version. unchanged: none instead, with the same columns.

    table: at the version.
    """
    number, metadata = version.manifest.version, _metadata(version, table.table_path)
    files = [] if unchanged else _rows(version, "all_files", _COLUMNS).values()
    log_path = version.manifest.log_path
    return planned_changes(
        table,
        metadata={number: metadata},
        metadata_before=metadata,
        timestamps={number: version.manifest.timestamp},
        has_feed=(),
        recorded=(),
        actions=[_action(number, log_path, add={**row, "dataChange": True}, remove=None) for row in files],
        files_before=lambda _: table.no_rows,
    )


def _is_in_log(table: ScannedTable, manifests: Sequence[VersionManifest]) -> bool:
    """Return whether the log still has the commits of the stored versions, and what their replay needs."""
    log = TableLog(table.store, manifests[-1].log_path)
    try:
        listing = log.list()
    except DeltaTableNotFoundError:
        return False
    loadable = {*listing.reconstructable_versions()}
    return all(
        manifest.version in loadable
        and manifest.version in listing.commits
        and is_version_of(manifest, table.store, listing) is True
        for manifest in manifests
    )


def _metadata(version: StoredVersion, path: str) -> Metadata:
    found = version.computed_state.metadata
    if found is None:
        raise ActionNotFoundError(action="metadata", version=version.manifest.version, path=path)
    return found


def _actions(before: StoredVersion | None, versions: Sequence[StoredVersion]) -> list[FileAction]:
    """Return the file actions of versions, from the files of each."""
    found = []
    files = {} if before is None else _rows(before, "all_files", _COLUMNS)
    for each in versions:
        version, earlier = each.manifest.version, files
        files = _rows(each, "all_files", _COLUMNS)
        added = {key: row for key, row in files.items() if key not in earlier}
        removed = {key: row for key, row in earlier.items() if key not in files}
        tombstones = _rows(each, "tombstones", _OF_REMOVED) if removed else {}
        if each.manifest.version_changes is None:
            # Stored from a checkpoint, where `dataChange` is false in every action. Comparison finds copied rows.
            added = {key: row | {"dataChange": True} for key, row in added.items()}
            tombstones = {}
        only_moved = bool(added) and all(row["dataChange"] is False for row in added.values())
        for key, row in removed.items():
            known = tombstones.get(key, {}).get("dataChange")
            row = {**row, "dataChange": not only_moved if known is None else known}
            found.append(_action(version, each.manifest.log_path, add=None, remove=row))
        found += [_action(version, each.manifest.log_path, add=row, remove=None) for row in added.values()]
    return found


def _rows(version: StoredVersion, kind: FileKind, columns: Sequence[str]) -> Mapping[Any, dict[str, Any]]:
    """Return files or tombstones by logical file."""
    rows = version.arrow(kind, columns)
    return {_key(row): row for row in rows.to_pylist(maps_as_pydicts="strict")}


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    vector = row["deletionVector"] or {}
    return row["path"], *(vector.get(name) for name in KEY_FIELDS)


def _action(version: int, log_path: str, **actions: dict[str, Any] | None) -> FileAction:
    row = {"commit_version": version, **actions}
    return file_action(row, next(each["path"] for each in actions.values() if each), log_path=log_path)
