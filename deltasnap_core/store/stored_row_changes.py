"""The row changes between stored versions: from the log if it still has their commits, otherwise from the stored files.

Stored versions do not name files of change data. Without the log, a version of a table with a change data feed is
derived from its files: an update is a delete and an insert, unless a key pairs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
            found += _differences(
                each, files, rows_in_arrow(each, LIVE_FILE_COLUMNS), partial(each.arrow, "tombstones", _OF_REMOVED)
            )
            changes = base_files = None
        else:
            changes_before = changes or _Changes.of(earlier)
            changes = _Changes.of(each)
            if base_files is None:
                last = last_on_base[_base_of(each)]
                base_files = _base_files(last, changes if last is each else _Changes.of(last))
            files = changes_before.files(base_files, of=changes)
            found += _differences(each, files, changes.live, changes.tombstones)
        earlier = each
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Changes:
    """The files that changed since the base of a version: its live files and its tombstones among them."""

    live: pa.Table
    gone: pa.Table
    log_path: str

    @classmethod
    def of(cls, version: StoredVersion) -> _Changes:
        manifest = version.manifest
        without_base = replace(
            manifest,
            base=replace(manifest.base, files=()),
            min_file_retention_timestamp=KEEPS_EVERYTHING,  # a file of an expired tombstone changed too
            plain_parquet=None,
        )
        changes = replace(version, manifest=without_base, check_files=False)
        live, gone = rows_in_arrow(changes, LIVE_FILE_COLUMNS), changes.arrow("tombstones", _OF_REMOVED)
        return cls(live=live, gone=gone, log_path=manifest.log_path)

    def tombstones(self) -> pa.Table:
        return self.gone

    @property
    def touched(self) -> pa.Table:
        """The changed files (_IDENTITY)."""
        return pa.concat_tables([self.live.select(_IDENTITY), self.gone.select(_IDENTITY)])

    def files(self, base_files: pa.Table, *, of: _Changes) -> pa.Table:
        """Return the live files of the version that later changes on the same base name."""
        unchanged = _without(base_files, self.touched, self.log_path)
        return pa.concat_tables([self.live, _among(unchanged, of.touched, self.log_path)])


def _base_of(version: StoredVersion) -> tuple[str, DataSet]:
    return version.manifest.generation, version.manifest.base


def _base_files(version: StoredVersion, changes: _Changes) -> pa.Table:
    """Return the live files of a version's base that its later changes name."""
    base = version.manifest.base
    only_base = replace(version.manifest, version=base.last, changes=(), plain_parquet=None)
    files = rows_in_arrow(replace(version, manifest=only_base, check_files=False), LIVE_FILE_COLUMNS)
    return _among(files, changes.touched, changes.log_path)


def _differences(
    version: StoredVersion, before: pa.Table | None, files: pa.Table, tombstones: Callable[[], pa.Table]
) -> list[FileAction]:
    """Return the file actions of a version. before: None: it is the first version.

    before, files: of the version before it and of the version, all or those that may differ.
    tombstones:    returns those of the version, at least of the files that it removes.
    """
    manifest, log_path = version.manifest, version.log_path
    added = values_of(files if before is None else _without(files, before, log_path))
    gone = files.slice(0, 0) if before is None else _without(before, files, log_path)
    removed = values_of(gone)
    # Stored from a checkpoint, `dataChange` is false in every action.
    is_known = manifest.version_changes is not None
    if is_known and removed:
        # Expired tombstones count too: retention decides which tombstones a version has, not what it changed.
        found = _among(tombstones(), gone, log_path)
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
