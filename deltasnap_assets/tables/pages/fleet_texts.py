"""The facts about a table of a fleet as text, for its page and the terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable

from deltasnap_assets.quantities import bytes_text, counted, span_text
from deltasnap_assets.tables.fleet_totals import FleetTotals, Row


def overview(totals: FleetTotals) -> str:
    """Return the totals as text: the number of tables by condition, rows, files, bytes."""
    counts = ", ".join(f"{count:,} {level.value}" for level, count in totals.by_level.items() if count)
    growth = "" if totals.growth_7d_bytes is None else f"; {growth_text(totals.growth_7d_bytes)} in 7 days"
    rows = _sum_text(totals, "num_records", "rows", lambda number: counted(number, "row"))
    files = _sum_text(totals, "num_files", "files", lambda number: counted(number, "file"))
    size = _sum_text(totals, "size_in_bytes", "bytes", bytes_text)
    freed = f" VACUUM would free at least {bytes_text(totals.vacuum_bytes)}." if totals.vacuum_bytes else ""
    contents = f"{rows} in {files}, {size}{growth}."
    return f"{counted(totals.tables, 'table')}: {counts or 'none'}. {contents[0].upper()}{contents[1:]}{freed}"


def _sum_text(totals: FleetTotals, name: str, what: str, text: Callable[[int], str]) -> str:
    """Return a sum as text: `unknown rows` if no table knows its number, `at least 5 rows` if some do not."""
    number = totals.numbers.get(name)
    if number is None:
        return f"unknown {what}"
    return f"at least {text(number)}" if name in totals.incomplete else text(number)


def age_text(row: Row) -> str:
    """Return the age of the last commit, relative to the usual pause: `3 hours (1.5 x usual)`."""
    if row["age_ms"] is None:
        return ""
    ratio = "" if row["age_ratio"] is None else f" ({row['age_ratio']:,.1f} x usual)"
    return f"{span_text(row['age_ms'])}{ratio}"


def version_text(row: Row) -> str:
    """Return the latest version, and how far the store is behind: `12`, `14 (2 behind)`."""
    known = [version for version in (row["latest_version"], row["stored_version"]) if version is not None]
    if not known:
        return ""
    behind = f" ({row['versions_behind']:,} behind)" if row["versions_behind"] else ""
    return f"{max(known)}{behind}"


def growth_text(size: int | None) -> str:
    """Return a growth in bytes with its sign; empty: unknown."""
    if size is None:
        return ""
    return f"{'-' if size < 0 else '+'}{bytes_text(abs(size))}" if size else "0 B"


def count_text(count: int | None) -> str:
    """Return a count; empty: unknown."""
    return "" if count is None else f"{count:,}"


def ratio_text(ratio: float | None) -> str:
    """Return a ratio in percent; empty: unknown."""
    return "" if ratio is None else f"{ratio:.0%}"


def size_text(size: int | None) -> str:
    """Return a size in bytes; empty: unknown."""
    return "" if size is None else bytes_text(size)
