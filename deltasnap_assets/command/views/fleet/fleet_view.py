"""`deltasnap fleet`: all followed tables. Reads only the store, no log, and starts no JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from deltasnap_assets.command.output import FleetFormat, csv_text, json_text
from deltasnap_assets.command.terminal import print_line, shown
from deltasnap_assets.command.views.fleet.prometheus import prometheus_text
from deltasnap_assets.runs.fleet import fleet_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.tables.fleet_totals import FleetOrder, Row, ordered_rows, totals_of_fleet
from deltasnap_assets.tables.pages.fleet_texts import (
    age_text,
    count_text,
    growth_text,
    overview,
    ratio_text,
    size_text,
    version_text,
)
from deltasnap_assets.texts import lines_joined, visible
from deltasnap_core.support import TableLevel

_COLORS = {
    TableLevel.BROKEN: "red",
    TableLevel.UNKNOWN: "magenta",
    TableLevel.WARNED: "yellow",
    TableLevel.STALE: "yellow",
    TableLevel.HEALTHY: "green",
}
_MAX_REASON_LENGTH = 2000
_WIDEST = 1000
_TEXTS = ("table", "condition", "last commit", "version")
_NUMBERS = ("rows", "files", "size", "7 days", "30 days", "small", "VACUUM", "time travel")
_LEAST_IMPORTANT = (
    "time travel",
    "30 days",
    "7 days",
    "VACUUM",
    "small",
    "files",
    "rows",
    "version",
    "size",
    "last commit",
)


def read_rows(settings: Settings, order: FleetOrder, only: Sequence[TableLevel] = ()) -> tuple[list[Row], list[Row]]:
    """Return the rows of `fleet_of`, and the rows to show, in order. only: conditions to show; empty: all."""
    rows: list[Row] = [*fleet_of(settings)]
    return rows, ordered_rows((row for row in rows if not only or row["condition"] in only), order)


def fleet_text(rows: Sequence[Row], chosen: Sequence[Row], how: FleetFormat) -> str:
    """Return a fleet as JSON or CSV, or in the text format of Prometheus. rows: all. chosen: the rows to show."""
    if how == "prometheus":
        return prometheus_text(rows, chosen)
    if how == "csv":
        return csv_text([_json(row) for row in chosen])
    return json_text({"totals": totals_of_fleet(rows).numbers, "rows": [_json(row) for row in chosen]}) + "\n"


def show_fleet(console: Console, rows: Sequence[Row], chosen: Sequence[Row]) -> None:
    """Print the totals of all tables, a table of the chosen ones, and the reason of each that needs attention."""
    print_line(console, shown(overview(totals_of_fleet(rows))))
    console.print(_fitting_table(console, chosen))
    for row in chosen:
        if row["reason"]:
            text = lines_joined(f" {row['table']}: {row['reason']} {row['advice']}")
            print_line(console, _condition(row) + " " + shown(text, _MAX_REASON_LENGTH))


def _fitting_table(console: Console, rows: Sequence[Row]) -> Table:
    """Return the rows as a table with the most important columns that fit the width of the console."""
    for count in range(len(_LEAST_IMPORTANT) + 1):
        left_out = _LEAST_IMPORTANT[:count]
        names = [name for name in (*_TEXTS, *_NUMBERS) if name not in left_out]
        table = Table(box=None, header_style="dim")
        table.add_column("table", overflow="fold", max_width=max(console.width // 2, 5))
        for name in names[1:]:
            table.add_column(name, justify="right" if name in _NUMBERS else "left", no_wrap=True)
        for row in rows:
            cells = dict(zip((*_TEXTS, *_NUMBERS), _cells(row), strict=True))
            table.add_row(*(cells[name] for name in names))
        if Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum <= console.width:
            break
    return table


def _cells(row: Row) -> list[str | Text]:
    return [shown(row["table"]), _condition(row), age_text(row), version_text(row), *_numbers(row)]


def _numbers(row: Row) -> list[str]:
    return [
        count_text(row["num_records"]),
        count_text(row["num_files"]),
        size_text(row["size_in_bytes"]),
        growth_text(row["growth_7d_bytes"]),
        growth_text(row["growth_30d_bytes"]),
        ratio_text(row["small_file_ratio"]),
        size_text(row["vacuum_bytes"]),
        size_text(row["time_travel_bytes"]),
    ]


def _condition(row: Row) -> Text:
    return Text(row["condition"], style=_COLORS[TableLevel(row["condition"])])


def _json(row: Row) -> dict[str, Any]:
    texts = {name: visible(lines_joined(row[name]), _MAX_REASON_LENGTH) for name in ("reason", "advice")}
    return {**row, **texts}
