"""Converts a predicate over rows to predicates over files. Pure functions from text and schema to text.

A predicate over files is true if a file may contain a row for which the predicate over rows is true. It is false if it
cannot, and null if unknown. A file is kept unless the predicate is false. NOT is first moved down to the comparisons,
so that AND and OR of such predicates are correct. Delta's `PartitionFiltering` and `DataSkippingReader`.

Source: PROTOCOL.md, Per-file Statistics; Partition Value Serialization.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from operator import itemgetter

from sqlglot import exp

from deltasnap_core.rules.texts.sql_text import string_sql
from deltasnap_core.rules.texts.statistics_schema import StatisticPath, text_schema
from deltasnap_core.scan.predicates.filter_pushdown import pushed_conditions
from deltasnap_core.scan.predicates.predicate import Conjunct, column_of, has_only, parse_predicate
from deltasnap_core.scan.predicates.predicate_values import PredicateValue, value_of
from deltasnap_core.scan.predicates.spark_text import spark_text
from deltasnap_core.scan.skipping.bounds import Bounds, bounds_of, decimal_digits
from deltasnap_core.scan.skipping.file_sql import NEVER, FileSql, all_of, any_of
from deltasnap_core.scan.skipping.partition_values import is_malformed, is_misspelled, partition_value
from deltasnap_core.scan.table_columns import TableColumns

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
    is_exact:    whether `partitions` is the whole predicate: it is true for all rows of a file, or for none.
    sure:        the same without conditions that Spark may fail to evaluate, for example when it casts the text of a
                 partition to a number; None: there are none.
    pushed:      conditions on rows that Spark may push down into data files, as SQL over their columns.
    """

    partitions: str | None = None
    statistics: str | None = None
    statistics_read: frozenset[StatisticPath] = frozenset()
    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    is_exact: bool = False
    pushed: tuple[str, ...] = ()
    sure: Skipping | None = None

    @property
    def schema(self) -> str | None:
        """The type of `s` for `from_json`; None: no statistics are read."""
        return text_schema(self.statistics_read) if self.statistics_read else None


def skipping_of(where: str, columns: TableColumns) -> Skipping:
    """Return the file conditions for a predicate over the rows of a table; none if it cannot be parsed.

    Errors: PredicateError.
    """
    try:
        return _skipping_of(where, columns)
    except RecursionError:
        return Skipping(unused=(where,))


def _skipping_of(where: str, columns: TableColumns) -> Skipping:
    # The meaning of a backslash in a string depends on the session: no string constant is reliable.
    strings_are_sure = "\\" not in where
    conjuncts = parse_predicate(where, columns)
    if not conjuncts:
        return Skipping(unused=(where,))
    pushed = [text for conjunct in conjuncts for text in pushed_conditions(conjunct.tree, columns)]
    nothing = Skipping(pushed=tuple(pushed) if strings_are_sure else ())
    selections = [_selection(each, columns, strings_are_sure, may_fail=True) for each in conjuncts]
    found = _selecting(nothing, selections, columns)
    if not any(each.may_fail for each in selections):
        return found
    sure = [_selection(each, columns, strings_are_sure, may_fail=False) for each in conjuncts]
    return replace(found, sure=_selecting(nothing, sure, columns))


def _selecting(nothing: Skipping, selections: Sequence[_Selection], columns: TableColumns) -> Skipping:
    """Return `nothing` with the conditions of selections."""
    partitions = _unless_malformed(all_of(each.partitions for each in selections), columns)
    statistics = _unless_malformed(all_of(each.statistics for each in selections), columns)
    return replace(
        nothing,
        partitions=None if partitions is None else partitions.text,
        statistics=None if statistics is None else statistics.text,
        statistics_read=frozenset() if statistics is None else statistics.statistics,
        used=tuple(each.text for each in selections if each.is_used),
        unused=tuple(each.text for each in selections if not each.is_used),
        is_exact=all(each.is_exact for each in selections),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Selection:
    """How a condition of the predicate selects files. is_exact: as in Skipping.

    may_fail: whether Spark may fail to evaluate it.
    """

    text: str
    partitions: FileSql | None
    statistics: FileSql | None
    is_exact: bool = False
    may_fail: bool = False

    @property
    def is_used(self) -> bool:
        return self.partitions is not None or self.statistics is not None


def _selection(conjunct: Conjunct, columns: TableColumns, strings_are_sure: bool, *, may_fail: bool) -> _Selection:
    over_partitions = _Rewriter(columns, strings_are_sure, with_statistics=False).rewritten(conjunct.tree)
    # A text that was rewritten completely has only comparisons that cannot fail.
    cannot_fail = over_partitions is not None and over_partitions.is_whole
    exact = _exact(conjunct)
    if exact is not None and (may_fail or cannot_fail):
        return _Selection(
            text=conjunct.text, partitions=exact, statistics=None, is_exact=True, may_fail=not cannot_fail
        )
    found = _Rewriter(columns, strings_are_sure, with_statistics=True).rewritten(conjunct.tree)
    statistics = None if found == over_partitions else found
    return _Selection(text=conjunct.text, partitions=over_partitions, statistics=statistics)


def _unless_malformed(condition: FileSql | None, columns: TableColumns) -> FileSql | None:
    """Return a condition that keeps files with invalid partition values, or none: reading them raises the error."""
    if condition is None:
        return None
    named = [column for column in columns.partition if column in condition.partitions]
    tests = [*map(is_misspelled, named), *(found for column in named if (found := is_malformed(column)) is not None)]
    return any_of([*(FileSql(text=test) for test in tests), condition])


def _exact(conjunct: Conjunct) -> FileSql | None:
    """Return the SQL for a condition over partition columns only: the caller's text, with the values inserted."""
    read = frozenset(column for _, _, column in conjunct.columns)
    if not conjunct.is_plain or not all(column.is_partition for column in read):
        return None
    values = {column: partition_value(column) for column in read}
    if None in values.values():
        return None
    sql = conjunct.with_columns({column: f"({value})" for column, value in values.items()})
    return FileSql(text=f"coalesce(({spark_text(sql)}), false)", partitions=read)


@dataclass(frozen=True, slots=True)
class _Rewriter:
    """Rewrites conditions over rows to conditions over files.

    with_statistics: False: use only partition values.
    """

    columns: TableColumns
    strings_are_sure: bool
    with_statistics: bool

    def rewritten(self, node: exp.Expr, negated: bool = False) -> FileSql | None:
        """Return the predicate over files for one over rows, or for its negation; None: no condition."""
        if not has_only(node, *_PARTS):
            return None
        if isinstance(node, exp.Paren):
            return self.rewritten(node.this, negated)
        if isinstance(node, exp.Not):
            return self.rewritten(node.this, not negated)
        if isinstance(node, (exp.And, exp.Or)):
            parts = [self.rewritten(part, negated) for part in node.flatten(unnest=False)]
            return all_of(parts) if isinstance(node, exp.And) is not negated else any_of(parts)
        if isinstance(node, exp.Between):
            low = self._comparison(node.this, ">=", node.args["low"], negated)
            high = self._comparison(node.this, "<=", node.args["high"], negated)
            return any_of([low, high]) if negated else all_of([low, high])
        if isinstance(node, exp.In):
            return self._in(node, negated)
        if isinstance(node, exp.Is):
            return self._is(node, negated)
        if isinstance(node, (exp.Like, exp.StartsWith)):
            return self._prefix(node, negated is not bool(node.args.get("negate")))
        return self._other(node, negated)

    def _other(self, node: exp.Expr, negated: bool) -> FileSql | None:
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

    def _comparison(self, left: exp.Expr, operator: str, right: exp.Expr, negated: bool) -> FileSql | None:
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

    def _in(self, node: exp.In, negated: bool) -> FileSql | None:
        items = node.expressions
        if not items or not self._is_of_one_type(node):
            return None
        if len(items) > _MAX_ALTERNATIVES:
            return None if negated else self._within(node.this, items)
        each = [self._comparison(node.this, "=", item, negated) for item in items]
        return all_of(each) if negated else any_of(each)

    def _within(self, left: exp.Expr, items: Sequence[exp.Expr]) -> FileSql | None:
        """Return the condition that a value lies between the least and the greatest of many numbers or strings."""
        known = [(value_of(item), item) for item in items]
        ordered = [(_order(value), item) for value, item in known if value is not None and value.kind != "null"]
        if not ordered or any(key is None for key, _ in ordered):
            return None
        low, high = (choose(ordered, key=itemgetter(0))[1] for choose in (min, max))
        # No new node around them: that would move them out of the tree of the predicate.
        return all_of(
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

    def _is(self, node: exp.Is, negated: bool) -> FileSql | None:
        if isinstance(node.expression, exp.Null):
            return self._comparison(node.this, "<!>" if negated else "<=>", node.expression, negated=False)
        if isinstance(node.expression, exp.Boolean) and not negated:
            # IS TRUE and IS FALSE exclude null: the same as the condition itself, or its negation.
            return self.rewritten(node.this, not node.expression.this)
        return None

    def _prefix(self, node: exp.Like | exp.StartsWith, negated: bool) -> FileSql | None:
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
        is_sure = self.strings_are_sure or value is None or value.kind in ("null", "boolean", "number")
        return value if is_sure else None

    def _bounds(self, node: exp.Expr) -> Bounds | None:
        target = None
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Cast) and has_only(node, "this", "to"):
            node, target = node.this, node.args["to"].sql(dialect="spark").lower()
        elif isinstance(node, exp.TsOrDsToDate) and has_only(node, "this", "safe"):
            node, target = node.this, "date"
        column = column_of(node, self.columns)
        if column is None or not (column.is_partition or self.with_statistics):
            return None
        return bounds_of(column, target)


def _order(value: PredicateValue) -> Decimal | bytes | None:
    """Return a key that orders plain numbers or strings as Spark does; None: the value is neither."""
    if value.kind == "number":
        return Decimal(value.sql.strip("()")) if _PLAIN_NUMBER.fullmatch(value.sql) else None
    return None if value.text is None else value.text.encode(errors="surrogatepass")
