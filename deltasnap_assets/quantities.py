"""Human-readable counts, sizes, times and time spans, for the terminal and for Dagster. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = ((DAY_MS, "day"), (HOUR_MS, "hour"), (60_000, "minute"), (1000, "second"))


def counted(count: int, what: str, plural: str | None = None) -> str:
    """Return "1 file" or "2,048 files". plural: of a word that takes no `s`."""
    return f"{count:,} {what if count == 1 else plural or f'{what}s'}"


def bytes_text(size: int) -> str:
    """Return a size with at most one decimal: `0 B`, `512 KiB`, `1.5 GiB`."""
    value = float(size)
    for unit in _SIZES[:-1]:
        if value < 1024:
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
        value /= 1024
    return f"{value:.1f}".removesuffix(".0") + f" {_SIZES[-1]}"


def percents(ratio: float, limit: float) -> tuple[str, str]:
    """Return a ratio and its limit as `50.1%` and `50.0%`: with the decimals of the limit, more if they look equal."""
    shown = [(f"{ratio:.{digits}%}", f"{limit:.{digits}%}") for digits in range(4)]
    exact = [each for each in shown if math.isclose(float(each[1][:-1]), limit * 100)]
    return next((each for each in exact if ratio == limit or each[0] != each[1]), shown[-1])


def span_text(milliseconds: int) -> str:
    """Return a span in the largest unit that fits at least twice, rounded down: `3 days`, `30 hours`, `1 second`."""
    span = max(milliseconds, 0)
    size, unit = next((each for each in _SPANS if span >= 2 * each[0]), _SPANS[-1])
    return counted(span // size, unit)


def iso_time(timestamp_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, to the second; the number of ms if it is outside the calendar's range."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def time_text(timestamp_ms: int) -> str:
    """Return a time as `2026-03-02 08:30:00 UTC`; the number of ms if it is outside the calendar's range."""
    return iso_time(timestamp_ms).replace("T", " ").replace("+00:00", " UTC")
