"""Strict decoding of the JSON text of a log."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from typing import Any

MAX_NESTING = 500
"""The maximum depth of nesting. Python's parser is recursive, and Spark's fails above 1,000 levels."""

# The closing quote is optional: otherwise each quote of a truncated text would be compared with all text after it.
_BRACKET_OR_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def decode_json(text: str | bytes, *, adapt: Callable[[Any], Any] | None = None, **hooks: Any) -> Any:
    """Return the value of a JSON text, by RFC 8259. If a key occurs twice in an object, the last one counts.

    A number beyond the range of a double becomes the greatest one, not Infinity, which is not JSON.
    adapt: changes a value with escaped surrogates before it is checked; None: no change. hooks: as for `json.loads`.
    Errors: ValueError for invalid UTF-8, NaN or Infinity, a lone surrogate (UTF-8 cannot encode it), a number with too
    many digits for Python, or nesting deeper than MAX_NESTING.
    """
    if isinstance(text, bytes):
        text = text.decode()
    value = parse_json(text, **hooks)
    if _SURROGATE.search(text):
        value = value if adapt is None else adapt(value)
        # UnicodeEncodeError is a ValueError, and states the position of the lone surrogate.
        json.dumps(value, ensure_ascii=False, default=str).encode()
    return value


def parse_json(text: str, **hooks: Any) -> Any:
    """Return the value of a JSON text, as `decode_json`, but accept lone surrogates."""
    if _is_too_deep(text):
        raise ValueError(f"nested deeper than {MAX_NESTING} levels")
    try:
        return json.loads(text, parse_constant=_refuse_constant, **{"parse_float": _finite, **hooks})
    except json.JSONDecodeError as error:  # its own text counts lines, which a message about a log file does too
        raise ValueError(f"{error.msg}: character {error.pos + 1}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _is_too_deep(text: str) -> bool:
    """Return whether more than MAX_NESTING objects and arrays are open at once."""
    if text.count("{") + text.count("[") <= MAX_NESTING:
        return False
    depth = 0
    for token in _BRACKET_OR_STRING.finditer(text):
        bracket = token.group()
        if bracket in "[{":
            depth += 1
            if depth > MAX_NESTING:
                return True
        elif bracket in "]}":
            depth -= 1
    return False


def _finite(number: str) -> float:
    return max(-sys.float_info.max, min(float(number), sys.float_info.max))


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
