"""The statistics of files as Arrow columns: what their JSON states about some columns, in the types of these.

Logs may state anything. A value that is invalid or impossible counts as not stated: rows below 0, nulls below 0 or
above the rows, a minimum above its maximum, a number beyond its type, and a date or time outside of the years 1 to
9999, which Python does not have. NaN is no bound.
Source: PROTOCOL.md, Per-file Statistics.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.protocol.json_text import parse_json
from deltasnap_core.rules.texts.json_lines import parse_texts
from deltasnap_core.rules.texts.statistics_schema import fields_at
from deltasnap_core.scan.table_columns import TableColumn

_BOUNDS = ("minValues", "maxValues")

_TYPES: Mapping[str, pa.DataType] = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    **dict.fromkeys(("float", "double"), pa.float64()),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL = re.compile(r"decimal\((\d+)(?:,(\d+))?\)")
_MOST_DIGITS = 38
_EXACT_DIGITS = 15  # writers that state decimals as doubles round others, perhaps beyond the type
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_LONG = "[0-9]{5}"  # a long exponent below 0 crashes the process while Arrow reads a decimal
_LONG_EXPONENT = f"[eE]-{_LONG}"


def bound_type(column: TableColumn) -> pa.DataType | None:
    """Return the type of the bounds of a column; None: they have no order, or no writer states them."""
    if column.was_float:
        return None
    decimal = _DECIMAL.fullmatch(column.data_type)
    return _TYPES.get(column.data_type) if decimal is None else pa.decimal128(_MOST_DIGITS, int(decimal[2] or 0))


class StatedStatistics:
    """The statistics of some files, each as an array with a value for each file; null: not stated.

    records, is_tight: the number of rows, and `tightBounds`.
    """

    def __init__(self, stats: pa.StringArray, columns: Sequence[TableColumn]) -> None:
        """stats: JSON. columns: which the result can be asked for."""
        schema, texts = _schema(columns), pc.fill_null(stats, "{}")
        has_decimals = any(_DECIMAL.fullmatch(column.data_type) for column in columns)
        parsed = None if has_decimals and _has_long_exponent(texts) else parse_texts(texts, schema)
        found = (_exactly(texts, schema) if parsed is None else parsed).combine_chunks()
        records, self.is_tight = (found[name].combine_chunks() for name in ("numRecords", "tightBounds"))
        self._may_be_infinite = pa.scalar(parsed is None)  # in Arrow's reader, only numbers with too many digits are
        self.records = pc.if_else(pc.greater_equal(records, 0), records, None)
        self._structs = {name: found[name].combine_chunks() for name in ("nullCount", *_BOUNDS)}

    def nulls(self, column: TableColumn) -> pa.Array:
        """Return the numbers of nulls of a column."""
        found = reduce(pc.struct_field, column.physical_path, self._structs["nullCount"])
        is_possible = pc.and_(pc.greater_equal(found, 0), pc.fill_null(pc.less_equal(found, self.records), True))
        return pc.if_else(is_possible, found, None)

    def bounds(self, column: TableColumn) -> tuple[pa.Array, pa.Array]:
        """Return the minimums and the maximums of a column, of its `bound_type`."""
        stated = (reduce(pc.struct_field, column.physical_path, self._structs[kind]) for kind in _BOUNDS)
        low, high = (typed(values, column, self._may_be_infinite) for values in stated)
        is_wrong = pc.fill_null(pc.greater(low, high), False)
        if pc.any(is_wrong).as_py():
            low, high = pc.if_else(is_wrong, None, low), pc.if_else(is_wrong, None, high)
        return low, high


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
    return pa.schema([*fields, *((kind, _struct(bounds, fields_at(bounds))) for kind in _BOUNDS)])


def _has_long_exponent(texts: pa.StringArray) -> bool:
    """Return whether some number has one."""
    lower, upper = (pc.match_substring_regex(texts, f"{e}-{_LONG}") for e in "eE")  # fast: their first letter is fixed
    suspects = texts.filter(pc.or_(lower, upper))
    return bool(pc.any(pc.match_substring_regex(suspects, rf':\s*"?[-+]?[0-9.]+[eE]-{_LONG}')).as_py())


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
    """Return the value of a JSON text, with bytes in place of each number: Python limits its digits."""
    try:
        return parse_json(text, parse_int=str.encode, parse_float=str.encode)
    except ValueError:
        return None


def _valid(value: Any, kind: pa.DataType) -> Any:
    """Return a decoded value as one of a type; None: it is none."""
    if pa.types.is_struct(kind):
        fields = value if isinstance(value, dict) else {}
        return {field.name: _valid(fields.get(field.name), field.type) for field in kind}
    try:
        if isinstance(value, str | bytes) and pa.types.is_decimal(kind):  # as Arrow's reader
            return cast(pa.array([value], pa.string()), kind)[0].as_py()
        if isinstance(value, bytes):
            number = float(value) if pa.types.is_floating(kind) else int(value) if pa.types.is_integer(kind) else None
            value = number if number is None or math.isfinite(number) else None
        elif isinstance(value, bool) != pa.types.is_boolean(kind) or (isinstance(value, str) and kind != pa.string()):
            value = float(value) if pa.types.is_floating(kind) and value in _NO_NUMBERS else None
        return pa.scalar(value, kind).as_py()
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def typed(values: pa.Array, column: TableColumn, may_be_infinite: pa.Array | pa.Scalar) -> pa.Array:
    """Return values of a column, or texts of them, as its `bound_type`. Null: invalid, impossible, or NaN.

    may_be_infinite: whether an infinite number is one that is stated. Otherwise, it has too many digits.
    """
    found = cast(values, bound_type(column))
    if pa.types.is_temporal(found.type):
        first, last = (pa.scalar(each, found.type) for each in (datetime.min, datetime.max))
        is_valid = pc.and_(pc.greater_equal(found, first), pc.less_equal(found, last))
    elif pa.types.is_floating(found.type):
        held = found.cast(pa.float32()) if column.data_type == "float" else found
        is_valid = pc.or_(pc.is_finite(held), pc.and_(pc.is_inf(found), may_be_infinite))
    elif decimal := _DECIMAL.fullmatch(column.data_type):
        digits = int(decimal[1])
        if digits > _EXACT_DIGITS and not pa.types.is_string(values.type):
            digits = _MOST_DIGITS
        is_valid = pc.less_equal(pc.abs(found), pa.scalar(Decimal((0, (9,) * digits, -found.type.scale))))
    else:
        return found
    return pc.if_else(is_valid, found, None)


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return values, or texts of them, as a type. An invalid text becomes null. Times without a zone are in UTC."""
    if values.type == kind:
        return values
    if pa.types.is_decimal(kind):
        values = pc.if_else(pc.match_substring_regex(values, _LONG_EXPONENT), None, values)
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
