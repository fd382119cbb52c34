"""Values of Arrow columns as JSON values and as text, without loss.

| type | JSON | text (CSV) |
|-|-|-|
| null of any type | `null` | an empty field |
| boolean, integers | as is | `true`, `false`; digits |
| float, double | the shortest number with that value; `"NaN"`, `"Infinity"`, `"-Infinity"` | the same |
| decimal | a string with every digit of its scale | the same |
| string | as is | as is; an empty string is quoted |
| binary | a string, Base64 | the same |
| date | `"2024-02-29"` | the same |
| timestamp | in UTC: `"2024-02-29T12:00:00.123456Z"` | the same |
| timestamp without time zone | `"2024-02-29T12:00:00.123456"` | the same |
| struct | an object | its JSON |
| array | an array | its JSON |
| map with string keys, each once | an object | its JSON |
| any other map | an array of `{"key": ..., "value": ...}` | its JSON |
| variant | a string: its JSON | the same |

Seconds have six decimals, or none if they are zero. Years have four digits; later years and years before 0 have a
sign. Numbers are not rounded: an integer may exceed the range of parsers that read numbers as doubles.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import VariantVal

from deltasnap_assets.texts import escaped
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import countable

_Convert = Callable[[Any], Any]
_BATCH_ROWS = 1000
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DAY_SECONDS = 86_400
_ORDINAL_OF_EPOCH = date(1970, 1, 1).toordinal()
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The number of days after which the Gregorian calendar repeats."""


def json_rows(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Yield the values of each row, as JSON values. Errors: DeltaSnapError for a type without an exact form."""
    fields = list(rows.schema)
    converters = [_converter(field.name, field.type) for field in fields]
    for batch in rows.to_batches(_BATCH_ROWS):
        columns = [
            [convert(value) for value in column.cast(countable(field.type)).to_pylist()]
            for field, column, convert in zip(fields, batch.columns, converters, strict=True)
        ]
        yield from zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def json_line(value: Any) -> str:
    """Return a JSON value as JSON on one line. Control characters are escaped, which does not change the value."""
    return escaped(json.dumps(value, ensure_ascii=False, allow_nan=False), _json_escape)


def value_text(value: Any) -> str | None:
    """Return a JSON value as text; None: null."""
    return value if value is None or isinstance(value, str) else json_line(value)


def _json_escape(character: str) -> str:
    return json.dumps(character)[1:-1]


def _converter(name: str, data_type: Any) -> _Convert:
    """Return the function that makes JSON of a Python value, read from a column of type `countable`."""
    convert = _converter_of_value(name, data_type)
    return lambda value: None if value is None else convert(value)


def _converter_of_value(name: str, data_type: Any) -> _Convert:
    types = pa.types
    if types.is_boolean(data_type) or types.is_integer(data_type) or types.is_null(data_type):
        return lambda value: value
    if types.is_string(data_type) or types.is_large_string(data_type):
        return lambda value: value
    if types.is_float64(data_type):
        return _float
    if types.is_float32(data_type):
        return lambda value: _float(float(str(np.float32(value))))
    if types.is_decimal(data_type):
        return _decimal
    if types.is_binary(data_type) or types.is_large_binary(data_type):
        return lambda value: base64.b64encode(value).decode("ascii")
    if types.is_date32(data_type):
        return _date
    if types.is_timestamp(data_type):
        zone, per_second = "" if data_type.tz is None else "Z", _PER_SECOND[data_type.unit]
        return lambda value: _time(value, per_second) + zone
    if types.is_map(data_type):
        key_type, is_text = (
            data_type.key_type,
            types.is_string(data_type.key_type) or types.is_large_string(data_type.key_type),
        )
        return partial(_map, _converter(name, key_type), _converter(name, data_type.item_type), is_text)
    if types.is_list(data_type):
        element = _converter(name, data_type.value_type)
        return lambda values: [element(value) for value in values]
    if types.is_struct(data_type):
        fields = list(data_type)
        return _variant if _is_variant(fields) else _struct({f.name: _converter(name, f.type) for f in fields})
    raise DeltaSnapError(f"Column {name} of type {data_type} cannot be written as text. Write Parquet instead.")


def _float(value: float) -> float | str:
    names = {math.inf: "Infinity", -math.inf: "-Infinity"}
    return "NaN" if math.isnan(value) else names.get(value, value)


def _decimal(value: Decimal) -> str:
    return f"{value:f}"


def _date(days: int) -> str:
    cycles, day = divmod(days + _ORDINAL_OF_EPOCH - 1, _CYCLE_DAYS)
    found = date.fromordinal(day + 1)
    year = found.year + cycles * _CYCLE_YEARS
    return f"{f'{year:04}' if 0 <= year <= 9999 else f'{year:+05}'}-{found.month:02}-{found.day:02}"


def _time(count: int, per_second: int) -> str:
    seconds, rest = divmod(count, per_second)
    days, second = divmod(seconds, _DAY_SECONDS)
    minutes, second = divmod(second, 60)
    digits = len(str(per_second)) - 1
    decimals = f".{rest:0{digits}}" if rest else ""
    return f"{_date(days)}T{minutes // 60:02}:{minutes % 60:02}:{second:02}{decimals}"


def _map(key: _Convert, value: _Convert, is_text: bool, entries: Sequence[tuple[Any, Any]]) -> Any:
    """Return a map as a JSON object if its keys are texts, otherwise as a list of entries."""
    if is_text and len({each for each, _ in entries}) == len(entries):  # Parquet may repeat a key
        return {each: value(found) for each, found in entries}
    return [{"key": key(each), "value": value(found)} for each, found in entries]


def _struct(fields: dict[str, _Convert]) -> _Convert:
    return lambda value: {name: convert(value[name]) for name, convert in fields.items()}


def _is_variant(fields: Sequence[Any]) -> bool:
    """Return whether PySpark created the struct for a variant: it marks one of the fields."""
    return any((field.metadata or {}).get(b"variant") == b"true" for field in fields)


def _variant(value: dict[str, bytes]) -> str:
    return VariantVal(value["value"], value["metadata"]).toJson()
