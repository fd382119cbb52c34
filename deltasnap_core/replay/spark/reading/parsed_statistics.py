"""Reads single statistics from the struct that a checkpoint may have beside or instead of the JSON.

The values have the same form as in JSON, so that one rule reads both.
Source: PROTOCOL.md, Checkpoint Schema; Per-file Statistics.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType, TimestampType

from deltasnap_core.rules.texts.sql_text import quoted
from deltasnap_core.rules.texts.statistics_schema import StatisticPath, fields_at, is_count

# Always UTC: the historical offsets of other zones include seconds, which this format cannot write.
_IN_UTC = "map('timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd HH:mm:ss.SSSSSSX')"


def has_all(struct: pa.DataType | None, paths: Collection[StatisticPath]) -> bool:
    """Return whether a struct has a value at each path."""
    return struct is not None and all(_leaf(struct, path) is not None for path in paths)


def narrowed(struct: pa.DataType, paths: Collection[StatisticPath]) -> StructType:
    """Return the type that reads only the given paths of a struct. The struct must have all of them."""
    return _narrowed(struct, fields_at(sorted(paths)), ())


def as_texts(column: str, struct: StructType) -> str:
    """Return SQL that converts a column of statistics from its `narrowed` type to that of `text_schema`."""
    return f"if({column} is null, null, {_texts(column, struct, ())})"


def _narrowed(struct: pa.DataType, fields: dict[str, Any], above: StatisticPath) -> StructType:
    types = []
    for name, inner in fields.items():
        path = (*above, name)
        leaf = _leaf(struct, path)
        types.append(StructField(name, _narrowed(struct, inner, path) if inner else _leaf_type(leaf)))
    return StructType(types)


def _leaf_type(leaf: pa.DataType | None) -> DataType:
    # Arrow does not know the zone of INT96, which is the form of timestamps in checkpoints of Spark. It is UTC.
    is_int96 = leaf == pa.timestamp("ns")
    return TimestampType() if is_int96 else from_arrow_type(leaf, prefer_timestamp_ntz=True)


def _texts(column: str, struct: StructType, above: StatisticPath) -> str:
    fields = []
    for field in struct:
        path, value = (*above, field.name), f"{column}.{quoted(field.name)}"
        if isinstance(field.dataType, StructType):
            value = _texts(value, field.dataType, path)
        elif isinstance(field.dataType, TimestampType):
            value = f"to_csv(struct({value}), {_IN_UTC})"
        else:
            value = f"cast({value} as {'bigint' if is_count(path) else 'string'})"
        fields.append(f"{value} as {quoted(field.name)}")
    return f"struct({', '.join(fields)})"


def _leaf(struct: pa.DataType, path: StatisticPath) -> pa.DataType | None:
    for name in path:
        index = struct.get_field_index(name) if pa.types.is_struct(struct) else -1
        if index < 0:
            return None
        struct = struct.field(index).type
    return None if pa.types.is_nested(struct) else struct
