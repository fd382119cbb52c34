"""Sizes as a person reads them, in the terminal and in Dagster. Pure."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def bytes_text(size: int) -> str:
    """Bytes with one decimal where it says something: `0 B`, `512 KiB`, `1.5 GiB`."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.1f}".removesuffix(".0") + f" {unit}"
        value /= 1024
    return f"{value:.1f}".removesuffix(".0") + f" {_UNITS[-1]}"
