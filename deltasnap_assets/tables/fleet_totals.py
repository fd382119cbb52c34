"""The totals of a fleet, and its order. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from deltasnap_core import TableLevel

Row = Mapping[str, Any]
"""One table: a row of `SnapshotStore.fleet` as a dictionary."""


class FleetOrder(StrEnum):
    """The sort order of a fleet. Ties are sorted by name; unknown values come last."""

    CONDITION = "condition"
    """The worst first."""
    GROWTH = "growth"
    """The largest growth in the last seven days first."""
    SIZE = "size"
    """The largest first."""
    AGE = "age"
    """The oldest last commit first, relative to the usual pause."""
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTotals:
    """The sums over a fleet. by_level: the number of tables of each condition, the worst first.

    A table whose number is unknown counts as 0. A growth that is unknown for all tables is None.
    """

    tables: int
    by_level: Mapping[TableLevel, int]
    num_records: int
    num_files: int
    size_in_bytes: int
    growth_7d_bytes: int | None
    growth_30d_bytes: int | None
    vacuum_bytes: int

    @property
    def numbers(self) -> dict[str, int]:
        """Return all known numbers, by name."""
        growth = {"growth_7d_bytes": self.growth_7d_bytes, "growth_30d_bytes": self.growth_30d_bytes}
        return {
            "tables": self.tables,
            **{level.value: count for level, count in self.by_level.items()},
            "num_records": self.num_records,
            "num_files": self.num_files,
            "size_in_bytes": self.size_in_bytes,
            **{name: number for name, number in growth.items() if number is not None},
            "vacuum_bytes": self.vacuum_bytes,
        }


def totals_of(rows: Sequence[Row]) -> FleetTotals:
    """Return the totals of a fleet."""
    names = ("num_records", "num_files", "size_in_bytes", "vacuum_bytes")
    return FleetTotals(
        tables=len(rows),
        by_level={level: sum(row["condition"] == level for row in rows) for level in TableLevel},
        **{name: sum(row[name] or 0 for row in rows) for name in names},
        growth_7d_bytes=_known_sum(rows, "growth_7d_bytes"),
        growth_30d_bytes=_known_sum(rows, "growth_30d_bytes"),
    )


def _known_sum(rows: Sequence[Row], name: str) -> int | None:
    known = [row[name] for row in rows if row[name] is not None]
    return sum(known) if known else None


def in_order(rows: Iterable[Row], order: FleetOrder) -> list[Row]:
    """Return rows in an order."""
    column = {FleetOrder.GROWTH: "growth_7d_bytes", FleetOrder.SIZE: "size_in_bytes", FleetOrder.AGE: "age_ratio"}

    def key(row: Row) -> tuple[Any, ...]:
        if order is FleetOrder.CONDITION:
            return TableLevel(row["condition"]).rank, row["table"]
        if order is FleetOrder.NAME:
            return (row["table"],)
        value = row[column[order]]
        return value is None, -(value or 0), row["table"]

    return sorted(rows, key=key)


def largest(rows: Iterable[Row], column: str, most: int) -> list[Row]:
    """Return the rows with the largest positive values of a column, the largest first."""
    known = [row for row in rows if (row[column] or 0) > 0]
    return sorted(known, key=lambda row: (-row[column], row["table"]))[:most]
