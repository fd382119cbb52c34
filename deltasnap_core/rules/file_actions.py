"""The file actions: the Arrow types of `add` and `remove`, the ids of deletion vectors, and one action in a row.

The driver uses the types, and Spark's schemas are derived from them. Every field is nullable. Required fields are
checked where they are read, with an error that names the file.
The id of a deletion vector is `<storageType><pathOrInlineDv>[@<offset>]`. With the path, it is the key of a logical
file. An offset of 0 is part of it; a null offset adds nothing. Null: no deletion vector.
`DeletionVectorDescriptor.unique_id` returns the id of one decoded vector.
Source: PROTOCOL.md, Add File and Remove File; Deletion Vector Descriptor Schema; Derived Fields; Checkpoint Schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_STRING_MAP = pa.map_(pa.string(), pa.string())

DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
        ("maxRowIndex", pa.int64()),
    ]
)
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _STRING_MAP),
        ("size", pa.int64()),
        ("stats", pa.string()),
        ("tags", _STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)

FULL_ACTION = pa.schema([("add", ADD), ("remove", REMOVE)])
"""A file action with all its fields. Each row has either `add` or `remove`."""

ADDS, REMOVES = pa.schema(list(ADD)), pa.schema(list(REMOVE))
"""The columns of AddFile and of RemoveFile."""


def vector_sql(action: str) -> str:
    """Return SQL for the deletion vector of an action, `add` or `remove`.

    Null without any field: a writer may fill the descriptor of a file without a deletion vector with nulls.
    """
    vector = f"{action}.deletionVector"
    are_null = " and ".join(f"{vector}.`{name}` is null" for name in DELETION_VECTOR.names)
    return f"if({are_null}, null, {vector})"


def columns_of(actions: pa.StructArray, names: Sequence[str]) -> pa.Table:
    """Return some fields of adds or removes as columns. Deletion vectors are those of `vector_sql`."""
    found = pa.Table.from_struct_array(actions).select(list(names))
    if "deletionVector" not in names or found["deletionVector"].null_count == found.num_rows:
        return found
    vectors = found["deletionVector"].combine_chunks()
    fields = [pc.struct_field(vectors, name) for name in DELETION_VECTOR.names]
    is_null = reduce(pc.and_, (field.is_null() for field in fields))
    whole = pa.StructArray.from_arrays(fields, fields=list(DELETION_VECTOR), mask=is_null)
    return found.set_column(found.column_names.index("deletionVector"), "deletionVector", whole)


def fitted(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values in one of the types above. Fields that a struct lacks are null.

    Errors: pa.ArrowException if the values have an incompatible type.
    """
    found = values.type
    if found.equals(kind):
        return values
    if pa.types.is_null(found):
        return pa.nulls(len(values), kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(found):
        fields = [fitted(_field(values, field.name), field.type) for field in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=values.is_null())
    for is_kind in (pa.types.is_map, pa.types.is_integer, pa.types.is_boolean, is_text):
        if is_kind(kind) and is_kind(found):
            return values.cast(kind)
    raise pa.ArrowTypeError(f"expected {kind}, found {found}")


def is_text(kind: pa.DataType) -> bool:
    """Return whether Parquet may have text in a type: in a string, or in bytes without a logical type.

    Without an Arrow schema (`parsed_footer`), Parquet has no other types of text.
    """
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def values_of(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows as Python values, maps as dicts. If a map has a key twice, the first value counts, as in SQL.

    Only Parquet has such maps: when JSON is parsed, only the last value is kept.
    """
    found: list[dict[str, Any]] = rows.to_pylist()  # with `maps_as_pydicts`, it takes twice the time of all of this
    for field in (field for field in rows.schema if pa.types.is_nested(field.type)):
        for row in found:
            row[field.name] = _value(row[field.name], field.type)
    return found


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is not None and pa.types.is_map(kind):
        found = dict(value)
        return found if len(found) == len(value) else dict(reversed(value))
    if value is not None and pa.types.is_struct(kind):
        return {field.name: _value(value[field.name], field.type) for field in kind}
    return value


def _field(structs: pa.StructArray, name: str) -> pa.Array:
    has_field = structs.type.get_field_index(name) >= 0
    return pc.struct_field(structs, name) if has_field else pa.nulls(len(structs))


ONE_ACTION = "at most one action in a row"


def check_one_action(added: pa.Array, removed: pa.Array | None) -> None:
    """Raise ValueError if a row has both an `add` and a `remove`. added, removed: their paths; None: no such column."""
    if removed is None or added.null_count == len(added) or removed.null_count == len(removed):
        return
    if pc.any(pc.and_(added.is_valid(), removed.is_valid())).as_py():
        raise ValueError(f"expected {ONE_ACTION}, found add and remove")


def one_action_sql() -> str:
    """Return SQL that is true, or raises an error if a row has both an `add` and a `remove`."""
    # The message depends on a column: an engine may evaluate a constant expression although no row needs it.
    problem = f"raise_error(concat('expected {ONE_ACTION}, found add and remove', substring(add.path, 1, 0)))"
    return f"if(add.path is not null and remove.path is not null, cast({problem} as boolean), true)"


KEY_FIELDS = ("storageType", "pathOrInlineDv", "offset")
"""The fields of a descriptor that form its id."""


def vector_id_sql(vector: str) -> str:
    """Return SQL for the id of a descriptor. vector: SQL for a struct. Null without a vector."""
    # In backticks, because a session may reserve keywords (`spark.sql.ansi.enforceReservedKeywords`).
    offset = f"coalesce(concat('@', {vector}.`offset`), '')"
    return f"concat({vector}.storageType, {vector}.pathOrInlineDv, {offset})"


def file_vector_id_sql() -> str:
    """Return SQL for the id of a file action's vector, over the columns add and remove; empty without a vector."""
    return f"coalesce({vector_id_sql('add.deletionVector')}, {vector_id_sql('remove.deletionVector')}, '')"


def vector_ids(storage_type: pa.Array, path_or_inline: pa.Array, offset: pa.Array) -> pa.Array:
    """Return the ids of descriptors from their fields; null without a vector."""
    if storage_type.null_count == len(storage_type):
        return storage_type
    suffix = pc.fill_null(pc.binary_join_element_wise("@", offset.cast(pa.string()), ""), "")
    return pc.binary_join_element_wise(storage_type, path_or_inline, suffix, "")
