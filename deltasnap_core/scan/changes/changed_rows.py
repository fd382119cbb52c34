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
    """An `add`, a `remove` or a `cdc` of a commit, and which rows of its file it inserts or deletes.

    change:           INSERT (of an add), or DELETE; None: a file of change data, whose rows have a column for it.
    path:             canonical. path_key: the same for all spellings of the path; empty: a file of change data.
    partition_values: None: the action does not state them.
    vector:           the rows that it deletes did not change.
    only:             the indexes of the rows that changed; None: all that `vector` does not delete.
    """

    version: int
    change: str | None
    path: str
    path_key: str = ""
    partition_values: Mapping[str, str | None] | None
    size: int | None
    modification_time: int | None = None
    data_change: bool = True
    vector: DeletionVectorDescriptor | None = None
    only: Rows | None = field(default=None, compare=False)

    @property
    def is_add(self) -> bool:
        """Whether it is an `add`."""
        return self.change == INSERT

    @property
    def key(self) -> FileKey:
        """The logical file."""
        return self.path_key, None if self.vector is None else self.vector.unique_id


LiveFilesBefore = Callable[[Sequence[str]], Iterable[FileAction]]
"""Returns the live files of a version that have one of some path keys, as adds."""


def change_data(batch: CommitBatch) -> list[FileAction]:
    """Return the files of change data of commits, in log order. Errors: CorruptLogError naming file and line."""
    found = []
    for commit, number, _, values in batch.actions(CHANGE_DATA_ACTION):
        try:
            file = AddCDCFile.from_json(values)
            found.append(
                FileAction(
                    version=commit.version,
                    change=None,
                    path=file.path,
                    partition_values=file.partition_values,
                    size=file.size,
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
) -> list[FileAction]:
    """Return the rows that file actions insert and delete, as actions, ascending by version.

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
    found = _replayed(actions, before, recorded)
    pairs = [(gone[0], new[0]) for gone, new in found if len(gone) == len(new) == 1]
    between = map_concurrently(lambda pair: _between(*pair, rows_of), pairs)
    others = [action for gone, new in found if not len(gone) == len(new) == 1 for action in (*gone, *new)]
    whole = [action for action in others if action.data_change]
    return sorted([*whole, *(rows for each in between for rows in each)], key=lambda rows: rows.version)


def _by_path(actions: Iterable[FileAction]) -> list[list[FileAction]]:
    """Return the actions of each commit for each path, in the order of the actions."""
    found: dict[tuple[int, str], list[FileAction]] = {}
    for action in actions:
        found.setdefault((action.version, action.path_key), []).append(action)
    return [*found.values()]


def _replayed(
    actions: Sequence[FileAction], before: LiveFilesBefore | None, recorded: Collection[int]
) -> list[tuple[list[FileAction], list[FileAction]]]:
    """Return the logical files that each commit took from the table and gave to it, by path.

    Those of recorded versions are left out. Removes get the values of the live file.
    """
    files = _by_path(actions)
    live = {} if before is None else _live_before(files, before, recorded)
    values = {each.path_key: each.partition_values for each in actions if each.is_add}
    found = []
    for file in files:
        removes = {each.key: each for each in file if not each.is_add}
        adds = {each.key: each for each in file if each.is_add}
        was_live = {key: live.get(key, removes.get(key)) for key in removes | adds}
        gone = [
            _with_values(action, was_live[key], values)
            for key, action in removes.items()
            if was_live[key] is not None and key not in adds
        ]
        new = [action for key, action in adds.items() if was_live[key] is None]
        live |= {**dict.fromkeys(removes), **adds}
        if file[0].version not in recorded:
            found.append((gone, new))
    return found


def _live_before(
    files: Iterable[list[FileAction]], before: LiveFilesBefore, recorded: Collection[int]
) -> dict[FileKey, FileAction | None]:
    """Return the logical files that were live (None: not live) before their first action, if this matters.

    The first action of a file decides whether it is live afterwards. So the state before it matters only for the
    changes of that commit.
    """
    first: dict[FileKey, list[FileAction]] = {}
    for file in files:
        for action in file:
            first.setdefault(action.key, file)
    wanted = [
        key for key, file in first.items() if file[0].version not in recorded and any(each.data_change for each in file)
    ]
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


def _between(gone: FileAction, new: FileAction, rows_of: RowsOf) -> list[FileAction]:
    """Return the rows that a file gained or lost with a new deletion vector."""
    if not (gone.data_change and new.data_change):
        return []
    before, after = (np.empty(0, np.int64) if each.vector is None else rows_of(each.vector) for each in (gone, new))
    changes = ((DELETE, np.setdiff1d(after, before)), (INSERT, np.setdiff1d(before, after)))
    whole = replace(new, vector=None)
    return [replace(whole, change=change, only=rows) for change, rows in changes if len(rows)]


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
            change=DELETE if row["add"] is None else INSERT,
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
