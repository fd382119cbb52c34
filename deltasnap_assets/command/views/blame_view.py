"""`deltasnap blame`: reads the history of one row, and shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from deltasnap_assets.command.output import OutputFormat, print_rows
from deltasnap_assets.command.table_on_spark import Place, spark_aside, versions_of
from deltasnap_assets.command.terminal import output_console, print_problem, shown, working
from deltasnap_assets.command.views.bisect_view import commit_json
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.exact_values import json_rows, value_text
from deltasnap_assets.provenance import made_by
from deltasnap_assets.quantities import time_text
from deltasnap_core.errors import PredicateError
from deltasnap_core.support import RowChange, RowHistory


def show_history(place: Place, key: Mapping[str, str], first: int | None, form: OutputFormat) -> bool:
    """Print the history of the rows with a key, and return whether there is one.

    first: as in `Table.blame`. Errors: typer.BadParameter for an invalid key; JavaError; FaultyTableError; those of
    `Table.blame`.
    """
    with explaining(place.path, place.options), working("Reading"), spark_aside(place.path):
        try:
            history = versions_of(place).blame(key, first=first)
        except PredicateError:
            raise
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
    if form == "table":
        _print(output_console(), history)
    else:
        unread = [{"version": step.version, "problem": step.problem} for step in history.unread]
        print_rows(form, [_json(change) for change in history.changes], where=history.where, unread=unread)
    return bool(history.changes)


def _json(change: RowChange) -> dict[str, Any]:
    return {
        "version": change.version,
        "first_possible": change.first_possible,
        "change": change.change,
        **commit_json(change.commit),
        "old": _values(change.old),
        "new": _values(change.new),
    }


def _values(row: pa.Table | None) -> dict[str, Any] | None:
    return None if row is None else dict(zip(row.column_names, next(json_rows(row)), strict=True))


def _print(console: Console, history: RowHistory) -> None:
    table = Table("version", "committed (UTC)", "change", "operation", "by", "values", box=None, header_style="dim")
    for column in table.columns[3:]:
        column.overflow = "fold"
    for change in history.changes:
        commit = change.commit
        is_exact = change.first_possible == change.version
        version = f"{change.version}" if is_exact else f"{change.first_possible}-{change.version}"
        cells = ("", "", "")
        if commit is not None:
            by = "; ".join(f"{name} {text}" for name, text in made_by(commit).items())
            cells = time_text(commit.timestamp).removesuffix(" UTC"), commit.operation or "", by
        values = ", ".join(_value_texts(change))
        table.add_row(version, cells[0], change.change, *map(shown, (*cells[1:], values)))
    if history.changes:
        console.print(table)
    else:
        console.print(shown(f"No version has a row with {history.where}."), soft_wrap=True)
    if history.unread:
        last = history.unread[-1]
        text = f"{len(history.unread)} versions were not read. Version {last.version}: {last.problem}"
        print_problem(Console(stderr=True), "warning", text)


def _value_texts(change: RowChange) -> Iterator[str]:
    """Yield the values of a change: of an update, only those that changed. Null: the other row lacks the column."""
    old, new = _values(change.old), _values(change.new)
    if old is None or new is None:
        yield from (f"{name}={_text(value)}" for name, value in (old or new or {}).items())
        return
    for name in old | new:
        before, after = _text(old.get(name)), _text(new.get(name))
        if before != after:  # -0.0 is another text than 0.0
            yield f"{name}: {before} -> {after}"


def _text(value: Any) -> str:
    text = value_text(value)
    return "null" if text is None else text
