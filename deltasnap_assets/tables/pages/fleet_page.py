"""The page of the asset `fleet`: totals, bars, and all tables, the worst first.

Their columns are in three Markdown tables: Dagster truncates tables that are wider than its window. Sentences are in a
list: in a column beside others, they would wrap after a few words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import dagster as dg

from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.settings.table_settings import default_asset, is_dagster_name
from deltasnap_assets.tables.fleet_totals import Row, largest, ordered_rows, totals_of_fleet
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
from deltasnap_core.support import TableLevel

MAX_ROWS = 1_000

_MAX_WORST = 10
_MAX_TEXT_LENGTH = 2000
_REASON_LENGTHS = (200, 120, 80)
_LONG_WORD = re.compile(r"\S{25,}")
"""A word that makes a column too wide for a window of 1,500 pixels, such as a path."""

_Cells = Callable[[Row], list[str]]


def fleet_page(rows: Sequence[Row]) -> Entries:
    """Return the page of a fleet. rows: of `SnapshotStore.fleet`. The totals are numbers: Dagster plots them."""
    totals = totals_of_fleet(rows)
    entries: Entries = {
        "overview": dg.MetadataValue.md(overview(totals)),
        "worst": dg.MetadataValue.md(worst_markdown(rows)),
    }
    if any(row["reason"] for row in rows):
        entries["reasons"] = dg.MetadataValue.md(reasons_markdown(rows))
    for name, column in (("largest", "size_in_bytes"), ("fastest_growing", "growth_7d_bytes")):
        bars = [
            Bar(label=row["table"], value=row[column], text=bytes_text(row[column]))
            for row in largest(rows, column, MAX_BARS)
        ]
        if bars:
            entries[name] = dg.MetadataValue.md(most_bars_picture(name.replace("_", " "), bars)[0])
    for name, (header, cells) in _TABLES.items():
        entries[name] = dg.MetadataValue.md(_markdown(rows, header, cells))
    numbers = {name: dg.MetadataValue.int(number) for name, number in totals.numbers.items()}
    return entries | numbers


def worst_markdown(rows: Sequence[Row]) -> str:
    """Return the first tables with their reasons: as many, and as much of these, as Dagster shows without a click."""
    ordered = ordered_rows(rows, "condition")[:_MAX_WORST]
    sizes = [(len(ordered), length) for length in _REASON_LENGTHS]
    sizes += [(count, _REASON_LENGTHS[-1]) for count in range(len(ordered) - 1, 0, -1)]
    for count, length in sizes:
        lines = [[*_name_and_condition(row), _short_reason(row, length)] for row in ordered[:count]]
        table = markdown_table(("table", "condition", "reason"), lines)
        if len(table) <= MAX_CHARACTERS:
            break
    return table


def _markdown(rows: Sequence[Row], header: Sequence[str], cells: _Cells) -> str:
    """Return a Markdown table with one row for each table, the worst first."""
    ordered = ordered_rows(rows, "condition")
    return _with_number_left(markdown_table(header, (cells(row) for row in ordered[:MAX_ROWS])), len(ordered))


def reasons_markdown(rows: Sequence[Row]) -> str:
    """Return a list of the tables that need attention, the worst first, each with its reason and advice."""
    ordered = [row for row in ordered_rows(rows, "condition") if row["reason"]]
    return _with_number_left("\n".join(f"- {_reason(row)}" for row in ordered[:MAX_ROWS]), len(ordered))


def _reason(row: Row) -> str:
    link, condition = _name_and_condition(row)
    text = markdown_text(f"{row['reason']} {row['advice']}".rstrip(), _MAX_TEXT_LENGTH)
    return f"{link} ({condition}): {text}"


def _with_number_left(shown: str, number: int) -> str:
    left = number - MAX_ROWS
    return f"{shown}\n\nand {left:,} more: `SnapshotStore.fleet()` returns all" if left > 0 else shown


def _name_and_condition(row: Row) -> list[str]:
    name, text = row["table"], _name(row)
    asset = row.get("asset") or default_asset(name)
    return [text if asset is None else f"[{text}](/assets/{asset})", TableLevel(row["condition"]).value]


def _name(row: Row) -> str:
    """Return the name of a table; of one that cannot have a name, the end of its path."""
    name = row["table"]
    return markdown_text(name if is_dagster_name(name) else _LONG_WORD.sub(_end_of, name))


def _short_reason(row: Row, length: int) -> str:
    """Return the reason with only the end of long paths."""
    return markdown_text(_LONG_WORD.sub(_end_of, without_secrets(row["reason"])), length)


def _end_of(word: re.Match[str]) -> str:
    """Return the last 23 characters of a word, without the first part of a folder's name."""
    end = word[0][-23:]
    return f"…{end[max(end.find('/'), 0) :]}"


def _condition(row: Row) -> list[str]:
    return [*_name_and_condition(row), age_text(row), version_text(row)]


def _contents(row: Row) -> list[str]:
    return [
        _name(row),
        count_text(row["num_records"]),
        count_text(row["num_files"]),
        size_text(row["size_in_bytes"]),
        growth_text(row["growth_7d_bytes"]),
        growth_text(row["growth_30d_bytes"]),
    ]


def _maintenance(row: Row) -> list[str]:
    return [
        _name(row),
        ratio_text(row["small_file_ratio"]),
        size_text(row["vacuum_bytes"]),
        size_text(row["time_travel_bytes"]),
        count_text(row["commits_since_checkpoint"]),
        markdown_text(", ".join(row["features"])),
        markdown_text(", ".join(row["owners"])),
    ]


_TABLES: Mapping[str, tuple[Sequence[str], _Cells]] = {
    "conditions": (("table", "condition", "last commit", "version"), _condition),
    "contents": (("table", "rows", "files", "size", "in 7 days", "in 30 days"), _contents),
    "maintenance": (
        ("table", "small files", "VACUUM frees", "time travel", "checkpoint lag", "features", "owner"),
        _maintenance,
    ),
}
