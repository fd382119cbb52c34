"""The formats of commands that print a table: for reading, as JSON, as CSV. Scripts can rely on the last two."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import typer

from deltasnap_assets.texts import visible_value

SCHEMA_VERSION = 1
"""The version of the JSON of all commands. Removing a key, or changing its meaning, raises it."""


OutputFormat = Literal["table", "json", "csv"]
CheckFormat = Literal["table", "json", "csv", "junit", "github"]
FleetFormat = Literal["table", "json", "csv", "prometheus"]
Form = Annotated[
    OutputFormat | None,
    typer.Option("--format", metavar="FORMAT", help="table, json or csv. Default: table.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="The same as --format json.")]


def chosen_format(form: OutputFormat | None, as_json: bool, *, has_rows: bool = True) -> OutputFormat:
    """Return the format. has_rows: whether the command prints rows, which can be CSV. Errors: typer.BadParameter."""
    if as_json and form not in (None, "json"):
        raise typer.BadParameter("Give --json or --format, not both.")
    if form == "csv" and not has_rows:
        raise typer.BadParameter("This command prints no rows: choose table or json.", param_hint="--format")
    return "json" if as_json else form or "table"


def json_text(values: Mapping[str, Any]) -> str:
    """Return a JSON object with the version of its schema. Values that JSON lacks become text."""
    return json.dumps({"schema_version": SCHEMA_VERSION, **values}, default=str)


def print_json(values: Mapping[str, Any]) -> None:
    """Print `json_text`."""
    typer.echo(json_text(values))


def print_rows(form: OutputFormat, rows: Sequence[Mapping[str, Any]], **beside: Any) -> None:
    """Print rows as JSON (under `rows`, with values beside them) or as CSV (the rows alone)."""
    if form == "json":
        print_json({**beside, "rows": rows})
    else:
        sys.stdout.write(csv_text(rows))  # `typer.echo` removes escapes


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as CSV with a header; empty without rows. Null is an empty field, a list or an object is JSON."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, lineterminator="\n")
    if names:
        writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return file.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool | Mapping | Sequence) and not isinstance(value, str):
        return json.dumps(value, default=str)
    return visible_value(value, len(value)) if isinstance(value, str) and sys.stdout.isatty() else value
