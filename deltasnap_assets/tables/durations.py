"""Human-readable time spans. Pure."""

from __future__ import annotations

_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


def span_text(milliseconds: int) -> str:
    """Return a span in the largest unit that fits at least twice, rounded down: `3 days`, `30 hours`, `1 second`."""
    span = max(milliseconds, 0)
    size, unit = next((each for each in _UNITS if span >= 2 * each[0]), _UNITS[-1])
    count = span // size
    return f"{count:,} {unit}" + ("" if count == 1 else "s")
