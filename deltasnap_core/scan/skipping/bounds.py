"""The bounds of a column's values in one file, as SQL: from its partition value, or from its statistics.

Statistics are bounds, not values. A bound that may be wrong is not used, or is widened:
- A maximum of a string may be cut short, or longer than any value: a value may start with it and be greater. Both
  bounds may be cut within a character: see `sure_text_sql`.
- A maximum of a timestamp is cut to milliseconds. Both bounds may be off by less than a minute if they have an offset
  other than UTC: historical offsets include seconds, which are not written.
- NaN is greater than every number, and not every writer counts it. So a maximum of a float does not exclude greater
  values, and a minimum that is NaN is ignored.
- Decimals of more than 15 digits may be rounded: see `bound_sql`. The bounds are decimals, since Spark rounds both
  sides of a comparison that needs more than 38 digits.
- Dates before 1582-10-15 and times before 1900 are not used: the rows may have others. Spark converts them to the
  Julian calendar if the session requires this (`spark.sql.parquet.datetimeRebaseModeInRead`).
- With a deletion vector, the statistics still cover all rows of the file: they remain bounds, and `nullCount` is an
  upper bound.
- In a nullable struct, `nullCount` may not count the rows without the struct.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from deltasnap_core.rules.texts.sql_text import SQL_TYPES, quoted, sql_type
from deltasnap_core.rules.texts.statistics_schema import StatisticPath, bound_sql, sure_text_sql
from deltasnap_core.scan.predicates.predicate_values import PredicateValue
from deltasnap_core.scan.skipping.partition_values import partition_value
from deltasnap_core.scan.table_columns import TableColumn

_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_NAMES = {sql: name for name, sql in SQL_TYPES.items()}
_LAST_SECONDS = "1972-01-07 00:45:00Z"  # Liberia's
_NO_VALUES = ("boolean", "binary", "collated")
_DECIMAL = re.compile(r"decimal\((\d{1,2})(?:,(\d{1,2}))?\)")
_DATED = ("date", "timestamp", "timestamp_ntz")


def statistic(kind: str, *path: str) -> str:
    """Return a statistic as SQL over `s`."""
    return ".".join(["s", kind, *map(quoted, path)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The lowest and the highest value of a column in a file, and the number of nulls; SQL, or None if unknown.

    data_type:    the type of the bounds, after a cast if there is one.
    counts_nulls: whether `nulls` counts every null.
    is_value:     whether both bounds are the single value of the file.
    statistics_read: the statistics that the SQL reads.
    """

    data_type: str
    lower: str | None
    upper: str | None
    nulls: str | None = None
    counts_nulls: bool = True
    is_value: bool = False
    statistics_read: frozenset[StatisticPath] = frozenset()

    def is_null(self) -> str | None:
        """Return a condition for files that may contain a null."""
        if self.is_value:
            return f"({self.lower} is null)"
        return f"({self.nulls} > 0)" if self.counts_nulls else None

    def is_not_null(self) -> str | None:
        """Return a condition for files that may contain a value."""
        return f"({self.lower} is not null)" if self.is_value else f"({self.nulls} < s.numRecords)"

    def of_values(self, condition: str | None, *, is_sure: bool = True) -> str | None:
        """Return a condition for files with values that may meet `condition`. A null does not meet it.

        is_sure: False: the condition may be null for a value; then the result is unknown.
        """
        if self.is_value:
            unknown = "false" if is_sure else self.is_not_null()
            return None if condition is None else f"coalesce({condition}, {unknown})"
        return self.is_not_null() if condition is None else f"({self.is_not_null()} and {condition})"

    def compared(self, operator: str, value: PredicateValue) -> str | None:
        """Return a condition for files that may contain a value for which the comparison with a constant is true.

        `<=>` is true for null if the constant is null. `<!>` is its opposite: different, or null.
        """
        is_null_safe = operator in ("<=>", "<!>")
        if self.data_type in _INTEGERS and value.is_beyond_long:
            return None  # Spark 4.3 evaluates `id < 9223372036854775808` to true, even if the id is null
        if not comparable(self.data_type, value):
            return None if is_null_safe else self.of_values(None)
        constant, is_sure = value.sql, not value.is_cast
        if value.kind == "string" and self.data_type in _DATED:
            constant, is_sure = f"try_cast({value.sql} as {sql_type(self.data_type)})", False
        condition = self._compared({"<=>": "=", "<!>": "!="}.get(operator, operator), constant, value)
        if operator == "<!>":
            is_null = self.is_null()
            return None if is_null is None or condition is None else f"({is_null} or {condition})"
        whole = self.of_values(condition, is_sure=is_sure)
        return whole if is_sure or whole is None or not is_null_safe else f"({constant} is null or {whole})"

    def _compared(self, operator: str, constant: str, value: PredicateValue) -> str | None:
        if self.is_value:
            return f"({self.lower} {operator} {constant})"
        conditions = {
            "=": _all(self._below(constant, "<="), self._above(constant, ">=", value)),
            "!=": self._differs(constant),
            "<": self._below(constant, "<"),
            "<=": self._below(constant, "<="),
            ">": None if self._may_hide_nan else self._above(constant, ">", value),
            ">=": None if self._may_hide_nan else self._above(constant, ">=", value),
        }
        return conditions[operator]

    def starting_with(self, prefix: str, length: int, *, negated: bool) -> str | None:
        """Return a condition for files that may contain a string with a prefix, or (negated) one without it."""
        if self.lower is None or self.upper is None:
            return None
        if self.is_value:
            return f"({'not ' if negated else ''}startswith({self.lower}, {prefix}))"
        if negated:
            return f"(not (startswith({self.lower}, {prefix}) and startswith({self._upper_prefix}, {prefix})))"
        low = f"left({self.lower}, {length}) <= {prefix}"
        return f"({low} and (left({self.upper}, {length}) >= {prefix} or startswith({prefix}, {self._upper_prefix})))"

    @property
    def _may_hide_nan(self) -> bool:
        return self.data_type in ("float", "double")

    def _below(self, constant: str, operator: str) -> str | None:
        return None if self.lower is None else f"({self.lower} {operator} {constant})"

    def _above(self, constant: str, operator: str, value: PredicateValue) -> str | None:
        if self.upper is None:
            return None
        above = f"{self.upper} {operator} {constant}"
        cut_short = self.data_type == "string" and value.kind == "string"
        return f"({above} or startswith({constant}, {self._upper_prefix}))" if cut_short else f"({above})"

    @property
    def _upper_prefix(self) -> str:
        """A prefix of the largest string, which may be greater than the upper bound."""
        return sure_text_sql(str(self.upper))

    def _differs(self, constant: str) -> str | None:
        if self.lower is None or self.upper is None or self.data_type == "string" or self._may_hide_nan:
            return None
        return f"({self.lower} < {constant} or {self.upper} > {constant})"


def bounds_of(column: TableColumn, cast_to: str | None = None) -> Bounds | None:
    """Return the bounds of a column in a file, or of the column cast to a type; None: unknown.

    A cast is supported if it keeps the order of the values.
    """
    found = _partition_bounds(column) if column.is_partition else _statistics(column)
    if found is None or cast_to is None:
        return found
    target = _NAMES.get(cast_to, cast_to.replace(" ", ""))
    return found if target == found.data_type else _cast(found, target)


def comparable(data_type: str, value: PredicateValue) -> bool:
    """Return whether Spark compares a column of a type with a constant in the order of the column's own values."""
    if data_type in _INTEGERS or data_type.startswith("decimal(") or data_type in ("float", "double"):
        return value.kind == "number"
    if data_type in ("string", "boolean"):
        return value.kind == data_type
    if data_type == "timestamp_ntz":
        return value.kind in ("string", "date", "timestamp_ntz")
    return data_type in _DATED and value.kind in ("string", *_DATED)


def decimal_digits(data_type: str) -> tuple[int, int]:
    """Return the digits before and after the point of a type, as Spark converts it to a decimal; 0 for other types."""
    digits = _DECIMAL.fullmatch(data_type)
    if digits is None:
        return _INTEGERS.get(data_type, 0), 0
    places = int(digits[2] or 0)
    return int(digits[1]) - places, places


def _partition_bounds(column: TableColumn) -> Bounds | None:
    value = partition_value(column)
    return None if value is None else Bounds(data_type=column.data_type, lower=value, upper=value, is_value=True)


def _statistics(column: TableColumn) -> Bounds | None:
    if not column.is_leaf:
        return None
    path = column.physical_path
    counts = frozenset({("numRecords",), ("nullCount", *path)})
    lower, upper = _typed_bounds(column)
    read = frozenset({("minValues", *path), ("maxValues", *path)}) if lower is not None else frozenset()
    return Bounds(
        data_type=column.data_type,
        lower=lower,
        upper=upper,
        nulls=_field("nullCount", column),
        counts_nulls=not column.in_nullable,
        statistics_read=counts | read,
    )


def _field(kind: str, column: TableColumn) -> str:
    return statistic(kind, *column.physical_path)


def _typed_bounds(column: TableColumn) -> tuple[str | None, str | None]:
    """Return the lowest and highest value."""
    low, high, kind = _field("minValues", column), _field("maxValues", column), column.data_type
    if column.was_float or kind in _NO_VALUES:
        return None, None
    lower, upper = bound_sql(low, kind, "minValues"), bound_sql(high, kind, "maxValues")
    if kind == "string":
        lower = sure_text_sql(low)
    if kind in _DATED:
        early = "1582-10-15" if kind == "date" else "1900-01-03"
        lower, upper = f"if({low} < '{early}', null, {lower})", f"if({high} < '{early}', null, {upper})"
    if kind == "timestamp":
        lower, upper = _with_seconds(lower, "-1"), _with_seconds(upper, "1")
    if kind in ("timestamp", "timestamp_ntz"):
        return lower, f"try_add({upper}, interval 1 millisecond)"
    return f"nullif({lower}, {kind}('NaN'))" if kind in ("float", "double") else lower, upper


def _with_seconds(bound: str | None, minute: str) -> str:
    is_old = f"{bound} < timestamp_ltz'{_LAST_SECONDS}'"
    return f"if({is_old}, try_add({bound}, interval '{minute}' minute), {bound})"


def _cast(bounds: Bounds, target: str) -> Bounds | None:
    if not _keeps_order(bounds.data_type, target):
        return None
    lower, upper = bounds.lower, bounds.upper
    if bounds.data_type == "timestamp" and not bounds.is_value:
        # If clocks are set back over midnight, a later time has an earlier date.
        lower, upper = f"try_add({lower}, interval '-3' hour)", f"try_add({upper}, interval '3' hour)"
    sql = [None if bound is None else f"try_cast({bound} as {sql_type(target)})" for bound in (lower, upper)]
    return replace(bounds, data_type=target, lower=sql[0], upper=sql[1])


def _keeps_order(source: str, target: str) -> bool:
    """Return whether a cast never makes a greater value smaller, and loses no value."""
    if source in _INTEGERS:
        if target in _INTEGERS:
            return _INTEGERS[source] <= _INTEGERS[target]
        if target.startswith("decimal("):
            return decimal_digits(target)[0] >= _INTEGERS[source]
        return target == "double"
    casts = {
        "float": ("double",),
        "date": ("timestamp", "timestamp_ntz"),
        "timestamp": ("date",),
        "timestamp_ntz": ("date",),
    }
    return target in casts.get(source, ())


def _all(*conditions: str | None) -> str | None:
    known = [condition for condition in conditions if condition is not None]
    return f"({' and '.join(known)})" if known else None
