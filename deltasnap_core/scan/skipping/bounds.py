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
from deltasnap_core.rules.texts.statistics_schema import bound_sql, sure_text_sql
from deltasnap_core.scan.predicates.predicate_values import PredicateValue
from deltasnap_core.scan.skipping.file_sql import FileSql, all_of, any_of, file_sql
from deltasnap_core.scan.skipping.partition_values import partition_value
from deltasnap_core.scan.table_columns import TableColumn

_INTEGERS = {"byte": 3, "short": 5, "integer": 10, "long": 20}
_NAMES = {sql: name for name, sql in SQL_TYPES.items()}
_LAST_SECONDS = "1972-01-07 00:45:00Z"  # Liberia's
_NO_VALUES = ("boolean", "binary", "collated")
_DECIMAL = re.compile(r"decimal\((\d{1,2})(?:,(\d{1,2}))?\)")
_DATED = ("date", "timestamp", "timestamp_ntz")
_RECORDS = FileSql(text="s.numRecords", statistics=frozenset({("numRecords",)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The lowest and the highest value of a column in a file, and the number of nulls; None if unknown.

    data_type:    the type of the bounds, after a cast if there is one.
    nulls:        None: both bounds are the single value of the file.
    counts_nulls: whether `nulls` counts every null.
    """

    data_type: str
    lower: FileSql | None
    upper: FileSql | None
    nulls: FileSql | None = None
    counts_nulls: bool = True

    @property
    def is_value(self) -> bool:
        """Whether both bounds are the single value of the file."""
        return self.nulls is None

    def is_null(self) -> FileSql | None:
        """Return a condition for files that may contain a null."""
        if self.is_value:
            return file_sql("({} is null)", self.lower)
        return file_sql("({} > 0)", self.nulls) if self.counts_nulls else None

    def is_not_null(self) -> FileSql | None:
        """Return a condition for files that may contain a value."""
        if self.is_value:
            return file_sql("({} is not null)", self.lower)
        return file_sql("({} < {})", self.nulls, _RECORDS)

    def of_values(self, condition: FileSql | None, *, is_sure: bool = True) -> FileSql | None:
        """Return a condition for files with values that may meet `condition`. A null does not meet it.

        is_sure: False: the condition may be null for a value; then the result is unknown.
        """
        if self.is_value:
            return file_sql("coalesce({}, {})", condition, "false" if is_sure else self.is_not_null())
        return all_of([self.is_not_null(), condition])

    def compared(self, operator: str, value: PredicateValue) -> FileSql | None:
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
            return any_of([self.is_null(), condition])
        whole = self.of_values(condition, is_sure=is_sure)
        return whole if is_sure or not is_null_safe else file_sql("({} is null or {})", constant, whole)

    def _compared(self, operator: str, constant: str, value: PredicateValue) -> FileSql | None:
        if self.is_value:
            return self._below(operator, constant)
        conditions = {
            "=": all_of([self._below("<=", constant), self._above(">=", constant, value)]),
            "!=": self._differs(constant),
            "<": self._below("<", constant),
            "<=": self._below("<=", constant),
            ">": None if self._may_hide_nan else self._above(">", constant, value),
            ">=": None if self._may_hide_nan else self._above(">=", constant, value),
        }
        return conditions[operator]

    def starting_with(self, prefix: str, length: int, *, negated: bool) -> FileSql | None:
        """Return a condition for files that may contain a string with a prefix, or (negated) one without it."""
        if self.is_value:
            return file_sql("({}startswith({}, {}))", "not " if negated else "", self.lower, prefix)
        if negated:
            both = "startswith({0}, {1}) and startswith({2}, {1})"
            return file_sql(f"(not ({both}))", self.lower, prefix, self._upper_prefix)
        low = file_sql("left({}, {}) <= {}", self.lower, str(length), prefix)
        high = file_sql("left({}, {}) >= {}", self.upper, str(length), prefix)
        return file_sql("({} and ({} or startswith({}, {})))", low, high, prefix, self._upper_prefix)

    @property
    def _may_hide_nan(self) -> bool:
        return self.data_type in ("float", "double")

    def _below(self, operator: str, constant: str) -> FileSql | None:
        return file_sql("({} {} {})", self.lower, operator, constant)

    def _above(self, operator: str, constant: str, value: PredicateValue) -> FileSql | None:
        above = file_sql("({} {} {})", self.upper, operator, constant)
        if self.data_type != "string" or value.kind != "string":
            return above
        return any_of([above, file_sql("startswith({}, {})", constant, self._upper_prefix)])

    @property
    def _upper_prefix(self) -> FileSql | None:
        """A prefix of the largest string, which may be greater than the upper bound."""
        return None if self.upper is None else replace(self.upper, text=sure_text_sql(self.upper.text))

    def _differs(self, constant: str) -> FileSql | None:
        if self.data_type == "string" or self._may_hide_nan:
            return None
        return file_sql("({0} < {1} or {2} > {1})", self.lower, constant, self.upper)


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
    text = partition_value(column)
    value = None if text is None else FileSql(text=text, partitions=frozenset({column}))
    return None if value is None else Bounds(data_type=column.data_type, lower=value, upper=value)


def _statistics(column: TableColumn) -> Bounds | None:
    if not column.is_leaf:
        return None
    low, high, nulls = (_statistic(kind, column) for kind in ("minValues", "maxValues", "nullCount"))
    lower, upper = _typed_bounds(column, low.text, high.text)
    return Bounds(
        data_type=column.data_type,
        lower=None if lower is None else replace(low, text=lower),
        upper=None if upper is None else replace(high, text=upper),
        nulls=nulls,
        counts_nulls=not column.in_nullable,
    )


def _statistic(kind: str, column: TableColumn) -> FileSql:
    path = (kind, *column.physical_path)
    return FileSql(text=".".join(["s", kind, *map(quoted, column.physical_path)]), statistics=frozenset({path}))


def _typed_bounds(column: TableColumn, low: str, high: str) -> tuple[str | None, str | None]:
    """Return SQL for the lowest and highest value. low, high: SQL for the statistics, which are texts."""
    kind = column.data_type
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
    cast = f"try_cast({{}} as {sql_type(target)})"
    lower, upper = bounds.lower, bounds.upper
    if bounds.data_type == "timestamp" and not bounds.is_value:
        # If clocks are set back over midnight, a later time has an earlier date.
        lower = file_sql("try_add({}, interval '-3' hour)", lower)
        upper = file_sql("try_add({}, interval '3' hour)", upper)
    return replace(bounds, data_type=target, lower=file_sql(cast, lower), upper=file_sql(cast, upper))


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
