"""Which rows of which files were inserted or deleted in each version, from the actions of its commit.

Source: PROTOCOL.md, Reader Requirements for AddCDCFile; Add File and Remove File; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits.action_lines import CHANGE_DATA_ACTION
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.protocol.actions import AddCDCFile, DeletionVectorDescriptor
from deltasnap_core.rules.paths import canonical_paths, path_keys
from deltasnap_core.scan.files.roaring import Rows
from deltasnap_core.storage.concurrency import map_concurrently

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
CHANGE_COLUMNS = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
"""Source: PROTOCOL.md, Reader Requirements for AddCDCFile."""

INSERT, DELETE, PREIMAGE, POSTIMAGE = "insert", "delete", "update_preimage", "update_postimage"
CHANGE_TYPES = (INSERT, DELETE, PREIMAGE, POSTIMAGE)
"""The values of `_change_type`."""


FileKey = tuple[str, str | None]
"""A logical file: the key of its path, and the id of its deletion vector (None: it has none)."""
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

    @property
    def key(self) -> FileKey:
        """The logical file."""
        return self.path_key, None if self.vector is None else self.vector.unique_id


LiveFilesBefore = Callable[[Sequence[str]], Iterable[FileAction]]
"""Returns the live files of a version that have one of some path keys, as adds."""


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
            file = AddCDCFile.from_json(values)
            found.append(
                ChangedRows(
                    version=commit.version,
                    change=None,
                    path=file.path,
                    partition_values=file.partition_values,
                    size=file.size,
                    modification_time=None,
                )
            )
        except ValueError as error:
            raise CorruptLogError(path=commit.file.path, line=number, reason=str(error)) from error
    return found


def changed_rows(
    actions: Iterable[FileAction],
    rows_of: RowsOf,
    before: LiveFilesBefore | None = None,
    *,
    recorded: Collection[int] = (),
) -> list[ChangedRows]:
    """Return the rows that file actions insert and delete, ascending by version.

    The actions are replayed. Only an add of a file that is not live inserts rows, and only a remove of a live file
    deletes rows. If a commit adds and removes one logical file, the add wins. If a commit removes a live file and adds
    its path with another deletion vector, only the rows that the vector gained (deletes) or lost (inserts) changed.
    Actions with `dataChange` false change no rows.

    actions:  of consecutive commits. rows_of: reads a deletion vector.
    before:   returns the live files of the version before the actions; called at most once, with the paths for which
              this makes a difference. None: unknown; then a removed file was live, and an added file was not.
    recorded: versions whose rows are not returned.
    Errors: those of `rows_of` and `before`.
    Source: PROTOCOL.md, Action Reconciliation.
    """
    actions = sorted(actions, key=lambda action: action.version)
    files = _OneFile.of_commits(actions)
    found = _replayed(files, actions, before, recorded)
    pairs = [(gone[0], new[0]) for gone, new in found if len(gone) == len(new) == 1]
    between = map_concurrently(lambda pair: _between(*pair, rows_of), pairs)
    others = [action for gone, new in found if not len(gone) == len(new) == 1 for action in (*gone, *new)]
    whole = [_whole(action) for action in others if action.data_change]
    return sorted([*whole, *(rows for each in between for rows in each)], key=lambda rows: rows.version)


@dataclass(frozen=True, slots=True)
class _OneFile:
    """The actions of one commit for one path, by logical file."""

    version: int
    removes: dict[FileKey, FileAction] = field(default_factory=dict)
    adds: dict[FileKey, FileAction] = field(default_factory=dict)

    @classmethod
    def of_commits(cls, actions: Iterable[FileAction]) -> list[_OneFile]:
        """Return the actions by version and path, in the order of the actions."""
        found: dict[tuple[int, str], _OneFile] = {}
        for action in actions:
            file = found.setdefault((action.version, action.path_key), cls(action.version))
            (file.adds if action.is_add else file.removes)[action.key] = action
        return [*found.values()]

    @property
    def changes_data(self) -> bool:
        return any(action.data_change for action in (*self.removes.values(), *self.adds.values()))


def _replayed(
    files: Sequence[_OneFile],
    actions: Iterable[FileAction],
    before: LiveFilesBefore | None,
    recorded: Collection[int],
) -> list[tuple[list[FileAction], list[FileAction]]]:
    """Return the logical files that each commit took from the table and gave to it, by path.

    Those of recorded versions are left out. Removes get the values of the live file.
    """
    live = {} if before is None else _live_before(files, before, recorded)
    values = {each.path_key: each.partition_values for each in actions if each.is_add}
    found = []
    for file in files:
        was_live = {key: live.get(key, file.removes.get(key)) for key in (*file.removes, *file.adds)}
        gone = [
            _with_values(action, was_live[key], values)
            for key, action in file.removes.items()
            if was_live[key] is not None and key not in file.adds
        ]
        new = [action for key, action in file.adds.items() if was_live[key] is None]
        live |= {**dict.fromkeys(file.removes), **file.adds}
        if file.version not in recorded:
            found.append((gone, new))
    return found


def _live_before(
    files: Iterable[_OneFile], before: LiveFilesBefore, recorded: Collection[int]
) -> dict[FileKey, FileAction | None]:
    """Return the logical files that were live (None: not live) before their first action, if this matters.

    The first action of a file decides whether it is live afterwards. So the state before it matters only for the
    changes of that commit.
    """
    first: dict[FileKey, _OneFile] = {}
    for file in files:
        for key in (*file.removes, *file.adds):
            first.setdefault(key, file)
    wanted = [key for key, file in first.items() if file.changes_data and file.version not in recorded]
    if not wanted:
        return {}
    live = {action.key: action for action in before(sorted({path_key for path_key, _ in wanted}))}
    return {key: live.get(key) for key in wanted}


def _with_values(
    remove: FileAction, live: FileAction | None, of_paths: Mapping[str, Mapping[str, str | None] | None]
) -> FileAction:
    """Return a remove with partition values, those of the live file if it is known. None: no action has them.

    Writers may omit the values of a remove, or write none of them: without the add of the file, they are unknown.
    """
    values = live.partition_values if live is not None and live.is_add else None
    if values is None:
        values = remove.partition_values or of_paths.get(remove.path_key)
    return replace(remove, partition_values=values)


def _between(gone: FileAction, new: FileAction, rows_of: RowsOf) -> list[ChangedRows]:
    """Return the rows that a file gained or lost with a new deletion vector."""
    if not (gone.data_change and new.data_change):
        return []
    before, after = (np.empty(0, np.int64) if each.vector is None else rows_of(each.vector) for each in (gone, new))
    changes = ((DELETE, np.setdiff1d(after, before)), (INSERT, np.setdiff1d(before, after)))
    whole = replace(_whole(new), vector=None)
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
