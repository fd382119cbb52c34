"""Which rows of which files were inserted or deleted in each version, from the actions of its commit.

Source: PROTOCOL.md, Reader Requirements for AddCDCFile; Add File and Remove File; Deletion Vectors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits.action_lines import CHANGE_DATA_ACTION
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.protocol.deletion_vector import DeletionVectorDescriptor
from deltasnap_core.protocol.json_fields import JsonFields
from deltasnap_core.rules.paths import canonical_paths, path_keys
from deltasnap_core.scan.changes.change_columns import DELETE, INSERT
from deltasnap_core.scan.files.roaring import Rows
from deltasnap_core.storage.concurrency import map_concurrently

RowsOf = Callable[[DeletionVectorDescriptor], Rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAction:
    """An `add` or a `remove` of a commit.

    path:             canonical. path_key: the same for all spellings of the path.
    partition_values: None: the action does not state them.
    """

    version: int
    is_add: bool
    path: str
    path_key: str
    partition_values: Mapping[str, str | None] | None
    size: int | None
    modification_time: int | None
    data_change: bool
    vector: DeletionVectorDescriptor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRows:
    """Rows of a file that one version inserted or deleted.

    change:           INSERT or DELETE; None: a file of change data, whose rows have a column for it.
    vector:           the rows that it deletes did not change; None: all rows of the file changed, or those in `only`.
    only:             the indexes of the rows that changed; None: all that `vector` does not delete.
    path_key:         empty: a file of change data.
    """

    version: int
    change: str | None
    path: str
    partition_values: Mapping[str, str | None] | None
    size: int | None
    modification_time: int | None
    vector: DeletionVectorDescriptor | None = None
    only: Rows | None = field(default=None, compare=False)
    path_key: str = ""


def change_data(batch: CommitBatch) -> list[ChangedRows]:
    """Return the files of change data of commits, in log order. Errors: CorruptLogError naming file and line."""
    found = []
    for commit, number, _, values in batch.actions(CHANGE_DATA_ACTION):
        try:
            fields = JsonFields(CHANGE_DATA_ACTION, values)
            found.append(
                ChangedRows(
                    version=commit.version,
                    change=None,
                    path=fields.string("path"),
                    partition_values=fields.optional_string_map("partitionValues") or {},
                    size=fields.optional_integer("size"),
                    modification_time=None,
                )
            )
        except ValueError as error:
            raise CorruptLogError(path=commit.file.path, line=number, reason=str(error)) from error
    return found


def changed_rows(actions: Iterable[FileAction], rows_of: RowsOf) -> list[ChangedRows]:
    """Return the rows that file actions insert and delete, ascending by version.

    A file that a commit adds and removes has another deletion vector: only the rows that the vector gained (deletes) or
    lost (inserts) changed. Actions with `dataChange` false change no rows.
    rows_of: reads a deletion vector. Errors: its own.
    """
    by_file: dict[tuple[int, str], list[FileAction]] = defaultdict(list)
    for action in actions:
        by_file[action.version, action.path_key].append(action)
    files = [_OneFile.of(found) for found in by_file.values()]
    between = map_concurrently(lambda file: _between(file, rows_of), [file for file in files if file.is_both])
    whole = [_whole(action) for file in files if not file.is_both for action in file.actions if action.data_change]
    return sorted([*whole, *(rows for found in between for rows in found)], key=lambda rows: rows.version)


def with_partition_values(
    rows: Sequence[ChangedRows],
    actions: Iterable[FileAction],
    before: Callable[[Sequence[str]], Mapping[str, Mapping[str, str | None]]],
) -> list[ChangedRows]:
    """Return rows with missing partition values (of a `remove` without them) taken from the `add` of the file.

    before: returns the partition values of files of the version before these commits, by path key.
    """
    added = {action.path_key: action.partition_values for action in actions if action.partition_values is not None}
    unknown = {each.path_key for each in rows if each.partition_values is None and each.path_key not in added}
    known = {**(before(sorted(unknown)) if unknown else {}), **added}
    return [
        replace(each, partition_values=known.get(each.path_key)) if each.partition_values is None else each
        for each in rows
    ]


@dataclass(frozen=True, slots=True)
class _OneFile:
    """The actions of one commit for one file, without duplicates."""

    removes: tuple[FileAction, ...]
    adds: tuple[FileAction, ...]

    @classmethod
    def of(cls, actions: Sequence[FileAction]) -> _OneFile:
        unique = {(each.is_add, each.vector and each.vector.unique_id): each for each in actions}.values()
        return cls(tuple(each for each in unique if not each.is_add), tuple(each for each in unique if each.is_add))

    @property
    def actions(self) -> tuple[FileAction, ...]:
        return (*self.removes, *self.adds)

    @property
    def is_both(self) -> bool:
        return len(self.removes) == len(self.adds) == 1


def _between(file: _OneFile, rows_of: RowsOf) -> list[ChangedRows]:
    """Return the rows that a file gained or lost with a new deletion vector."""
    if not all(action.data_change for action in file.actions):
        return []
    before, after = (
        np.empty(0, np.int64) if action.vector is None else rows_of(action.vector) for action in file.actions
    )
    changes = ((DELETE, np.setdiff1d(after, before)), (INSERT, np.setdiff1d(before, after)))
    whole = replace(_whole(file.adds[0]), vector=None)
    return [replace(whole, change=change, only=rows) for change, rows in changes if len(rows)]


def _whole(action: FileAction) -> ChangedRows:
    return ChangedRows(
        version=action.version,
        change=INSERT if action.is_add else DELETE,
        path=action.path,
        path_key=action.path_key,
        partition_values=action.partition_values,
        size=action.size,
        modification_time=action.modification_time,
        vector=action.vector,
    )


def file_actions(rows: Sequence[Mapping[str, Any]], *, log_path: str) -> list[FileAction]:
    """Return file actions from rows with `commit_version`, `add` and `remove`. Errors: CorruptLogError."""
    paths = pa.array([(row["add"] or row["remove"])["path"] for row in rows], pa.string())
    named = zip(canonical_paths(paths, log_path).to_pylist(), path_keys(paths, log_path).to_pylist(), strict=True)
    return [_file_action(row, path, key, log_path) for row, (path, key) in zip(rows, named, strict=True)]


def _file_action(row: Mapping[str, Any], path: str, path_key: str, log_path: str) -> FileAction:
    values = row["add"] or row["remove"]
    try:
        return FileAction(
            version=row["commit_version"],
            is_add=row["add"] is not None,
            path=path,
            path_key=path_key,
            partition_values=values["partitionValues"],
            size=values["size"],
            modification_time=values.get("modificationTime"),
            data_change=values["dataChange"] is not False,
            vector=values["deletionVector"] and DeletionVectorDescriptor.from_json(values["deletionVector"]),
        )
    except ValueError as error:
        raise CorruptLogError(path=log_path, reason=f"version {row['commit_version']}: {error}") from error
