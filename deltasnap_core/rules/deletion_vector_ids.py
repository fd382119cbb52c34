"""The unique id of a deletion vector: `<storageType><pathOrInlineDv>[@<offset>]`. In SQL and in Arrow.

The path and this id are the key of a logical file. An offset of 0 is part of the id; a null offset adds nothing. Null:
no deletion vector. `DeletionVectorDescriptor.unique_id` returns the id of one decoded vector.
Source: PROTOCOL.md, Deletion Vectors, Derived Fields.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

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
