"""The totals of a fleet, and its order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from deltasnap_core.support import TableLevel

_SUMMED = (
    *("num_records", "num_files", "size_in_bytes", "growth_7d_bytes", "growth_30d_bytes"),
    *("vacuum_bytes", "time_travel_bytes"),
)

Row = Mapping[str, Any]
"""One table: a row of `SnapshotStore.fleet` as a dictionary."""


FleetOrder = Literal["condition", "growth", "size", "age", "name"]
"""The sort order of a fleet. Ties are sorted by name; unknown values come last.

condition: the worst first. growth: the largest growth in the last seven days first. size: the largest first. age: the
oldest last commit first, relative to the usual pause.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTotals:
    """The sums over a fleet. by_level: the number of tables of each condition, the worst first.

    Sums include the tables whose number is known; None: it is known for no table. incomplete: the names of the sums
    that lack a table.
    """

    tables: int
    by_level: Mapping[TableLevel, int]
    num_records: int | None
    num_files: int | None
    size_in_bytes: int | None
    growth_7d_bytes: int | None
    growth_30d_bytes: int | None
    vacuum_bytes: int | None
    time_travel_bytes: int | None
    incomplete: frozenset[str]

    @property
    def numbers(self) -> dict[str, int]:
        """Return all known numbers, by name."""
        sums = {name: getattr(self, name) for name in _SUMMED}
        return {
            "tables": self.tables,
            **{level.value: count for level, count in self.by_level.items()},
            **{name: number for name, number in sums.items() if number is not None},
        }


def totals_of_fleet(rows: Sequence[Row]) -> FleetTotals:
    """Return the totals of a fleet."""
    return FleetTotals(
        tables=len(rows),
        by_level={level: sum(row["condition"] == level for row in rows) for level in TableLevel},
        incomplete=frozenset(name for name in _SUMMED if any(row[name] is None for row in rows)),
        **{name: _known_sum(rows, name) for name in _SUMMED},
    )


def _known_sum(rows: Sequence[Row], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known or not rows else None


_LARGEST_FIRST = {"growth": "growth_7d_bytes", "size": "size_in_bytes", "age": "age_ratio"}


def ordered_rows(rows: Iterable[Row], order: FleetOrder) -> list[Row]:
    """Return rows in an order."""
    return sorted(rows, key=partial(_place, order))


def _place(order: FleetOrder, row: Row) -> tuple[Any, ...]:
    if order == "condition":
        return TableLevel(row["condition"]).rank, row["table"]
    if order == "name":
        return (row["table"],)
    value = row[_LARGEST_FIRST[order]]
    return value is None, -(value or 0), row["table"]


def largest(rows: Iterable[Row], column: str, most: int) -> list[Row]:
    """Return the rows with the largest positive values of a column, the largest first."""
    known = [row for row in rows if (row[column] or 0) > 0]
    return sorted(known, key=lambda row: (-row[column], row["table"]))[:most]
