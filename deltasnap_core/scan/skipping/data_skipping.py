"""Converts a predicate over rows to predicates over files. Pure functions from text and schema to text.

A predicate over files is true if a file may contain a row for which the predicate over rows is true. It is false if it
cannot, and null if unknown. A file is kept unless the predicate is false. NOT is first moved down to the comparisons,
so that AND and OR of such predicates are correct. Delta's `PartitionFiltering` and `DataSkippingReader`.

Source: PROTOCOL.md, Per-file Statistics; Partition Value Serialization.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import itemgetter

from sqlglot import exp

from deltasnap_core.rules.texts.sql_text import string_sql
from deltasnap_core.rules.texts.statistics_schema import StatisticPath, text_schema
from deltasnap_core.scan.predicates.filter_pushdown import pushed_conditions
from deltasnap_core.scan.predicates.predicate import Conjunct, column_of, has_only, parse_predicate
from deltasnap_core.scan.predicates.predicate_values import PredicateValue, value_of
from deltasnap_core.scan.predicates.spark_text import spark_text
from deltasnap_core.scan.skipping.bounds import Bounds, bounds_of, decimal_digits, statistic
from deltasnap_core.scan.skipping.partition_values import is_malformed, is_misspelled, partition_value, text_of
from deltasnap_core.scan.table_columns import TableColumns

NEVER = "false"
_NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<", "<=>": "<!>", "<!>": "<=>"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.EqualNull: "<=>",
}  # fmt: skip
_PARTS = ("this", "expression", "expressions", "low", "high", "negate")
_NULL_TESTS = ("isnull", "isnotnull")
_MAX_ALTERNATIVES = 200
_MAX_DIGITS = 38
_PLAIN_NUMBER = re.compile(r"\(?-?(\d+)(?:\.(\d*))?\)?")
_PLAIN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipping:
    """The file conditions of a predicate; None: no condition.

    partitions:  SQL over the column `partitionValues` of AddFile. Never null.
    statistics:  SQL over `s`, the statistics of a file in the type `schema`, and over `partitionValues`.
    statistics_read: the statistics that this SQL reads.
    used, unused: the parts of the predicate, as the caller wrote them, that select files, and those that cannot.
    may_fail:    whether Spark may fail to evaluate `partitions`, for example when it casts a text to a number.
    pushed:      conditions on rows that Spark may push down into data files, as SQL over their columns.
    """

    partitions: str | None = None
    statistics: str | None = None
    statistics_read: frozenset[StatisticPath] = frozenset()
    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    may_fail: bool = False
    pushed: tuple[str, ...] = ()

    @property
    def schema(self) -> str | None:
        """The type of `s` for `from_json`; None: no statistics are read."""
        return text_schema(self.statistics_read) if self.statistics_read else None


def skipping_of(where: str, columns: TableColumns, *, may_fail: bool = True) -> Skipping:
    """Return the file conditions for a predicate over the rows of a table.

    may_fail: False: leave out conditions that may fail, see Skipping.
    Errors: PredicateError.
    """
    try:
        return _skipping_of(where, columns, may_fail=may_fail)
    except RecursionError:
        return Skipping(unused=(where,))


def _skipping_of(where: str, columns: TableColumns, *, may_fail: bool) -> Skipping:
    # The meaning of a backslash in a string depends on the session: no string constant is reliable.
    strings_are_sure = "\\" not in where
    partitions: list[str] = []
    statistics: list[str] = []
    used: list[str] = []
    unused: list[str] = []
    pushed: list[str] = []
    over_statistics = _Rewriting(columns, strings_are_sure, with_statistics=True)
    any_may_fail = False
    for conjunct in parse_predicate(where, columns):
        over_partitions = _Rewriting(columns, strings_are_sure, with_statistics=False)
        by_partition, by_statistics = over_partitions.rewritten(conjunct.tree), None
        exact = _exact(conjunct)
        # A text that was rewritten completely has only comparisons that cannot fail.
        if exact is not None and (may_fail or over_partitions.is_complete):
            by_partition, any_may_fail = exact, any_may_fail or not over_partitions.is_complete
        else:
            by_statistics = over_statistics.rewritten(conjunct.tree)
            by_statistics = None if by_statistics == by_partition else by_statistics
        partitions += [by_partition] if by_partition is not None else []
        if by_statistics is not None:
            statistics.append(by_statistics)
        pushed += pushed_conditions(conjunct.tree, columns) if strings_are_sure else ()
        (unused if by_partition is None and by_statistics is None else used).append(conjunct.text)
    sql = _unless_malformed(_and(statistics), columns)
    read = {path for path in over_statistics.statistics_read if statistic(*path) in (sql or "")}
    return Skipping(
        partitions=_unless_malformed(_and(partitions), columns),
        statistics=sql,
        statistics_read=frozenset(read),
        used=tuple(used),
        unused=tuple(unused),
        may_fail=any_may_fail,
        pushed=tuple(pushed),
    )


def _unless_malformed(condition: str | None, columns: TableColumns) -> str | None:
    """Return a condition that keeps files with invalid partition values, or none: reading them raises the error."""
    if condition is None:
        return None
    named = [column for column in columns.partition if text_of(column) in condition]
    malformed = [is_malformed(column) for column in named]
    return _or([*map(is_misspelled, named), *(found for found in malformed if found is not None), condition])


def _exact(conjunct: Conjunct) -> str | None:
    """Return the SQL for a condition over partition columns only: the caller's text, with the values inserted."""
    if not conjunct.is_plain or not all(column.is_partition for _, _, column in conjunct.columns):
        return None
    values = {column: partition_value(column) for _, _, column in conjunct.columns}
    if None in values.values():
        return None
    sql = conjunct.with_columns({column: f"({value})" for column, value in values.items()})
    return f"coalesce(({spark_text(sql)}), false)"


class _Rewriting:
    """Rewrites conditions. Records the statistics that they read, and whether all could be rewritten.

    with_statistics: False: use only partition values.
    """

    def __init__(self, columns: TableColumns, strings_are_sure: bool, *, with_statistics: bool) -> None:
        self._columns = columns
        self._strings_are_sure = strings_are_sure
        self._with_statistics = with_statistics
        self.statistics_read: set[StatisticPath] = set()
        self.is_complete = True

    def rewritten(self, node: exp.Expr, negated: bool = False) -> str | None:
        """Return the predicate over files for one over rows, or for its negation; None: no condition."""
        return self._noted(self._rewritten(node, negated))

    def _noted(self, condition: str | None) -> str | None:
        """Return a condition. Record whether there is one."""
        self.is_complete &= condition is not None
        return condition

    def _rewritten(self, node: exp.Expr, negated: bool) -> str | None:
        if not has_only(node, *_PARTS):
            return None
        if isinstance(node, exp.Paren):
            return self.rewritten(node.this, negated)
        if isinstance(node, exp.Not):
            return self.rewritten(node.this, not negated)
        if isinstance(node, (exp.And, exp.Or)):
            parts = [self.rewritten(part, negated) for part in node.flatten(unnest=False)]
            return _and(parts) if isinstance(node, exp.And) is not negated else _or(parts)
        if isinstance(node, exp.Between):
            low = self._comparison(node.this, ">=", node.args["low"], negated)
            high = self._comparison(node.this, "<=", node.args["high"], negated)
            return _or([low, high]) if negated else _and([low, high])
        if isinstance(node, exp.In):
            return self._in(node, negated)
        if isinstance(node, exp.Is):
            return self._is(node, negated)
        if isinstance(node, (exp.Like, exp.StartsWith)):
            return self._prefix(node, negated is not bool(node.args.get("negate")))
        return self._other(node, negated)

    def _other(self, node: exp.Expr, negated: bool) -> str | None:
        if isinstance(node, exp.Boolean):
            return NEVER if node.this is negated else None
        if isinstance(node, exp.Null):
            return NEVER
        if isinstance(node, exp.Column):
            return self._comparison(node, "=", exp.Boolean(this=not negated), negated=False)
        if isinstance(node, exp.Anonymous) and node.name.lower() in _NULL_TESTS and len(node.expressions) == 1:
            operator = "<=>" if (node.name.lower() == _NULL_TESTS[0]) is not negated else "<!>"
            return self._comparison(node.expressions[0], operator, exp.Null(), negated=False)
        operator = _OPERATORS.get(type(node), "")
        return self._comparison(node.this, operator, node.expression, negated) if operator else None

    def _comparison(self, left: exp.Expr, operator: str, right: exp.Expr, negated: bool) -> str | None:
        return self._noted(self._compared(left, operator, right, negated))

    def _compared(self, left: exp.Expr, operator: str, right: exp.Expr, negated: bool) -> str | None:
        if value_of(left) is not None:
            left, right, operator = right, left, _MIRRORED.get(operator, operator)
        if negated:
            operator = _NEGATED[operator]
        value = self._value(right)
        bounds = None if value is None else self._bounds(left)
        if value is None or bounds is None:
            return None
        if value.kind == "null":
            if operator not in ("<=>", "<!>"):
                return NEVER
            return bounds.is_null() if operator == "<=>" else bounds.is_not_null()
        return bounds.compared(operator, value)

    def _in(self, node: exp.In, negated: bool) -> str | None:
        items = node.expressions
        if not items or not self._is_of_one_type(node):
            return None
        if len(items) > _MAX_ALTERNATIVES:
            return None if negated else self._within(node.this, items)
        each = [self._comparison(node.this, "=", item, negated) for item in items]
        return _and(each) if negated else _or(each)

    def _within(self, left: exp.Expr, items: Sequence[exp.Expr]) -> str | None:
        """Return the condition that a value lies between the least and the greatest of many numbers or strings."""
        known = [(value_of(item), item) for item in items]
        ordered = [(_order(value), item) for value, item in known if value is not None and value.kind != "null"]
        if not ordered or any(key is None for key, _ in ordered):
            return None
        low, high = (choose(ordered, key=itemgetter(0))[1] for choose in (min, max))
        # No new node around them: that would move them out of the tree of the predicate.
        return _and(
            [self._comparison(left, ">=", low, negated=False), self._comparison(left, "<=", high, negated=False)]
        )

    def _is_of_one_type(self, node: exp.In) -> bool:
        """Return whether IN compares as `=` does: Spark casts both sides of IN to the common type of all values."""
        found = [self._value(item) for item in node.expressions]
        values = [value for value in found if value is not None and value.kind != "null"]
        if None in found or len({value.kind for value in values}) > 1:
            return False
        if all(value.kind == "number" for value in values):
            return len(values) == 1 or self._fit_a_decimal(node.this, [value.sql for value in values])
        if not any(value.kind == "string" for value in values):
            return True
        bounds = self._bounds(node.this)
        if bounds is not None and bounds.data_type == "date":  # the common type may be string
            return all(_PLAIN_DATE.fullmatch(value.text or "") for value in values)
        return bounds is not None and bounds.data_type == "string"

    def _fit_a_decimal(self, left: exp.Expr, numbers: Sequence[str]) -> bool:
        """Return whether a decimal can have all digits of a column and of numbers: otherwise, IN rounds them."""
        found = [_PLAIN_NUMBER.fullmatch(number) for number in numbers]
        bounds = self._bounds(left)
        digits = [(0, 0) if bounds is None else decimal_digits(bounds.data_type)]
        digits += [(len(number[1]), len(number[2] or "")) for number in found if number is not None]
        return None not in found and sum(map(max, zip(*digits, strict=True))) <= _MAX_DIGITS

    def _is(self, node: exp.Is, negated: bool) -> str | None:
        if isinstance(node.expression, exp.Null):
            return self._comparison(node.this, "<!>" if negated else "<=>", node.expression, negated=False)
        if isinstance(node.expression, exp.Boolean) and not negated:
            # IS TRUE and IS FALSE exclude null: the same as the condition itself, or its negation.
            return self.rewritten(node.this, not node.expression.this)
        return None

    def _prefix(self, node: exp.Like | exp.StartsWith, negated: bool) -> str | None:
        value = self._value(node.expression)
        if value is None or value.text is None:
            return None
        bounds = self._bounds(node.this)
        if bounds is None:
            return None
        if bounds.data_type != "string":  # compares the text of the value, which two values may share
            return bounds.of_values(None)
        prefix, is_whole = value.text, isinstance(node, exp.StartsWith)
        if isinstance(node, exp.Like):
            end = min((prefix.find(wildcard) for wildcard in "%_" if wildcard in prefix), default=len(prefix))
            is_whole = prefix[end:] == "%"
            if end == len(prefix):
                return self._comparison(node.this, "=", node.expression, negated)
            prefix = prefix[:end]
        if not prefix or (negated and not is_whole):
            return bounds.of_values(None)
        return bounds.of_values(bounds.starting_with(string_sql(prefix), len(prefix), negated=negated))

    def _value(self, node: exp.Expr) -> PredicateValue | None:
        value = value_of(node)
        is_sure = self._strings_are_sure or value is None or value.kind in ("null", "boolean", "number")
        return value if is_sure else None

    def _bounds(self, node: exp.Expr) -> Bounds | None:
        target = None
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Cast) and has_only(node, "this", "to"):
            node, target = node.this, node.args["to"].sql(dialect="spark").lower()
        elif isinstance(node, exp.TsOrDsToDate) and has_only(node, "this", "safe"):
            node, target = node.this, "date"
        column = column_of(node, self._columns)
        if column is None or not (column.is_partition or self._with_statistics):
            return None
        bounds = bounds_of(column, target)
        if bounds is not None:
            self.statistics_read |= bounds.statistics_read
        return bounds


def _order(value: PredicateValue) -> Decimal | bytes | None:
    """Return a key that orders plain numbers or strings as Spark does; None: the value is neither."""
    if value.kind == "number":
        return Decimal(value.sql.strip("()")) if _PLAIN_NUMBER.fullmatch(value.sql) else None
    return None if value.text is None else value.text.encode(errors="surrogatepass")


def _and(parts: Iterable[str | None]) -> str | None:
    known = [part for part in parts if part is not None]
    return NEVER if NEVER in known else _joined(" and ", known)


def _or(parts: Iterable[str | None]) -> str | None:
    known = list(parts)
    if None in known:
        return None
    return _joined(" or ", [part for part in known if part is not None and part != NEVER]) or NEVER


def _joined(word: str, parts: list[str]) -> str | None:
    distinct = list(dict.fromkeys(parts))
    return f"({word.join(distinct)})" if len(distinct) > 1 else (distinct[0] if distinct else None)
