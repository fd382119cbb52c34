"""The text of a predicate for Spark's parser, with the meaning that the caller wrote. No Spark.

Before it parses SQL, Spark replaces `${env:HOME}`, `${spark.app.name}` and other variables in the text, also in strings
(`spark.sql.variable.substitute`). A predicate may come from strangers: nothing in it is replaced. So each `${` is
divided: in a string by the end of the string and the begin of another, since Spark joins adjacent strings, elsewhere by
a space, since only a comment or an invalid text has it there. In a quoted name it cannot be divided. The empty string
between the two is for sessions in which double quotes enclose names: two names in a row may be valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce

from deltasnap_core.errors import PredicateError

_VARIABLE = "${"
_PIECE = re.compile(
    r"""(?<!\w)(?P<raw>[rR])(?:'[^']*'|"[^"]*")"""
    r"""|(?P<string>'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+")"""
    r"""|(?P<name>`(?:[^`]|``)*+`)"""
    r"""|--(?:\\\n|[^\r\n])*+"""
    r"""|(?P<comment>/\*)""",
    re.DOTALL,
)
_END_OR_BEGIN = re.compile(r"/\*|\*/")


def spark_text(where: str) -> str:
    """Return the SQL that means the same to Spark, whether it replaces variables or not. Quoted names stay."""
    return reduce(lambda text, each: text[: each[0]] + each[1] + text[each[0] :], reversed([*_added(where)]), where)


def place_in(where: str, position: int) -> int:
    """Return the position in a predicate of one in its `spark_text`."""
    for place, added in _added(where):
        if position <= place:
            break
        position = max(place, position - len(added))
    return position


def check_names(where: str) -> None:
    """Raise PredicateError for a quoted name in which Spark would replace a variable."""
    for begin, _, piece in _pieces(where):
        if piece is not None and piece["name"] is not None and _VARIABLE in piece["name"]:
            reason = f"with spark.sql.variable.substitute=true, Spark reads {piece['name']} as a variable"
            raise PredicateError(predicate=where, position=begin, reason=reason)


def _added(where: str) -> Iterator[tuple[int, str]]:
    """Yield what to add to a text, and its place."""
    for begin, end, piece in _pieces(where) if _VARIABLE in where else ():
        added = " "
        if piece is not None and (piece["raw"] or piece["string"]):
            quote, raw = where[end - 1], piece["raw"] or ""
            added = f"{quote} '' {raw}{quote}"
        elif piece is not None and piece["name"]:
            continue
        at = where.find(_VARIABLE, begin, end)
        while at >= 0:
            yield at + 1, added
            at = where.find(_VARIABLE, at + 1, end)


def _pieces(where: str) -> Iterator[tuple[int, int, re.Match[str] | None]]:
    """Yield begin and end of each string, quoted name, comment, and of the text between them (None)."""
    at = 0
    while (piece := _PIECE.search(where, at)) is not None:
        yield at, piece.start(), None
        at = piece.end() if piece["comment"] is None else _end_of_comment(where, piece.end())
        yield piece.start(), at, piece
    yield at, len(where), None


def _end_of_comment(where: str, at: int) -> int:
    depth = 1
    for found in _END_OR_BEGIN.finditer(where, at):
        depth += 1 if found.group() == "/*" else -1
        if depth == 0:
            return found.end()
    return len(where)
