"""The constants of a predicate, as generated SQL with the same meaning in Spark. No Spark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from deltasnap_core.rules.texts.sql_text import string_sql
from deltasnap_core.scan.predicates.predicate import has_only, is_current_time

ValueKind = Literal["null", "boolean", "number", "string", "date", "timestamp", "timestamp_ntz"]

_KINDS: dict[exp.DType, ValueKind] = {
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}
_NUMBERS: dict[exp.DType, str] = {
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "float",
    exp.DType.DOUBLE: "double",
}
_MAX_LONG = (1 << 63) - 1
_MAX_NEGATED_DIGITS = 34
"""Spark rounds a decimal of more digits when it negates it. It negates no literal, but it negates a cast."""

_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateValue:
    """A constant: its kind, its SQL and, for a string, its text.

    is_cast: whether the SQL may be null where the original has another value or raises an error.
    """

    kind: ValueKind
    sql: str
    text: str | None = None
    is_cast: bool = False

    @property
    def is_beyond_long(self) -> bool:
        """Whether it is a number with more digits before the decimal point than a bigint can hold."""
        digits = re.search(r"0*(\d+)", self.sql) if self.kind == "number" else None
        # Python does not convert thousands of digits to a number.
        return digits is not None and (len(digits[1]) > len(str(_MAX_LONG)) or int(digits[1]) > _MAX_LONG)


def value_of(node: exp.Expr) -> PredicateValue | None:
    """Return the constant of a node; None: not a constant, or one that Spark may interpret differently."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Null):
        return PredicateValue(kind="null", sql="null")
    if isinstance(node, exp.Boolean):
        return PredicateValue(kind="boolean", sql="true" if node.this else "false")
    if isinstance(node, exp.Neg):
        number = value_of(node.this)
        if number is None or number.kind != "number" or len(re.findall(r"\d", number.sql)) > _MAX_NEGATED_DIGITS:
            return None
        return PredicateValue(kind="number", sql=f"(-{number.sql})", is_cast=number.is_cast)
    if isinstance(node, exp.Literal):
        return _literal(node)
    return _typed(node) if isinstance(node, exp.Cast) else None


def _literal(node: exp.Literal) -> PredicateValue | None:
    if node.is_string:
        if is_current_time(node):
            return None
        return PredicateValue(kind="string", sql=string_sql(node.name), text=node.name)
    return PredicateValue(kind="number", sql=node.name) if _NUMBER.fullmatch(node.name) else None


def _typed(node: exp.Cast) -> PredicateValue | None:
    inner = node.this
    if not isinstance(inner, exp.Literal) or is_current_time(inner) or not has_only(node, "this", "to"):
        return None
    target = node.to.this
    if inner.is_string and target in _KINDS:
        kind = _KINDS[target]
        return PredicateValue(kind=kind, sql=f"try_cast({string_sql(inner.name)} as {kind})", is_cast=True)
    if not _NUMBER.fullmatch(inner.name):
        return None
    if target is exp.DType.DECIMAL and node.to.expressions:
        places = ",".join(part.name for part in node.to.expressions)
        return PredicateValue(kind="number", sql=f"try_cast({inner.name} as decimal({places}))", is_cast=True)
    if not inner.is_string and target in _NUMBERS:
        return PredicateValue(kind="number", sql=f"try_cast({inner.name} as {_NUMBERS[target]})", is_cast=True)
    return None
