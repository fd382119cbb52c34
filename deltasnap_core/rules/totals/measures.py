"""The measures of a file action: the values that count towards the computed state. In SQL and in Arrow.

size:       bytes of a live file; null for a tombstone.
records:    number of rows by its statistics, before deletion vectors (`num_records`); null: unknown. If a checkpoint
            has the number in a struct, too, the struct counts, so that the JSON need not be read.
deleted:    number of rows that its deletion vector deletes; null: no deletion vector.
deleted_at: when (ms) a tombstone was deleted, 0 without a time; null for a live file.
Source: PROTOCOL.md, Add File and Remove File; Per-file Statistics; Deletion Vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.rules.file_actions import KEY_FIELDS, check_one_action, is_text, vector_ids
from deltasnap_core.rules.totals.num_records import num_records, num_records_sql

DELETED_AT = "case when remove.path is not null then coalesce(remove.deletionTimestamp, 0) end"
"""SQL for `deleted_at` over add and remove."""

MEASURES: Mapping[str, str] = {
    "size": "add.size",
    "records": num_records_sql("add.stats"),
    "deleted": (
        "case when add.deletionVector.storageType is not null then coalesce(add.deletionVector.cardinality, 0) end"
    ),
    "deleted_at": DELETED_AT,
}
"""SQL for each measure, a bigint, over add and remove."""

MEASURED_ACTION = pa.schema([("path", pa.string()), ("dv_id", pa.string()), *((name, pa.int64()) for name in MEASURES)])
"""A file action in Arrow: its path as in the log, the id of its deletion vector (empty without one), and its measures.
All columns are null for other actions.
"""

MEASURED_COLUMNS = (
    "add.path",
    "add.size",
    "add.stats",
    "add.stats_parsed.numRecords",
    "add.deletionVector.cardinality",
    "remove.path",
    "remove.deletionTimestamp",
    *(f"{kind}.deletionVector.{field}" for kind in ("add", "remove") for field in KEY_FIELDS),
)
"""The Parquet columns that `measures_of` reads."""


def measures_of(actions: pa.Table) -> pa.Table:
    """Return the measures (MEASURED_ACTION) of actions, one row each.

    actions: columns `add` and `remove`, structs as in the log; missing fields count as null.
    Errors: TypeError, pa.ArrowException if a field has another type than in the protocol; ValueError if a row holds two
    actions.
    """
    add, remove = _struct(actions, "add"), _struct(actions, "remove")
    removed_path, path = _text(remove, "path"), _text(add, "path")
    check_one_action(path, removed_path)
    vectors = [_struct(each, "deletionVector") for each in (add, remove)]
    path = _either(path, removed_path)
    ids = pc.coalesce(*map(_vector_ids, vectors), pa.scalar("", pa.string()))
    has_vector = _text(vectors[0], "storageType").is_valid()
    arrays = {
        "path": path,
        "dv_id": pc.if_else(path.is_valid(), ids, None),
        "size": _integer(add, "size"),
        "records": _records(add),
        "deleted": pc.if_else(has_vector, pc.fill_null(_integer(vectors[0], "cardinality"), 0), None),
        "deleted_at": pc.if_else(removed_path.is_valid(), pc.fill_null(_integer(remove, "deletionTimestamp"), 0), None),
    }
    return pa.table(arrays, schema=MEASURED_ACTION)


def has_negative_number(measures: pa.Table) -> pa.ChunkedArray:
    """Return whether each row (MEASURES) has a negative size or number of rows, or more deleted rows than rows."""
    found = [pc.less(measures[name], 0) for name in ("size", "records", "deleted")]
    found.append(pc.greater(measures["deleted"], measures["records"]))
    return reduce(pc.or_, [pc.fill_null(each, False) for each in found])


def _struct(parent: pa.Table | pa.StructArray, name: str) -> pa.StructArray:
    """Return a struct column of a table, or a struct in a struct. One that is missing is null and has no fields."""
    if isinstance(parent, pa.Table):
        found = parent[name].combine_chunks() if name in parent.column_names else None
    else:
        found = pc.struct_field(parent, name) if _has(parent, name) else None
    if found is None:
        return pa.nulls(len(parent), pa.struct([]))
    if not pa.types.is_struct(found.type):
        raise TypeError(f"expected a struct, found {found.type}")
    return found


def _text(parent: pa.StructArray, name: str) -> pa.Array:
    return _field(parent, name, pa.string(), is_text)


def _integer(parent: pa.StructArray, name: str) -> pa.Array:
    return _field(parent, name, pa.int64(), pa.types.is_integer)


def _field(parent: pa.StructArray, name: str, kind: pa.DataType, accepted: Callable[[pa.DataType], bool]) -> pa.Array:
    """Return a field of a struct; null if the struct lacks it."""
    found = pc.struct_field(parent, name) if _has(parent, name) else pa.nulls(len(parent), kind)
    if not any(accepts(found.type) for accepts in (accepted, pa.types.is_null)):
        raise TypeError(f"expected {name} to be of type {kind}, found {found.type}")
    return found.cast(kind)


def _has(parent: pa.StructArray, name: str) -> bool:
    return bool(parent.type.get_field_index(name) >= 0)


def _vector_ids(vector: pa.StructArray) -> pa.Array:
    return vector_ids(_text(vector, "storageType"), _text(vector, "pathOrInlineDv"), _integer(vector, "offset"))


def _either(first: pa.Array, second: pa.Array) -> pa.Array:
    """Return the first non-null value of two, for each row. Copies only if needed."""
    if not first.null_count:
        return first
    return second if first.null_count == len(first) else pc.coalesce(first, second)


def _records(add: pa.StructArray) -> pa.Array:
    """Return the numbers of records: from the struct, or without a number there from the JSON."""
    stated, parsed = num_records(_text(add, "stats")), _struct(add, "stats_parsed")
    return pc.coalesce(_integer(parsed, "numRecords"), stated) if _has(parsed, "numRecords") else stated
