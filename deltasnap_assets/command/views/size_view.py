"""The storage bills of `deltasnap size`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from deltasnap_assets.command.output import OutputFormat, print_rows
from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.targets import Target
from deltasnap_assets.command.terminal import output_console, print_problem, shown, working
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.quantities import bytes_text, time_text
from deltasnap_assets.settings.located import located
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import StorageClass, redacted

_GB = 10**9
_Row = dict[str, Any]


def show_bills(targets: Iterable[Target], *, form: OutputFormat, list_files: bool, price: float | None) -> None:
    """Print the bill of each table, and what could not be read; then exit with 1.

    price: of 10^9 bytes for a month; None: no costs.
    """
    rows, is_complete = list[_Row](), True
    for target in targets:
        try:
            rows.append(_bill(target, list_files=list_files, price=price))
        except DeltaSnapError as error:
            is_complete = False
            print_problem(Console(stderr=True), "error", f"{redacted(target.name)}: {error}")
    if form == "table":
        _print(output_console(), rows)
    else:
        print_rows(form, rows)
    if not is_complete:
        raise typer.Exit(1)


def _bill(target: Target, *, list_files: bool, price: float | None) -> _Row:
    """Return the row of a table. Errors: DeltaSnapError."""
    if target.table is None:
        raise DeltaSnapError(target.problem or "there is no table")
    table = located(target.table)
    path, options = table.path, table.storage_options
    with explaining(path, options), working("Listing"), spark_aside(path):
        bill = delta_log_of(path, options).update().tables.storage_bill(list_files=list_files)
    costs = {} if price is None or bill.total_bytes is None else {"monthly_cost": bill.total_bytes / _GB * price}
    return {"table": redacted(target.name), **asdict(bill), "total_bytes": bill.total_bytes, **costs}


def _print(console: Console, rows: Sequence[_Row]) -> None:
    names = {f"{each}_bytes": each.value.replace("_", " ") for each in StorageClass} | {"total_bytes": "total"}
    has_costs = any("monthly_cost" in row for row in rows)
    table = Table(box=None, header_style="dim")
    table.add_column("table", overflow="fold")
    for name in (*names.values(), *(["a month"] if has_costs else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = ["?" if row[name] is None else bytes_text(row[name]) for name in names]
        cost = [f"{row['monthly_cost']:,.2f}" if "monthly_cost" in row else "?"] if has_costs else []
        table.add_row(shown(row["table"]), *cells, *cost)
    console.print(table)
    for row in rows:
        if row["expires_ms"] is not None:
            text = f"VACUUM may free the time travel of {row['table']} until {time_text(row['expires_ms'])}."
            console.print(shown(text), soft_wrap=True)
