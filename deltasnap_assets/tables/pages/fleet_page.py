"""The page of the asset `fleet`: totals, bars, and one table of all tables, the worst first."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.tables.fleet_totals import FleetOrder, Row, largest, ordered_rows, totals_of_fleet
from deltasnap_assets.tables.pages.fleet_texts import (
    age_text,
    count_text,
    growth_text,
    overview,
    ratio_text,
    size_text,
    version_text,
)
from deltasnap_assets.tables.pages.metadata import Entries, markdown_table
from deltasnap_assets.tables.pages.pictures import MAX_BARS, MAX_CHARACTERS, Bar, most_bars_picture
from deltasnap_assets.texts import markdown_text, without_secrets
from deltasnap_core import TableLevel

MAX_ROWS = 1_000

_MAX_WORST = 10
_MAX_REASON_LENGTH = 200
_MAX_SHORT_REASON_LENGTH = 80
_HEADER = (
    "table",
    "condition",
    "reason",
    "last commit",
    "version",
    "rows",
    "files",
    "size",
    "7 days",
    "30 days",
    "small files",
    "VACUUM frees",
    "since checkpoint",
    "features",
    "owner",
)


_WORST = _HEADER[:4]


def fleet_page(rows: Sequence[Row]) -> Entries:
    """Return the page of a fleet. rows: of `SnapshotStore.fleet`. The totals are numbers: Dagster plots them."""
    totals = totals_of_fleet(rows)
    entries: Entries = {
        "overview": dg.MetadataValue.md(overview(totals)),
        "worst": dg.MetadataValue.md(worst_markdown(rows)),
    }
    for name, column in (("largest", "size_in_bytes"), ("fastest_growing", "growth_7d_bytes")):
        bars = [
            Bar(label=row["table"], value=row[column], text=bytes_text(row[column]))
            for row in largest(rows, column, MAX_BARS)
        ]
        if bars:
            entries[name] = dg.MetadataValue.md(most_bars_picture(name.replace("_", " "), bars)[0])
    entries["fleet"] = dg.MetadataValue.md(fleet_markdown(rows))
    numbers = {name: dg.MetadataValue.int(number) for name, number in totals.numbers.items()}
    return entries | numbers


def worst_markdown(rows: Sequence[Row]) -> str:
    """Return the first rows and columns of the table: as many rows as Dagster shows without a click."""
    ordered = ordered_rows(rows, FleetOrder.CONDITION)[:_MAX_WORST]
    lines = [_cells(row, _MAX_SHORT_REASON_LENGTH)[: len(_WORST)] for row in ordered]
    for count in range(len(lines), 1, -1):
        if len(table := markdown_table(_WORST, lines[:count])) <= MAX_CHARACTERS:
            return table
    return markdown_table(_WORST, lines[:1])


def fleet_markdown(rows: Sequence[Row]) -> str:
    """Return a Markdown table with one row for each table, the worst first."""
    ordered = ordered_rows(rows, FleetOrder.CONDITION)
    table = markdown_table(_HEADER, (_cells(row) for row in ordered[:MAX_ROWS]))
    left = len(ordered) - MAX_ROWS
    return f"{table}\n\nand {left:,} more: `deltasnap fleet`" if left > 0 else table


def _cells(row: Row, max_reason_length: int = _MAX_REASON_LENGTH) -> list[str]:
    level = TableLevel(row["condition"])
    name = row["table"]
    return [
        f"[{markdown_text(name)}](/assets/{name}/delta_log)",
        level.value,
        markdown_text(without_secrets(row["reason"]), max_reason_length),
        age_text(row),
        version_text(row),
        count_text(row["num_records"]),
        count_text(row["num_files"]),
        size_text(row["size_in_bytes"]),
        growth_text(row["growth_7d_bytes"]),
        growth_text(row["growth_30d_bytes"]),
        ratio_text(row["small_file_ratio"]),
        size_text(row["vacuum_bytes"]),
        count_text(row["commits_since_checkpoint"]),
        markdown_text(", ".join(row["features"])),
        markdown_text(", ".join(row["owners"])),
    ]
