"""The rules for Parquet files of checkpoints: the columns, the required fields, one action per row.

Errors: CorruptLogError naming the file.
Source: PROTOCOL.md, Checkpoints; Checkpoint Schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checkpoints.parquet_footer import null_count, null_counts
from deltasnap_core.rules.file_actions import FULL_ACTION, ONE_ACTION, is_text

NON_FILE_COLUMNS = {"protocol": "minReaderVersion", "metaData": "id", "txn": "appId", "domainMetadata": "domain"}
"""Each column of non-file actions, and a field that is set whenever the action is."""

_WITNESSES = {"add": "path", "remove": "path", "sidecar": "path", **NON_FILE_COLUMNS, "checkpointMetadata": "version"}
"""Each column of a checkpoint, and a field that is set in each row with its action."""

_KNOWN_COLUMNS = set(_WITNESSES)
_EXPECTED = {
    ("add", "path"): "text",
    ("add", "size"): "integer",
    ("add", "modificationTime"): "integer",
    ("add", "deletionVector"): "struct",
    ("add", "stats_parsed"): "struct",
    ("remove", "path"): "text",
    ("remove", "deletionTimestamp"): "integer",
    ("remove", "deletionVector"): "struct",
    ("sidecar", "path"): "text",
}

_ALWAYS_SET = {
    "add": ("path", "size"),
    "remove": ("path",),
    "sidecar": ("path",),
    **{column: (witness,) for column, witness in NON_FILE_COLUMNS.items()},
}
"""The required fields of each column. The replay would ignore an action without them silently."""

_SET_TOO = {
    "add": ("modificationTime",),
    "remove": ("deletionTimestamp",),
    "txn": ("version",),
    "domainMetadata": ("configuration",),
}
"""Other fields of the columns. An action that has one of them also has the required fields."""


def check_columns(path: str, schema: pa.Schema) -> None:
    """Raise CorruptLogError if the columns are not those of actions, or have another type."""
    if not _KNOWN_COLUMNS & set(schema.names):
        raise CorruptLogError(path=path, reason=f"expected columns of log actions, found {schema.names}")
    if len({name.lower() for name in schema.names}) < len(schema.names):
        raise CorruptLogError(path=path, reason=f"expected each column once, found {schema.names}")
    spelled = {name.lower(): name for name in schema.names}
    for column in sorted(_KNOWN_COLUMNS - set(schema.names)):
        if column.lower() in spelled:  # Spark would read it, Arrow would not
            raise CorruptLogError(path=path, reason=f"expected column {column}, found {spelled[column.lower()]}")
    for column in _ALWAYS_SET.keys() & set(schema.names):
        struct = schema.field(column).type
        if not pa.types.is_struct(struct):
            raise CorruptLogError(path=path, reason=f"expected {column} to be a struct, found {struct}")
    for action in FULL_ACTION:
        if action.name in schema.names:
            _check_spelling(path, action, schema.field(action.name).type)
    for (column, field), kind in _EXPECTED.items():
        if column not in schema.names:
            continue
        struct = schema.field(column).type
        index = struct.get_field_index(field)
        if index >= 0 and not _is_kind(struct.field(index).type, kind):
            found = struct.field(index).type
            raise CorruptLogError(path=path, reason=f"expected {column}.{field} to be {kind}, found {found}")


def _check_spelling(path: str, expected: pa.Field, found: pa.DataType) -> None:
    """Raise CorruptLogError if a field has the name of a known one in another case: Spark would read it, Arrow not."""
    known = {field.name.lower(): field for field in expected.type}
    for field in found:
        wanted = known.get(field.name.lower(), field)
        if wanted.name != field.name:
            names = [f"{expected.name}.{name}" for name in (wanted.name, field.name)]
            raise CorruptLogError(path=path, reason=f"expected {names[0]}, found {names[1]}")
        if pa.types.is_struct(wanted.type) and pa.types.is_struct(field.type) and wanted is not field:
            _check_spelling(path, wanted, field.type)


def check_footer(path: str, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
    """Raise CorruptLogError if, according to the statistics, an action lacks a field or a row has two actions.

    metadata: `checked`. The statistics do not detect every such row: see `check_rows`.
    """
    _check_always_set(path, metadata, schema)
    counts = _counts(metadata)
    for group in range(metadata.num_row_groups):
        values = [each[group] for each in counts.values() if each is not None]
        actions, rows = sum(count - nulls for count, nulls in values if nulls is not None), metadata.row_group(group)
        if actions > rows.num_rows:
            found = f"{actions} actions in {rows.num_rows} rows"
            raise CorruptLogError(path=path, reason=f"expected {ONE_ACTION}, found {found} of row group {group}")


def leaves_of_groups(metadata: pq.FileMetaData) -> list[dict[str, str]]:
    """Return, for each row group, the columns that may have actions, each with a leaf that is set for each action.

    Row groups with only file actions have an empty entry: the reader of file actions checks those.
    """
    counts = {column: each for column, each in _counts(metadata).items() if each is not None}
    of_small = {column: null_counts(metadata, f"{column}.dataChange") for column in counts}
    found: list[dict[str, str]] = []
    for group in range(metadata.num_row_groups):
        held = [column for column, each in counts.items() if each[group][0] != each[group][1]]
        is_of_files = {"add", "remove"}.issuperset(held)
        columns = () if is_of_files else held
        found.append({each: _witness(each, counts[each][group], of_small[each], group) for each in columns})
    return found


def _witness(
    column: str, count: tuple[int, int | None], of_small: list[tuple[int, int | None]] | None, group: int
) -> str:
    """Return a leaf that is set for each action of a column in a row group. Avoids `path`, which is large."""
    is_small_set = of_small is not None and count[1] is not None and count == of_small[group]
    return f"{column}.dataChange" if is_small_set else f"{column}.{_WITNESSES[column]}"


def check_rows(path: str, rows: pa.Table, leaves: Mapping[str, str]) -> None:
    """Raise CorruptLogError if a row of a row group has two actions. leaves: from `leaves_of_groups`."""
    held = {column: holds(rows, leaf) for column, leaf in leaves.items()}
    for one, other in combinations(held, 2):
        if (held[one] & held[other]).any():
            raise CorruptLogError(path=path, reason=f"expected {ONE_ACTION}, found {one} and {other}")


def holds(rows: pa.Table, leaf: str) -> NDArray[np.bool_]:
    """Return for each row whether a leaf, such as `add.path`, has a value."""
    column, field = leaf.split(".")
    found: NDArray[np.bool_] = pc.struct_field(rows[column].combine_chunks(), field).is_valid().to_numpy(False)
    return found


def _counts(metadata: pq.FileMetaData) -> dict[str, list[tuple[int, int | None]] | None]:
    return {column: null_counts(metadata, f"{column}.{witness}") for column, witness in _WITNESSES.items()}


def _check_always_set(path: str, metadata: pq.FileMetaData, schema: pa.Schema) -> None:
    """Raise CorruptLogError if a required field is missing, or if, according to the statistics, an action lacks it."""
    for column in _ALWAYS_SET.keys() & set(schema.names):
        fields, struct = _ALWAYS_SET[column], schema.field(column).type
        if missing := [field for field in fields if struct.get_field_index(field) < 0]:
            raise CorruptLogError(path=path, reason=f"expected {column}.{missing[0]}, found no such column")
        nulls = {field: null_count(metadata, f"{column}.{field}") for field in (*fields, *_SET_TOO.get(column, ()))}
        known = {field: count for field, count in nulls.items() if count is not None}
        for field in known.keys() & set(fields):
            if known[field] > min(known.values()):
                raise CorruptLogError(path=path, reason=f"expected {column}.{field} in each {column}, found null")


def _is_kind(found: pa.DataType, kind: str) -> bool:
    if kind == "integer":
        return bool(pa.types.is_integer(found))
    if kind == "struct":
        return bool(pa.types.is_struct(found) or pa.types.is_null(found))
    return is_text(found)
