"""Decides which filters Spark may push down into its Parquet reader: an allow list by type and operator. No Spark.

Spark's comparison of values and Parquet's statistics, dictionaries and bloom filters do not always agree. If they
differ, a pushed filter loses rows. Filters that are not listed here are evaluated by Spark after reading.

- A column of a type in `EVERY_OPERATOR` is read directly: Spark may push down any filter, including filters on the
  DataFrame of a scan.
- Any other column is read through an expression that Spark does not push filters through (`to_logical`).
- For columns of a type in `WITH_MARGIN`, separate conditions (`pushed_conditions`) are generated and pushed down.

Nothing is pushed down if the table's files may have another type (type widening) or another column with that name
(column mapping by id): Spark resolves the columns of a pushed filter by name. Nor is it for a column `a.b` beside a
struct `a` (`TableColumns.with_shared_paths`): Parquet finds the dictionary of a column by its path with dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from deltasnap_core.protocol.properties.table_config import ColumnMappingMode
from deltasnap_core.rules.texts.sql_text import quoted, sql_type
from deltasnap_core.scan.predicates.predicate import column_of, has_only
from deltasnap_core.scan.predicates.predicate_values import value_of
from deltasnap_core.scan.table_columns import TableColumn, TableColumns

EVERY_OPERATOR = {
    "boolean": "false and true are the same two values to Parquet",
    "byte": "integers have one order and one representation; Spark checks the range of the file's type",
    "short": "as byte",
    "integer": "as byte",
    "long": "as byte",
    "string": "both compare the bytes of UTF-8, unsigned; bounds that are cut short are still bounds",
    "binary": "Spark pushes down equality only: the same bytes",
    "decimal": "exact numbers; Spark pushes a filter down only where the scale of the file is the same",
    "array": "Spark pushes nothing down that is inside an array",
    "map": "as array",
}
"""Types of columns on which any filter may be pushed down, each with the reason.

Not listed: float and double. Statistics leave out NaN, which is greater than every number in Spark. Dictionaries and
bloom filters distinguish -0.0 from 0.0, which are equal in Spark. For timestamp_ntz, variant and others, Spark pushes
down hardly anything.
"""

WITH_MARGIN = {
    "date": ("interval '1' day", "a filter passes through java.sql.Date, which lacks days that a time zone skipped"),
    "timestamp": ("interval '1' second", "Spark cuts a constant to milliseconds where a file has those"),
}
"""Types for which only comparisons with a constant are pushed down, with a margin at both ends and the reason for it.

The constants of a pushed filter are converted to java.sql classes, which use the Julian calendar before 1582 and lack
the days between the calendars. So nothing is pushed down for constants before `_SINCE`.
"""

_SINCE = "date'1900-01-01'"
_DECIMAL = re.compile(r"decimal\(\d+,\s*\d+\)")
_KINDS = {"date": ("string", "date"), "timestamp": ("string", "date", "timestamp")}
_LOW: tuple[type[exp.Expr], ...] = (exp.GT, exp.GTE, exp.EQ, exp.NullSafeEQ)
_HIGH: tuple[type[exp.Expr], ...] = (exp.LT, exp.LTE, exp.EQ, exp.NullSafeEQ)


def may_push_down(data_type: str, *, is_widened: bool, mode: ColumnMappingMode) -> bool:
    """Return whether Spark may push down every filter on a column.

    data_type: the name as in a table's schema. is_widened: whether older files may have another type.
    """
    name = "decimal" if _DECIMAL.fullmatch(data_type) else data_type
    return name in EVERY_OPERATOR and not is_widened and mode != "id"


def pushed_conditions(condition: exp.Expr, columns: TableColumns) -> Iterator[str]:
    """Yield conditions to push down, as SQL over the columns of data files.

    Every row that meets `condition` also meets them. Only comparisons of a listed column with a constant yield
    conditions.
    """
    if columns.mapping_mode == "id":
        return
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.Between) and has_only(condition, "this", "low", "high"):
        yield from _bound(condition.this, ">=", condition.args["low"], columns)
        yield from _bound(condition.this, "<=", condition.args["high"], columns)
    elif isinstance(condition, (*_LOW, *_HIGH)) and has_only(condition, "this", "expression"):
        left, right = condition.this, condition.expression
        if isinstance(condition, _LOW):
            yield from _bound(left, ">=", right, columns)
            yield from _bound(right, "<=", left, columns)
        if isinstance(condition, _HIGH):
            yield from _bound(left, "<=", right, columns)
            yield from _bound(right, ">=", left, columns)


def _bound(column_node: exp.Expr, operator: str, value_node: exp.Expr, columns: TableColumns) -> Iterator[str]:
    column, value = column_of(column_node, columns), value_of(value_node)
    if column is None or value is None or not _is_with_margin(column) or value.kind not in _KINDS[column.data_type]:
        return
    if column.path[0] in columns.with_shared_paths:
        return
    kind = sql_type(column.data_type)
    constant = f"try_cast({value.sql} as {kind})"
    margin = f"{'-' if operator == '>=' else ''}{WITH_MARGIN[column.data_type][0]}"
    end = f"cast(try_add({constant}, {margin}) as {kind})"
    name = ".".join(map(quoted, column.physical_path))
    # After the first OR, there are only constants: Spark evaluates them before it reads.
    yield f"({name} {operator} {end} or {end} is null or {constant} < {_SINCE})"


def _is_with_margin(column: TableColumn) -> bool:
    return column.data_type in WITH_MARGIN and not column.is_partition and not column.is_widened
