"""Spans of time as a person reads them. Pure."""

from __future__ import annotations

_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


def span_text(milliseconds: int) -> str:
    """Return a span in its largest unit that fills it, rounded down: `3 days`, `1 hour`, `0 seconds`."""
    span = max(milliseconds, 0)
    size, unit = next((each for each in _UNITS if span >= each[0]), _UNITS[-1])
    count = span // size
    return f"{count:,} {unit}" + ("" if count == 1 else "s")
