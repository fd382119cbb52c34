"""The options of commands that print rows: format, file, limit. Loads neither PySpark nor PyArrow."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from deltasnap_assets.command.arguments import check_file_to_write

DEFAULT_LIMIT = 20
MAX_TABLE_ROWS = 1_000
_MOST_ROWS = 2**31 - 2
"""Spark's limits are integers of 32 bits. One more row shows whether rows are left out."""


RowFormat = Literal["table", "csv", "json", "parquet"]
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

_ENDINGS: Mapping[str, RowFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
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
        return self.form == "table" and self.limit == MAX_TABLE_ROWS


def row_destination(form: RowFormat | None, out: Path | None, limit: int | None) -> RowDestination:
    """Return the destination for values of the options. Errors: typer.BadParameter, before anything is read."""
    chosen = form or ("table" if out is None else _ENDINGS.get(out.suffix.lower(), "table"))
    if chosen == "parquet" and out is None and sys.stdout.isatty():
        raise typer.BadParameter("Parquet is binary. Add -O FILE, or redirect stdout.", param_hint="--format")
    if out is not None:
        check_file_to_write(out)
    rows = DEFAULT_LIMIT if limit is None else min(limit, _MOST_ROWS)
    if chosen == "table" and not 0 < rows <= MAX_TABLE_ROWS:
        rows = MAX_TABLE_ROWS
    return RowDestination(form=chosen, out=out, limit=rows or None, is_default_limit=limit is None)
