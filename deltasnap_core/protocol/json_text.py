"""Strict decoding of the JSON text of a log."""

from __future__ import annotations

import json
import re
from typing import Any

MOST_NESTING = 500
"""Deeper objects and arrays are no JSON to us: Python's parser recurses, and Spark's refuses from 1,000 levels on."""

_BRACKET_OR_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def decode_json(text: str | bytes, **hooks: Any) -> Any:
    """Return the value of a JSON text as RFC 8259 has it; of a key that occurs twice in an object the last one.

    hooks: as for `json.loads`.
    Errors: ValueError where it is not UTF-8, has NaN or Infinity, a surrogate without its pair (no UTF-8 can hold
    it), a number of too many digits for Python, or is nested deeper than MOST_NESTING.
    """
    if isinstance(text, bytes):
        text = text.decode()
    if nesting(text) > MOST_NESTING:
        raise ValueError(f"nested deeper than {MOST_NESTING} levels")
    try:
        value = json.loads(text, parse_constant=_refuse_constant, **hooks)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _SURROGATE.search(text):
        # UnicodeEncodeError is a ValueError, which says where the lone surrogate is.
        json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def nesting(text: str) -> int:
    """Return how many objects and arrays are open at once at most, not counted further than tells it from too many."""
    most_possible = text.count("{") + text.count("[")
    if most_possible <= MOST_NESTING:
        return most_possible
    depth = most = 0
    for token in _BRACKET_OR_STRING.finditer(text):
        bracket = token.group()
        if bracket in "[{":
            depth += 1
            most = max(most, depth)
        elif bracket in "]}":
            depth -= 1
    return most


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
