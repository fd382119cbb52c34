"""Which files may hold values in a range, by their statistics in JSON, without Spark: a first, coarse sieve.

It keeps what Spark would keep and some more: what it leaves is few enough to be judged exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.rules.json_lines import parsed_texts

_BOUNDS = ("minValues", "maxValues")
_MICROS = pa.timestamp("us")

INTEGERS = {"byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64()}
TIMES = {"date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": _MICROS}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRange:
    """A column's values of the rows asked for lie between two, both included; None: no end.

    path: of the column, by its physical names. data_type: one of INTEGERS, or of TIMES: the ends are µs since the epoch
    then, with enough room for every time zone.
    """

    path: tuple[str, ...]
    data_type: str
    low: int | None
    high: int | None


def may_hold(stats: pa.StringArray, ranges: Sequence[ValueRange]) -> pa.BooleanArray | None:
    """Return which files may hold rows in all of the ranges, by their statistics; those that say nothing may.

    None: some statistics are not of the usual form.
    """
    found = parsed_texts(stats.fill_null("{}"), _schema(ranges))
    if found is None:
        return None
    kept = pa.array([True] * len(stats), pa.bool_())
    try:
        for each in ranges:
            lowest, highest = (_values(found[bound].combine_chunks(), each) for bound in _BOUNDS)
            if each.low is not None:
                kept = pc.and_(kept, pc.fill_null(pc.greater_equal(highest, each.low), True))
            if each.high is not None:
                kept = pc.and_(kept, pc.fill_null(pc.less_equal(lowest, each.high), True))
    except pa.ArrowException:  # a text that is no time
        return None
    return kept


def _values(bounds: pa.StructArray, of: ValueRange) -> pa.Array:
    values = reduce(pc.struct_field, of.path, bounds)
    if of.data_type in TIMES:
        return values.cast(TIMES[of.data_type]).cast(_MICROS).cast(pa.int64())
    return values.cast(INTEGERS[of.data_type]).cast(pa.int64())  # one that is too large for its type is an error


def _schema(ranges: Iterable[ValueRange]) -> pa.Schema:
    tree: dict[str, Any] = {}
    for each in ranges:
        *above, name = each.path
        fields = reduce(lambda node, step: node.setdefault(step, {}), above, tree)
        fields[name] = pa.string() if each.data_type in TIMES else pa.int64()
    return pa.schema([(bound, _struct(tree)) for bound in _BOUNDS])


def _struct(tree: Mapping[str, Any]) -> pa.DataType:
    return pa.struct([(name, _struct(kind) if isinstance(kind, Mapping) else kind) for name, kind in tree.items()])
