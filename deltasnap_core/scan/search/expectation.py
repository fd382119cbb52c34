"""Expectation: what every version of a table should hold, and whether a version holds it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from deltasnap_core.redaction import safe_repr

NONE = "none"
_RULE = re.compile(r"\s*count\s*(=|!=|<=|<|>=|>)\s*([0-9]{1,18})\s*", re.IGNORECASE)
_OPERATORS: Mapping[str, Callable[[int, int], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A number that each version has, and the rule for it.

    The number is that of the rows for which `where` (Spark SQL; None: all rows) is true. With `unique`, the names of
    columns, it is that of the values that several of these rows have: a null equals nothing, as in a UNIQUE constraint
    of SQL. With `file`, the path of a data file, it is 1 if the version has this file, and 0 if not.
    expect: `none` (the number is 0), or `count OPERATOR NUMBER` with =, !=, <, <=, > or >=. A file is expected to be
            there.
    Errors: ValueError for another rule, for a file together with something else, and if nothing is expected.
    """

    where: str | None = None
    unique: tuple[str, ...] = ()
    file: str | None = None
    expect: str = NONE

    def __post_init__(self) -> None:
        if self.expect != NONE and _RULE.fullmatch(self.expect) is None:
            raise ValueError(f"Expected 'none' or a rule such as 'count <= 10', found {self.expect!r}")
        is_default = self.expect == NONE
        if self.file is not None and (self.where is not None or self.unique or not is_default):
            raise ValueError("Expected a file alone, found a condition, columns or a rule too")
        if is_default and self.where is None and not self.unique and self.file is None:
            raise ValueError("Expected a condition, columns, a file or a rule for the number of rows, found none")

    def holds(self, number: int) -> bool:
        """Return whether the rule is true for the number of a version."""
        if self.file is not None:
            return number > 0
        match = _RULE.fullmatch(self.expect)
        return number == 0 if match is None else _OPERATORS[match[1]](number, int(match[2]))

    def text_of(self, number: int) -> str:
        """Return the number of a version in words, as the object of a sentence: `3 matching rows`."""
        if self.file is not None:
            return "the file" if number else "no such file"
        what = "repeated value" if self.unique else "row" if self.where is None else "matching row"
        return f"{number:,} {what}{'' if number == 1 else 's'}"
