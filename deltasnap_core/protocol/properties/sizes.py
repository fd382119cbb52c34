"""Sizes as in table properties: a number of bytes, or a number with a unit. Pure."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?P<number>\d{1,18})(?P<unit>[a-z]*)", re.ASCII)
_SHIFTS = {
    "": 0,
    "b": 0,
    **{unit + end: 10 * power for power, unit in enumerate("kmgtp", start=1) for end in ("", "b")},
}
_MOST = 1 << 62


def parse_size_bytes(text: str) -> int:
    """Return a size in bytes: `104857600`, `100mb`. Units are b, k, m, g, t and p, also as kb; 1 kb is 1,024 bytes.

    Errors: ValueError for anything else, for 0 and for sizes above 2^62.
    Source: Spark's `JavaUtils.byteStringAs`, which reads sizes of configurations.
    """
    match = _SIZE.fullmatch(text.strip().lower())
    shift = None if match is None else _SHIFTS.get(match["unit"])
    if match is None or shift is None or not 0 < int(match["number"]) << shift <= _MOST:
        raise ValueError(f"expected a size such as '100mb', found {text!r}")
    return int(match["number"]) << shift
