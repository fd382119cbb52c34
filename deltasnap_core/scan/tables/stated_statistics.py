"""The statistics of files as Arrow columns: what their JSON states about some columns, in the types of these.

An invalid value is not stated. NaN is no bound.
Source: PROTOCOL.md, Per-file Statistics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.json_text import parse_json
from deltasnap_core.rules.texts.json_lines import parse_texts
from deltasnap_core.rules.texts.statistics_schema import fields_at
from deltasnap_core.scan.table_columns import TableColumn

BOUNDS = ("minValues", "maxValues")

_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), pa.int64()),
    **dict.fromkeys(("float", "double"), pa.float64()),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\(\d+(?:,(\d+))?\)")
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


def bound_type(column: TableColumn) -> pa.DataType | None:
    """Return the type of the bounds of a column; None: they have no order, or no writer states them."""
    if column.was_float:
        return None
    decimal = _DECIMAL.fullmatch(column.data_type)
    return _TYPES.get(column.data_type) if decimal is None else pa.decimal128(38, int(decimal[1] or 0))


class StatedStatistics:
    """The statistics of some files, each as an array with a value for each file; null: not stated.

    records, is_tight: the number of rows, and `tightBounds`.
    """

    def __init__(self, stats: pa.StringArray, columns: Iterable[TableColumn]) -> None:
        """stats: JSON. columns: which the result can be asked for."""
        schema, texts = _schema(columns), pc.fill_null(stats, "{}")
        parsed = parse_texts(texts, schema)
        found = (_exactly(texts, schema) if parsed is None else parsed).combine_chunks()
        self.records, self.is_tight = (found[name].combine_chunks() for name in ("numRecords", "tightBounds"))
        self._structs = {name: found[name].combine_chunks() for name in ("nullCount", *BOUNDS)}

    def nulls(self, column: TableColumn) -> pa.Array:
        """Return the numbers of nulls of a column."""
        return reduce(pc.struct_field, column.physical_path, self._structs["nullCount"])

    def bounds(self, kind: str, column: TableColumn, data_type: pa.DataType) -> pa.Array:
        """Return bounds of a column. kind: one of BOUNDS. data_type: `bound_type` of the column."""
        found = cast(reduce(pc.struct_field, column.physical_path, self._structs[kind]), data_type)
        return pc.if_else(pc.is_nan(found), None, found) if pa.types.is_floating(data_type) else found


def _schema(columns: Iterable[TableColumn]) -> pa.Schema:
    counts, bounds = dict[tuple[str, ...], pa.DataType](), dict[tuple[str, ...], pa.DataType]()
    for column in columns:
        counts[column.physical_path] = pa.int64()
        if (kind := bound_type(column)) is not None:  # in JSON, dates and times are texts
            bounds[column.physical_path] = pa.string() if pa.types.is_temporal(kind) else kind
    fields = [
        ("numRecords", pa.int64()),
        ("tightBounds", pa.bool_()),
        ("nullCount", _struct(counts, fields_at(counts))),
    ]
    return pa.schema([*fields, *((kind, _struct(bounds, fields_at(bounds))) for kind in BOUNDS)])


def _exactly(texts: pa.StringArray, schema: pa.Schema) -> pa.Table:
    """Return the columns of texts that Arrow does not parse, for example with NaN. Invalid values become null."""
    rows = [_valid(_decoded(text), pa.struct(list(schema))) or {} for text in texts.to_pylist()]
    return pa.Table.from_pylist(rows, schema)


def _struct(
    types: Mapping[tuple[str, ...], pa.DataType], fields: Mapping[str, Any], above: tuple[str, ...] = ()
) -> pa.StructType:
    """Return the type of a struct. fields: those at the paths of `types` below one, see `fields_at`."""
    return pa.struct(
        [
            (name, _struct(types, inner, (*above, name)) if inner else types[*above, name])
            for name, inner in fields.items()
        ]
    )


def _decoded(text: str) -> Any:
    try:
        return parse_json(text, parse_float=Decimal)
    except ValueError:
        return None


def _valid(value: Any, kind: pa.DataType) -> Any:
    """Return a decoded value as one of a type; None: it is none."""
    if pa.types.is_struct(kind):
        fields = value if isinstance(value, dict) else {}
        return {field.name: _valid(fields.get(field.name), field.type) for field in kind}
    try:
        if isinstance(value, bool) != pa.types.is_boolean(kind) or (isinstance(value, str) and kind != pa.string()):
            value = float(value) if pa.types.is_floating(kind) and value in _NO_NUMBERS else None
        elif pa.types.is_floating(kind) and value is not None:
            value = float(value)
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values, or texts of them, as a type. An invalid text becomes null. Times without a zone are in UTC."""
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return _in_utc(values) if kind == _TYPES["timestamp"] else pa.nulls(1, kind)
    distinct = values.unique()
    found = pa.concat_arrays([cast(distinct.slice(place, 1), kind) for place in range(len(distinct))])
    return found.take(pc.index_in(values, distinct))


def _in_utc(text: pa.Array) -> pa.Array:
    return cast(text, _TYPES["timestamp_ntz"]).cast(_TYPES["timestamp"])
