"""Limits on the text of a predicate, checked before sqlglot or Spark parses it. No Spark.

A predicate is untrusted input. Parsers and optimizers are recursive: a deeply nested text overflows their stack, and a
very large one takes minutes. Functions of Spark call methods of the JVM, and a query reads any file. Spark decides
whether a text is valid that sqlglot cannot parse, so these are found in its tokens.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import Token, TokenType

from deltasnap_core.errors import PredicateError

MAX_CHARACTERS = 256 * 1024
"""Enough for a list of several thousand values."""

MAX_CONDITIONS = 1_000
"""Conditions joined by AND and OR, or branches of CASE. Spark's optimizer takes minutes for several thousand."""

MAX_DEPTH = 100
"""Levels of nested brackets, CASE and operators. Spark's stack overflows at about 300 nested function calls."""

OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_JOINING = frozenset({TokenType.AND, TokenType.OR, TokenType.WHEN})
_SEPARATING = _JOINING | {TokenType.COMMA, TokenType.THEN, TokenType.ELSE}
_CALLS_JAVA = frozenset({"reflect", "try_reflect", "java_method", "identifier"})
"""Functions that call a method of the JVM. `identifier` calls a function whose name is a text."""
_BEGINS_QUERY = frozenset({"select", "table", "from", "with", "values"})
"""Words that begin a query after a bracket. A column of that name is in quotes, or before one of _AFTER_A_NAME."""
_AFTER_A_NAME = frozenset(") , [ = == <=> <> != < <= > >= / % & | ^ || :: ->".split())  # noqa: SIM905
"""What may follow a name, and begins no expression: `values -1` and `select .5` are queries."""
_FLAT = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER, TokenType.VAR})


def check_size(where: str) -> None:
    """Raise PredicateError if a text is too long."""
    if len(where) > MAX_CHARACTERS:
        raise _beyond(where, None, "characters", MAX_CHARACTERS, len(where))


def check_tokens(where: str, tokens: Sequence[Token]) -> None:
    """Raise PredicateError if a text has too many conditions, is nested too deeply, calls Java, or has a query."""
    for before, token, after in zip([None, *tokens], tokens, tokens[1:], strict=False):
        word = token.text.lower()
        if word in _CALLS_JAVA and after.token_type is TokenType.L_PAREN:
            raise _not_allowed(where, token.start, "a function that calls Java")
        is_first = before is not None and before.token_type is TokenType.L_PAREN
        is_name = token.token_type is TokenType.IDENTIFIER or after.text in _AFTER_A_NAME  # the former is in quotes
        # `using` is followed by the text of a script.
        if not is_name and ((is_first and word in _BEGINS_QUERY) or word == "using"):
            raise _not_allowed(where, token.start, "a query")
    joined = [token for token in tokens if token.token_type in _JOINING]
    if len(joined) >= MAX_CONDITIONS:
        raise _beyond(where, joined[MAX_CONDITIONS - 1].start, "conditions", MAX_CONDITIONS, len(joined) + 1)
    comments = where.count("/*") - sum(token.text.count("/*") for token in tokens)
    if comments > MAX_DEPTH:
        raise _beyond(where, None, "comments", MAX_DEPTH, comments)
    if found := _place_beyond(tokens):
        raise _beyond(where, found.start, "levels", MAX_DEPTH)


def _place_beyond(tokens: Sequence[Token]) -> Token | None:
    """Return the first token that is nested too deeply."""
    # For each open bracket: its kind and its depth, which includes the operators before it in the same part of the
    # text.
    outer: list[tuple[TokenType, int]] = []
    depth = 0
    for token in tokens:
        kind = token.token_type
        if kind in OPENING:
            outer.append((kind, depth))
            depth += 1
        elif kind is TokenType.END and outer and outer[-1][0] is TokenType.CASE:
            depth = outer.pop()[1]
        elif kind in CLOSING and kind is not TokenType.END:
            while outer and outer[-1][0] is TokenType.CASE:  # a column named `case`
                outer.pop()
            # The operand of a subscript counts as nested inside it: `a[0][0]`.
            depth = (outer.pop()[1] if outer else 0) + (kind is TokenType.R_BRACKET)
        elif kind in _SEPARATING:
            depth = outer[-1][1] + 1 if outer else 0
        elif kind not in _FLAT:
            depth += 1
        if depth > MAX_DEPTH:
            return token
    return None


def check_untokenized(where: str) -> None:
    """Raise PredicateError for a text that cannot be split into tokens and that may break the rules for tokens."""
    words = re.findall(r"\w+|[^\w\s]", where)
    if not (_CALLS_JAVA | _BEGINS_QUERY | {"using"}).isdisjoint(word.lower() for word in words):
        raise _not_allowed(where, None, "a query, or a function that calls Java,")
    if len(words) > MAX_DEPTH:
        raise _beyond(where, None, "words in a text that cannot be tokenized", MAX_DEPTH, len(words))


def _not_allowed(where: str, position: int | None, what: str) -> PredicateError:
    return PredicateError(predicate=where, position=position, reason=f"{what} cannot be used here")


def _beyond(where: str, position: int | None, what: str, limit: int, found: int | None = None) -> PredicateError:
    counted = "more" if found is None else f"{found:,}"
    reason = f"expected at most {limit:,} {what}, found {counted}"
    return PredicateError(predicate=where, position=position, reason=reason)
