"""What a predicate asks of single columns, as ranges of values: for a first, coarse look at statistics.

Of the conditions that AND joins, those that compare a column with a constant give an end of a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
from sqlglot import exp

from deltasnap_core.log.value_ranges import INTEGERS, TIMES, ValueRange
from deltasnap_core.scan.bounds import comparable
from deltasnap_core.scan.predicate import column_of, has_only
from deltasnap_core.scan.predicate_values import value_of
from deltasnap_core.scan.table_columns import TableColumn, TableColumns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROOM = 3 * 24 * 60 * 60 * 1_000_000
"""More than lies between what a text means in two time zones, in µs."""

_MOST = (1 << 63) - 1

Side = Literal["low", "high"]
_SIDES: dict[type[exp.Expr], tuple[Side, ...]] = {
    exp.GT: ("low",), exp.GTE: ("low",), exp.LT: ("high",), exp.LTE: ("high",), exp.EQ: ("low", "high")
}  # fmt: skip
_MIRRORED: dict[Side, Side] = {"low": "high", "high": "low"}


@dataclass(frozen=True, slots=True)
class End:
    """The lowest or the highest value of a column that a row may have; it may be one that a row may not have.

    sql: the value as a long, in µs since the epoch where it is a time; null: there is no such end.
    """

    column: TableColumn
    side: Side
    sql: str


def ends_in(condition: exp.Expr, columns: TableColumns) -> Iterator[End]:
    """Yield the ends that a condition sets; none where it compares no column with a constant."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.Between) and has_only(condition, "this", "low", "high"):
        yield from _ends(condition.this, "low", condition.args["low"], columns)
        yield from _ends(condition.this, "high", condition.args["high"], columns)
    elif type(condition) in _SIDES and has_only(condition, "this", "expression"):
        for side in _SIDES[type(condition)]:
            yield from _ends(condition.this, side, condition.expression, columns)
            yield from _ends(condition.expression, _MIRRORED[side], condition.this, columns)


def ranges_of(ends: Sequence[End], spark: SparkSession) -> list[ValueRange]:
    """Return a range for each end. Spark says what the constants are, of times in its time zone."""
    if not ends:
        return []
    one = spark.createDataFrame(pa.table({"one": [1]}))
    (values,) = one.selectExpr(*(f"{end.sql} as c{number}" for number, end in enumerate(ends))).collect()
    return [_range(end, value) for end, value in zip(ends, values, strict=True) if value is not None]


def _range(end: End, value: int) -> ValueRange:
    room = _ROOM if end.column.data_type in TIMES and abs(value) < _MOST - _ROOM else 0
    return ValueRange(
        path=end.column.physical_path,
        data_type=end.column.data_type,
        low=value - room if end.side == "low" else None,
        high=value + room if end.side == "high" else None,
    )


def _ends(column_node: exp.Expr, side: Side, value_node: exp.Expr, columns: TableColumns) -> Iterator[End]:
    column, value = column_of(column_node, columns), value_of(value_node)
    if column is None or value is None or column.is_partition or column.was_float:
        return
    if value.kind == "null" or value.is_beyond_long or not comparable(column.data_type, value):
        return
    if column.data_type in INTEGERS:  # a fraction is cut off, which widens a range if anything
        yield End(column, side, f"try_cast({value.sql} as bigint)")
    elif column.data_type in TIMES:
        yield End(column, side, f"unix_micros(try_cast({value.sql} as timestamp_ltz))")
