"""Human-readable sizes, for the terminal and for Dagster. Pure."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_text(size: int) -> str:
    """Return a size with at most one decimal: `0 B`, `512 KiB`, `1.5 GiB`."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
        value /= 1024
    return f"{value:.1f}".removesuffix(".0") + f" {_UNITS[-1]}"
