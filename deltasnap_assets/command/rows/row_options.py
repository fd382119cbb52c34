"""The options of commands that print rows: format, file, limit. Loads neither PySpark nor PyArrow."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deltasnap_assets.command.arguments import check_file_to_write

DEFAULT_LIMIT = 20
MAX_TABLE_ROWS = 1_000
_MOST_ROWS = 2**31 - 2
"""Spark's limits are integers of 32 bits. One more row shows whether rows are left out."""


class RowFormat(StrEnum):
    """A format for rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


FormatOption = Annotated[
    RowFormat | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="table, csv, json (one object per line) or parquet. Default: from the extension of FILE, otherwise table.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", "--output", "-O", metavar="FILE", help="Write to a file, replacing it. Default: stdout."),
]
_LIMIT_HELP = f"The maximum number of rows; 0: all (format table: {MAX_TABLE_ROWS:,}). Default: {DEFAULT_LIMIT}."
LimitOption = Annotated[
    int | None,
    typer.Option("--limit", "-n", metavar="N", min=0, help=_LIMIT_HELP),
]

_ENDINGS = {
    ".csv": RowFormat.CSV,
    ".json": RowFormat.JSON,
    ".jsonl": RowFormat.JSON,
    ".ndjson": RowFormat.JSON,
    ".parquet": RowFormat.PARQUET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDestination:
    """Where rows go, how, and how many.

    out:   the file to write; None: stdout.
    limit: the number of rows; None: all.
    is_default_limit: whether the user did not choose the limit. If it truncates the output, a notice is printed.
    """

    form: RowFormat
    out: Path | None
    limit: int | None
    is_default_limit: bool

    @property
    def is_full_table(self) -> bool:
        """Whether the limit is the maximum of the format `table`, which is slow to align."""
        return self.form is RowFormat.TABLE and self.limit == MAX_TABLE_ROWS


def row_destination(form: RowFormat | None, out: Path | None, limit: int | None) -> RowDestination:
    """Return the destination for values of the options. Errors: typer.BadParameter, before anything is read."""
    chosen = form or (RowFormat.TABLE if out is None else _ENDINGS.get(out.suffix.lower(), RowFormat.TABLE))
    if chosen is RowFormat.PARQUET and out is None and sys.stdout.isatty():
        raise typer.BadParameter("Parquet is binary. Add -O FILE, or redirect stdout.", param_hint="--format")
    if out is not None:
        check_file_to_write(out)
    rows = DEFAULT_LIMIT if limit is None else min(limit, _MOST_ROWS)
    if chosen is RowFormat.TABLE and not 0 < rows <= MAX_TABLE_ROWS:
        rows = MAX_TABLE_ROWS
    return RowDestination(form=chosen, out=out, limit=rows or None, is_default_limit=limit is None)
