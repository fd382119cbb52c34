"""Human-readable counts, sizes and time spans, for the terminal and for Dagster. Pure."""

from __future__ import annotations

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SPANS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


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


def span_text(milliseconds: int) -> str:
    """Return a span in the largest unit that fits at least twice, rounded down: `3 days`, `30 hours`, `1 second`."""
    span = max(milliseconds, 0)
    size, unit = next((each for each in _SPANS if span >= 2 * each[0]), _SPANS[-1])
    return counted(span // size, unit)
