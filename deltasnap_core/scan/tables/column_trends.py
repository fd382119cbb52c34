"""ColumnTrend: the nulls and the extremes of a column of a version, and their rows in the metadata table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa

from deltasnap_core.redaction import safe_repr

Extreme: TypeAlias = int | float | Decimal | str | date | datetime


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnTrend:
    """The nulls and the extremes of a column that is no struct, in all rows of a version. None: unknown.

    records: the number of rows of the version, the same for every column.
    least, greatest: as values of the type; a time with a zone in UTC. Also None if there are only nulls.
    no_nulls, no_extremes: why the number of nulls, or one of the extremes, is unknown, as text; empty: known.
    new_null_share: the share of rows that are null in the new files, see `ColumnTotals`. Also None if there are none.
    """

    column: str
    data_type: str
    records: int | None
    nulls: int | None
    least: Extreme | None
    greatest: Extreme | None
    no_nulls: str
    no_extremes: str
    new_null_share: float | None = None

    @property
    def null_share(self) -> float | None:
        """The share of rows that are null; None: unknown, or there are no rows."""
        return self.nulls / self.records if self.nulls is not None and self.records else None


Trends: TypeAlias = tuple[ColumnTrend, ...]

TREND_ROWS = pa.schema(
    [
        *((name, pa.string()) for name in ("column", "type")),
        *((name, pa.int64()) for name in ("records", "null_count")),
        ("null_share", pa.float64()),
        *((name, pa.string()) for name in ("min", "max", "null_count_unknown", "extremes_unknown")),
    ]
)


def trend_rows(trends: Iterable[ColumnTrend]) -> pa.Table:
    """Return trends as rows, see `MetadataTables.column_trends`."""
    rows = [
        (each.column, each.data_type, _long(each.records), _long(each.nulls), each.null_share, _text(each.least),
         _text(each.greatest), each.no_nulls or None, each.no_extremes or None)
        for each in trends
    ]  # fmt: skip
    return pa.Table.from_pylist([dict(zip(TREND_ROWS.names, row, strict=True)) for row in rows], TREND_ROWS)


def _text(value: Extreme | None) -> str | None:
    return None if value is None else str(value)


def _long(number: int | None) -> int | None:
    """Return a number; None: it exceeds 64 bits."""
    return None if number is None or number.bit_length() > 63 else number
