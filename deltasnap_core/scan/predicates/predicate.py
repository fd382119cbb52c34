"""Parses the predicate of a scan, Spark SQL text, and splits it into the conditions joined by AND. No Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import Token, TokenType, exp
from sqlglot.dialects import Spark

from deltasnap_core.errors import PredicateError
from deltasnap_core.scan.predicates.predicate_limits import (
    CLOSING,
    OPENING,
    check_size,
    check_tokens,
    check_untokenized,
)
from deltasnap_core.scan.table_columns import TableColumn, TableColumns

_NOT_OF_ROWS = {
    exp.Query: "a query",
    exp.AggFunc: "an aggregate",
    exp.Window: "a window function",
    exp.Star: "a star",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Explode: "a generator",
}
# Parents below which sqlglot recognizes columns reliably. Others may be functions that are unknown to it.
_KNOWN_PARENTS = (
    exp.Predicate, exp.Connector, exp.Not, exp.Paren, exp.Cast, exp.Tuple, exp.Dot, exp.Binary, exp.Neg
)  # fmt: skip
_CURRENT_TIMES = ("now", "today", "tomorrow", "yesterday")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conjunct:
    """One of the conditions that a predicate joins with AND.

    text:     as the caller wrote it.
    tree:     the parsed text.
    columns:  the columns, each with the begin and end of its position in the text.
    is_plain: whether `tree` has only comparisons and deterministic functions, so that `text` can be evaluated once for
              a whole partition instead of for its rows.
    """

    text: str
    tree: exp.Expr
    columns: tuple[tuple[int, int, TableColumn], ...]
    is_plain: bool

    def with_columns(self, replacements: dict[TableColumn, str]) -> str:
        """Return the text with each column replaced by other SQL."""
        text = self.text
        for begin, end, column in sorted(self.columns, key=lambda found: found[0], reverse=True):
            text = f"{text[:begin]}{replacements[column]}{text[end:]}"
        return text


def parse_predicate(where: str, columns: TableColumns) -> tuple[Conjunct, ...]:
    """Return the conditions of a predicate. Joined by AND, they are equivalent to it.

    Empty if the parser rejects the text: Spark decides whether it is valid.
    Column names are case-insensitive; fields of structs are written with dots.
    Errors: PredicateError (a ValueError) if it is not a predicate over the columns, or exceeds a limit; with the
    position, if known.
    """
    check_size(where)
    try:
        where.encode()
    except UnicodeEncodeError as error:
        raise PredicateError(
            predicate=where, position=error.start, reason="expected text, found half of a character"
        ) from error
    tokens = _tokens(where)
    conditions = [] if tokens is None else _conditions(where, tokens)
    for _, tree in conditions:
        _check(where, tree, columns)
    return tuple(_conjunct(where, tokens, tree, columns) for tokens, tree in conditions)


def column_of(node: exp.Expr, columns: TableColumns) -> TableColumn | None:
    """Return the column that a node names; None: it is not a column of the table."""
    names = _names(node)
    return None if names is None else columns.resolve(names)


def has_only(node: exp.Expr, *names: str) -> bool:
    """Return whether a node has only these parts. An unknown part may invert its meaning."""
    return not any(value for name, value in node.args.items() if name not in names)


def is_current_time(node: exp.Expr) -> bool:
    """Return whether a node is a text that Spark interprets relative to the current time.

    For example `date'today'`; a time zone may follow.
    """
    words = node.name.lower().split() if node.is_string else []
    return bool(words) and words[0] in _CURRENT_TIMES


def _tokens(where: str) -> list[Token] | None:
    """Return the tokens of a text, after checking the limits; None: sqlglot cannot split it."""
    try:
        tokens: list[Token] = Spark().tokenize(where)
    except Exception:  # noqa: BLE001  # sqlglot may fail on text that Spark accepts
        check_untokenized(where)
        return None
    check_tokens(where, tokens)
    return tokens


def _conditions(where: str, tokens: Sequence[Token]) -> list[tuple[Sequence[Token], exp.Expr]]:
    """Return the tokens of each condition, and the parsed condition; one condition if the text cannot be divided.

    Empty: it cannot be parsed.
    """
    parts = _divided(tokens)
    trees = [_parse(where, part) for part in parts]
    # A column named like a bracket, such as `end`, hides an OR, which AND must not divide.
    if any(tree is None or (len(trees) > 1 and isinstance(tree, exp.Or)) for tree in trees):
        parts, trees = [tokens], [_parse(where, tokens)]
    return [(part, tree) for part, tree in zip(parts, trees, strict=True) if tree is not None]


def _parse(where: str, tokens: Sequence[Token]) -> exp.Expr | None:
    """Return one condition; None: it is none, or sqlglot cannot parse it."""
    try:
        parsed: list[exp.Expr | None] = Spark().parser().parse_into(exp.Condition, list(tokens), where)
    except Exception:  # noqa: BLE001  # sqlglot may fail on text that Spark accepts
        return None
    (tree,) = parsed if len(parsed) == 1 else (None,)
    return None if isinstance(tree, (exp.DDL, exp.DML, exp.Command, exp.Query, exp.Block, exp.Alias)) else tree


def _check(where: str, tree: exp.Expr, columns: TableColumns) -> None:
    """Raise PredicateError for what cannot be in a predicate over the columns."""
    for node in tree.walk():
        for kind, name in _NOT_OF_ROWS.items():
            if isinstance(node, kind):
                raise PredicateError(predicate=where, position=_place(node), reason=f"{name} cannot be used here")
        if isinstance(node, exp.Column) and isinstance(node.parent, (*_KNOWN_PARENTS, type(None))):
            _check_known(where, node, columns)


def _check_known(where: str, node: exp.Column, columns: TableColumns) -> None:
    if node.find_ancestor(exp.Lambda, exp.Anonymous):
        return
    whole = node
    while isinstance(whole.parent, exp.Dot) and whole.parent.this is whole:
        whole = whole.parent  # type: ignore[assignment]
    names = _names(whole) or [node.name]
    if not columns.may_name(names):
        known = ", ".join(column.name for column in columns.top)
        reason = f"the table has no column {'.'.join(names)}; it has {known}"
        raise PredicateError(predicate=where, position=_place(node), reason=reason)


def _names(node: exp.Expr) -> list[str] | None:
    if isinstance(node, exp.Column):
        return [part.name for part in node.parts]
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        inner = _names(node.this)
        return None if inner is None else [*inner, node.expression.name]
    return None


def _place(node: exp.Expr) -> int | None:
    starts = [part.meta["start"] for part in node.find_all(exp.Identifier) if "start" in part.meta]
    return min(starts, default=None)


def _conjunct(where: str, tokens: Sequence[Token], tree: exp.Expr, columns: TableColumns) -> Conjunct:
    """Return a condition. tree: the parsed tokens, with their positions in the predicate."""
    # From the first token to the last: a comment at the end would hide the SQL that is appended.
    start, end = tokens[0].start, tokens[-1].end + 1
    tree = _unnested(tree)
    found: list[tuple[int, int, TableColumn]] = []
    is_plain = all(isinstance(node, _PLAIN) and not is_current_time(node) for node in tree.walk())
    for node in tree.find_all(exp.Column, exp.Dot):
        if isinstance(node.parent, exp.Dot):
            continue
        column = column_of(node, columns)
        places = [part.meta for part in node.find_all(exp.Identifier) if "start" in part.meta]
        if column is None or not places:
            is_plain = False
        else:
            begin = min(place["start"] for place in places)
            found.append((begin - start, max(place["end"] for place in places) + 1 - start, column))
    return Conjunct(text=where[start:end], tree=tree, columns=tuple(found), is_plain=is_plain)


def _unnested(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _divided(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Return the tokens of the conditions joined by AND outside of brackets; all tokens, if there is an OR."""
    depth, betweens, joints = 0, 0, [-1]
    for place, token in enumerate(tokens):
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth:
            continue
        if token.token_type is TokenType.OR:
            return [tokens]
        if token.token_type is TokenType.BETWEEN:
            betweens += 1
        elif token.token_type is TokenType.AND and betweens:
            betweens -= 1
        elif token.token_type is TokenType.AND:
            joints.append(place)
    return [tokens[before + 1 : after] for before, after in pairwise([*joints, len(tokens)])]


# Comparisons, and functions that have no state, do not depend on the time or on session settings, and are known to
# sqlglot.
_PLAIN = (
    exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.EqualNull, exp.LT, exp.LTE, exp.GT,
    exp.GTE, exp.In, exp.Between, exp.Is, exp.Like, exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean,
    exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Upper, exp.Lower,
    exp.StartsWith, exp.EndsWith, exp.Contains, exp.Length, exp.Substring, exp.Coalesce, exp.Year, exp.Month, exp.Day,
    exp.TsOrDsToDate, exp.Abs, exp.RegexpLike, exp.Case, exp.If, exp.Concat, exp.Trim, exp.DateAdd, exp.Interval,
    exp.Var, exp.Tuple, exp.HexString,
)  # fmt: skip
