"""The row changes between stored versions: from the log if it still has their commits, otherwise from the stored files.

Stored versions do not name files of change data. Without the log, a version of a table with a change data feed is
derived from its files: an update is a delete and an insert, unless a key pairs them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltasnap_core.errors import DeltaTableNotFoundError
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.properties.retention import KEEPS_EVERYTHING
from deltasnap_core.replay.driver.reconciliation import KEY, without_keys_of
from deltasnap_core.rules.file_actions import KEY_FIELDS, values_of, vector_ids
from deltasnap_core.rules.paths import path_keys
from deltasnap_core.scan.changes.changed_rows import FileAction, file_actions
from deltasnap_core.scan.changes.row_changes import RowChanges, changed_versions, planned_changes
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.version import LIVE_FILE_COLUMNS, rows_in_arrow
from deltasnap_core.snapshot.row_changes_of_log import read_row_changes
from deltasnap_core.store.format.commit_facts import commit_times
from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from deltasnap_core.store.stored_version import StoredVersion
from deltasnap_core.store.versions.common_version import is_version_of

_OF_REMOVED = ("path", "dataChange", "deletionVector")
_IDENTITY = ["path", "deletionVector"]


def stored_row_changes(
    versions: Sequence[StoredVersion], before: StoredVersion | None, options: ScanOptions | None
) -> RowChanges:
    """Return the row changes of consecutive stored versions.

    before: the version before the first; None: the first is version 0, or that version is not stored. It need not be if
            the log has the commits, as in DeltaLog.row_changes.
    Errors: see SnapshotStore.row_changes.
    """
    first, last = versions[0], versions[-1]
    if _is_in_log(last.log_context(options).table_log, [version.manifest for version in versions]):
        context = last.log_context(options)
        return read_row_changes(context, first.number, last.number, options=options, before=before)
    if before is None and first.number:
        raise first.not_stored(first.number - 1)
    metadata = {each.number: each.metadata_to_read for each in versions}
    changed = changed_versions(
        metadata,
        metadata[first.number] if before is None else before.metadata_to_read,
        commit_times(each.manifest for each in versions),
    )
    return planned_changes(last.scanned(options), changed, actions=_actions(before, versions))


def stored_rows_as_inserts(version: StoredVersion, options: ScanOptions | None, *, unchanged: bool) -> RowChanges:
    """Return all rows of a stored version as inserts of it. unchanged: none instead, with the same columns."""
    number, table = version.number, version.scanned(options)
    files = [] if unchanged else values_of(rows_in_arrow(version, LIVE_FILE_COLUMNS))
    rows = [_row(number, add={**row, "dataChange": True}) for row in files]
    changed = changed_versions(
        {number: version.metadata_to_read}, version.metadata_to_read, {number: version.timestamp}
    )
    return planned_changes(table, changed, actions=file_actions(rows, log_path=version.log_path))


def _is_in_log(log: TableLog, manifests: Sequence[VersionManifest]) -> bool:
    """Return whether a log still has the commits of the stored versions, and can replay the versions."""
    try:
        listing = log.list()
    except DeltaTableNotFoundError:
        return False
    loadable = {*listing.reconstructable_versions()}
    return all(
        manifest.version in loadable
        and manifest.version in listing.commits
        and is_version_of(manifest, log.store, listing) is True
        for manifest in manifests
    )


def _actions(before: StoredVersion | None, versions: Sequence[StoredVersion]) -> list[FileAction]:
    """Return the file actions of versions.

    Two consecutive versions with the same base differ only in files that their changes since that base name. Otherwise,
    all files of both are compared.
    """
    found: list[FileAction] = []
    last_on_base = {_base_of(each): each for each in versions}
    earlier, changes, base_files = before, None, None
    for each in versions:
        # Without `version_changes`, it was stored as a base, whose rows do not show what it changed.
        is_followed = each.manifest.version_changes is not None
        if earlier is None or not is_followed or _base_of(earlier) != _base_of(each):
            files = None if earlier is None else rows_in_arrow(earlier, LIVE_FILE_COLUMNS)
            found += _differences(each, files, rows_in_arrow(each, LIVE_FILE_COLUMNS))
            changes = base_files = None
        else:
            before_it = changes or _changes(earlier)
            changes = _changes(each)
            if base_files is None:
                last = last_on_base[_base_of(each)]
                base_files = _base_files(last, changes if last is each else _changes(last))
            unchanged = _without(base_files, _identity(*before_it), each.log_path)
            files = pa.concat_tables([before_it[0], _among(unchanged, _identity(*changes), each.log_path)])
            found += _differences(each, files, *changes)
        earlier = each
    return found


def _changes(version: StoredVersion) -> tuple[pa.Table, pa.Table]:
    """Return the live files and the tombstones among the files that changed since the base of a version."""
    without_base = replace(
        version.manifest,
        base=replace(version.manifest.base, files=()),
        min_file_retention_timestamp=KEEPS_EVERYTHING,  # a file of an expired tombstone changed too
        plain_parquet=None,
    )
    changed = replace(version, manifest=without_base, check_files=False)
    return rows_in_arrow(changed, LIVE_FILE_COLUMNS), changed.arrow("tombstones", _OF_REMOVED)


def _identity(*files: pa.Table) -> pa.Table:
    """Return which logical files (_IDENTITY) tables have."""
    return pa.concat_tables([each.select(_IDENTITY) for each in files])


def _base_of(version: StoredVersion) -> tuple[str, DataSet]:
    return version.manifest.generation, version.manifest.base


def _base_files(version: StoredVersion, changes: tuple[pa.Table, pa.Table]) -> pa.Table:
    """Return the live files of a version's base that its later changes name."""
    base = version.manifest.base
    only_base = replace(version.manifest, version=base.last, changes=(), plain_parquet=None)
    files = rows_in_arrow(replace(version, manifest=only_base, check_files=False), LIVE_FILE_COLUMNS)
    return _among(files, _identity(*changes), version.log_path)


def _differences(
    version: StoredVersion, before: pa.Table | None, files: pa.Table, tombstones: pa.Table | None = None
) -> list[FileAction]:
    """Return the file actions of a version. before: None: it is the first version.

    before, files: of the version before it and of the version, all or those that may differ.
    tombstones:    those of the version, at least of the files that it removes; None: they are read.
    """
    manifest, log_path = version.manifest, version.log_path
    added = values_of(files if before is None else _without(files, before, log_path))
    gone = files.slice(0, 0) if before is None else _without(before, files, log_path)
    removed = values_of(gone)
    # Stored from a checkpoint, `dataChange` is false in every action.
    is_known = manifest.version_changes is not None
    if is_known and removed:
        # Expired tombstones count too: retention decides which tombstones a version has, not what it changed.
        tombstones = version.arrow("tombstones", _OF_REMOVED) if tombstones is None else tombstones
        found = _among(tombstones, gone, log_path)
        changes = dict(zip(_keys(found, log_path), found["dataChange"].to_pylist(), strict=True))
        removed = [
            row | {"dataChange": changes.get(key)} for row, key in zip(removed, _keys(gone, log_path), strict=True)
        ]
        is_known = all(row["dataChange"] is not None for row in removed)
    if not is_known:  # comparison finds copied rows
        added, removed = ([row | {"dataChange": True} for row in rows] for rows in (added, removed))
    rows = [_row(manifest.version, remove=row) for row in removed] + [_row(manifest.version, add=row) for row in added]
    return file_actions(rows, log_path=log_path)


def _without(rows: pa.Table, others: pa.Table, log_path: str) -> pa.Table:
    return rows.filter(pa.array(_is_new(rows, others, log_path)))


def _among(rows: pa.Table, others: pa.Table, log_path: str) -> pa.Table:
    return rows.filter(pa.array(~_is_new(rows, others, log_path)))


def _is_new(rows: pa.Table, others: pa.Table, log_path: str) -> NDArray[np.bool_]:
    numbered = _identities(rows, log_path).append_column("row", pa.array(np.arange(rows.num_rows)))
    is_new = np.zeros(rows.num_rows, np.bool_)
    is_new[without_keys_of(numbered, _identities(others, log_path))["row"].to_numpy()] = True
    return is_new


def _identities(rows: pa.Table, log_path: str) -> pa.Table:
    paths, vectors = rows["path"].combine_chunks(), rows["deletionVector"].combine_chunks()
    ids = vector_ids(*(pc.struct_field(vectors, name) for name in KEY_FIELDS))
    return pa.table([path_keys(paths, log_path), pc.fill_null(ids, "")], names=KEY)


def _keys(rows: pa.Table, log_path: str) -> list[tuple[str, str]]:
    return [(row["path_key"], row["dv_id"]) for row in _identities(rows, log_path).to_pylist()]


def _row(version: int, **action: dict[str, Any]) -> dict[str, Any]:
    return {"commit_version": version, "add": None, "remove": None, **action}
