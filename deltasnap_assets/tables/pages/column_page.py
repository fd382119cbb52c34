"""The nulls and the extremes of columns, and the rows of the last day, on the page of `computed_state`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

import dagster as dg

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.tables.pages.metadata import Entries, markdown_table, noting_problems
from deltasnap_assets.tables.pages.pictures import MAX_CHARACTERS
from deltasnap_assets.texts import markdown_text, visible
from deltasnap_core.support import ColumnTrend, Extreme

_MAX_PLOTTED = 20
_MAX_NAME = 100


@noting_problems
def column_page(trends: Sequence[ColumnTrend], settings: CheckSettings) -> Entries:
    """Return the nulls and the extremes of columns as a table, and of some as numbers, which Dagster plots.

    These are the columns that the settings of the checks name, then the first ones of the table.
    """
    named = {*settings.max_null_share, *settings.column_ranges, *(settings.dated_columns or ())}
    in_order = sorted(trends, key=lambda trend: trend.column not in named)
    entries: Entries = {"columns": dg.MetadataValue.md(_table(in_order))}
    for trend in in_order[:_MAX_PLOTTED]:
        numbers = {"null_share": trend.null_share, "min": trend.least, "max": trend.greatest}
        for what, value in numbers.items():
            if (number := _plotted(value)) is not None:
                entries[f"{what}_of_{visible(trend.column, _MAX_NAME)}"] = dg.MetadataValue.float(number)
    return entries


@noting_problems
def rows_page(rows: int | None) -> Entries:
    """Return the rows that commits added in the 24 hours up to a version. None: unknown."""
    return {} if rows is None else {"rows_added_in_24_hours": dg.MetadataValue.int(rows)}


def _plotted(value: Extreme | None) -> float | None:
    number = float(value) if isinstance(value, int | float | Decimal) else math.nan
    return number if math.isfinite(number) else None


def _shown(value: Extreme | None) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):  # short, so that the table is not wider than the page
        text = value.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if "." in text else text
    return markdown_text(value) if isinstance(value, str) else str(value)


def _table(trends: Sequence[ColumnTrend]) -> str:
    """Return as many columns as Dagster shows next to the key, with a row for each."""
    rows = list[tuple[str, ...]]()
    table = ""
    header = ("column", "nulls", "min", "max", "unknown because")
    width = 5 if any(trend.no_nulls or trend.no_extremes for trend in trends) else 4
    for trend in trends:
        share = "" if trend.null_share is None else f"{trend.null_share:.2%}"
        extremes = map(_shown, (trend.least, trend.greatest))
        why = "; ".join(dict.fromkeys(filter(None, (trend.no_nulls, trend.no_extremes))))
        rows.append((markdown_text(trend.column), share, *extremes, why)[:width])
        longer = markdown_table(header[:width], rows)
        if len(longer) > MAX_CHARACTERS:
            break
        table = longer
    return table
