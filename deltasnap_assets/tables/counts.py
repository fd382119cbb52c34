"""Human-readable counts. Pure."""

from __future__ import annotations


def counted(count: int, what: str) -> str:
    """Return "1 file" or "2,048 files"."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")
