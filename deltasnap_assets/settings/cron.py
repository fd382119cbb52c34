"""Is a text a cron expression? Answered without Dagster, so that a configuration is checked at once."""

from __future__ import annotations

import re

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_MACROS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_PART = re.compile(r"(?P<first>\*|\w+)(-(?P<last>\w+))?(/(?P<step>[1-9]\d*))?", re.ASCII)


def cron_problem(text: str) -> str | None:
    """What is wrong with `text` as a cron expression (five fields or a macro such as @hourly); None: nothing."""
    if text in _MACROS:
        return None
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"expected a cron expression of five fields (or one of {', '.join(_MACROS)})"
    for field, (name, lowest, highest, names) in zip(fields, _FIELDS, strict=True):
        if not all(_is_part(part, lowest, highest, names) for part in field.split(",")):
            return f"{field!r} is no {name} of a cron expression ({lowest}-{highest})"
    return None


def _is_part(part: str, lowest: int, highest: int, names: tuple[str, ...]) -> bool:
    match = _PART.fullmatch(part)
    if match is None:
        return False
    if match["first"] == "*":
        return match["last"] is None
    first = _number(match["first"], lowest, names)
    last = first if match["last"] is None else _number(match["last"], lowest, names)
    return first is not None and last is not None and lowest <= first <= last <= highest


def _number(text: str, lowest: int, names: tuple[str, ...]) -> int | None:
    if text.lower() in names:
        return names.index(text.lower()) + lowest
    return int(text) if text.isdigit() else None
