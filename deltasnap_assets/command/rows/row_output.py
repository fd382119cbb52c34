"""Writes rows as a readable table, CSV, JSON lines or Parquet, to stdout or to a file.

The table truncates values and escapes control characters. CSV on a terminal escapes control characters; in a pipe or a
file it has the exact values, in the forms of `exact_values`. JSON and Parquet are always exact.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from deltasnap_assets.command.arguments import is_device_or_pipe
from deltasnap_assets.command.rows.row_options import RowDestination, RowFormat
from deltasnap_assets.command.terminal import WIDEST, print_notice
from deltasnap_assets.exact_values import json_line, json_rows, value_text
from deltasnap_assets.texts import visible_value
from deltasnap_core import DeltaSnapError, Scan
from deltasnap_core.errors import PredicateError
from deltasnap_core.support import collected_rows, predicate_failures

_EMPTY = '""'
_LEAST_WIDTH = 8
"""The minimum width of a column on a terminal. With less, each row is shown as a list of its values."""


@contextmanager
def valid_condition(where: str | None) -> Iterator[None]:
    """Report a condition that is invalid, or that fails while rows are collected, as wrong usage of `--where`."""
    try:
        with predicate_failures(where):
            yield
    except PredicateError as error:
        place = "" if error.position is None else f" (at character {error.position + 1})"
        raise typer.BadParameter(f"{error.reason}{place}", param_hint="--where") from error


def collect_rows(frame: DataFrame, limit: int | None) -> tuple[pa.Table, bool]:
    """Return the first rows that Spark finds, in any order, in memory, and whether there are more. limit: None: all."""
    return cut_rows(collected_rows(frame if limit is None else frame.limit(limit + 1)), limit)


def collect_scan(scan: Scan, limit: int | None) -> tuple[pa.Table, bool]:
    """Return the rows of a scan as `collect_rows`. With a limit, it may read fewer files."""
    return cut_rows(scan.to_arrow() if limit is None else scan.take(limit + 1), limit)


def cut_rows(rows: pa.Table, limit: int | None) -> tuple[pa.Table, bool]:
    """Return the first rows, and whether there are more. limit: None: all."""
    is_cut = limit is not None and rows.num_rows > limit
    return rows.slice(0, limit) if is_cut else rows, is_cut  # without columns, it adds rows


def write_collected(rows: pa.Table, destination: RowDestination, *, is_cut: bool) -> None:
    """Write rows. If a limit that the user did not choose cut them, print a notice on stderr. Errors: as write_rows."""
    write_rows(rows, destination.form, destination.out)
    if is_cut and (destination.is_default_limit or destination.is_full_table):
        more = "--format csv --limit 0 shows all" if destination.is_full_table else "--limit 0 shows all"
        text = f"Only {destination.limit:,} rows are shown; there are more. {more}."
        print_notice(text)


def write_rows(rows: pa.Table, form: RowFormat, out: Path | None) -> None:
    """Write rows to a file, or to stdout. A closed pipe ends the output without an error.

    An existing file is replaced after all rows are written.
    Errors: DeltaSnapError for columns that the format does not allow; OSError.
    """
    names = rows.column_names
    if form in ("json", "parquet"):
        for index, name in enumerate(names):
            if name in names[:index]:
                raise DeltaSnapError(
                    f"Two columns are named {name}. Read them separately, or use the format csv or table."
                )
    if form == "parquet":
        for field in rows.schema:
            if _has_empty_struct(field.type):
                raise DeltaSnapError(
                    f"Column {field.name} of type {field.type} cannot be written as Parquet. Write JSON instead."
                )
    if out is not None:
        try:
            with _replaced(out) as file:
                _write(rows, form, file)
        except OSError as error:
            error.filename = error.filename or str(out)  # a full disk is reported without it
            raise
    elif sys.stdout.isatty() and form != "parquet":
        with _until_closed():
            for text in _texts(rows, form, Console()):
                sys.stdout.write(text)
    else:
        with _until_closed():
            _write(rows, form, sys.stdout.buffer)


def _has_empty_struct(data_type: Any) -> bool:
    """Return whether a type is, or contains, a struct without fields. Parquet has none."""
    parts = [data_type.field(place).type for place in range(data_type.num_fields)]
    return (pa.types.is_struct(data_type) and not parts) or any(map(_has_empty_struct, parts))


def _write(rows: pa.Table, form: RowFormat, file: BinaryIO) -> None:
    if form == "parquet":
        # Without the Arrow schema, which would contain the time zone of the session.
        pq.write_table(rows, pa.PythonFile(file, mode="w"), store_schema=False)
        return
    for text in _texts(rows, form, None):
        file.write(text.encode("utf-8"))


def _texts(rows: pa.Table, form: RowFormat, terminal: Console | None) -> Iterator[str]:
    match form:
        case "table":
            yield _table_text(rows, terminal)
        case "csv":
            write = _csv_field if terminal is None else _visible_csv_field
            yield _csv_line(rows.column_names, write)
            for row in json_rows(rows):
                yield _csv_line([value_text(value) for value in row], write)
        case "json":
            names = rows.column_names
            for row in json_rows(rows):
                yield f"{json_line(dict(zip(names, row, strict=True)))}\n"


def _csv_line(values: Sequence[str | None], write: Callable[[str | None], str]) -> str:
    # Readers skip a blank line, which would be a null alone.
    return f"{','.join(map(write, values)) or _EMPTY}\n"


def _csv_field(value: str | None) -> str:
    """Return a field as in RFC 4180. Null is empty, an empty string is quoted."""
    if value is None:
        return ""
    if not value:
        return _EMPTY
    if value != value.strip() or any(character in value for character in ',"\r\n'):
        return '"' + value.replace('"', '""') + '"'
    return value


def _visible_csv_field(value: str | None) -> str:
    return _csv_field(None if value is None else visible_value(value, len(value)))


def _table_text(rows: pa.Table, terminal: Console | None) -> str:
    """Return the rows as a table; on a terminal too narrow for the columns, each row as a list."""
    cells = [[_cell(value) for value in row] for row in json_rows(rows)]
    columns = [(Text(visible_value(field.name)), _is_number(field.type)) for field in rows.schema]
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, is_number in columns:
        table.add_column(name, justify="right" if is_number else "left", overflow="fold")
    for row in cells:
        table.add_row(*row)
    if terminal is None:
        whole = Console(file=io.StringIO(), width=WIDEST)
        terminal = Console(file=io.StringIO(), width=Measurement.get(whole, whole.options, table).maximum or 1)
    elif len(columns) * (_LEAST_WIDTH + 1) > terminal.width:
        table = _listed([name for name, _ in columns], cells)
    with terminal.capture() as captured:
        terminal.print(table)
    return captured.get()


def _listed(names: Sequence[Text], rows: Sequence[Sequence[Text]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for number, row in enumerate(rows, start=1):
        grid.add_row(Text(f"row {number}", style="dim"), "")
        for name, value in zip(names, row, strict=True):
            grid.add_row(name, value)
    return grid


def _cell(value: Any) -> Text:
    text = value_text(value)
    return Text("null", style="dim") if text is None else Text(visible_value(text))


def _is_number(data_type: Any) -> bool:
    types = pa.types
    return bool(types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type))


@contextmanager
def _replaced(out: Path) -> Iterator[BinaryIO]:
    """Yield a temporary file that replaces `out` at the end. If writing fails, `out` is unchanged.

    The target of a link is replaced, not the link. A device or a named pipe is written to.
    """
    if is_device_or_pipe(out):
        with suppress(BrokenPipeError), out.open("wb") as file:
            yield file
        return
    target = out.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def _until_closed() -> Iterator[None]:
    """End the output when the reader of a pipe closes it, as `head` does."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout again on exit.
        with Path(os.devnull).open("wb") as nothing:
            os.dup2(nothing.fileno(), sys.stdout.fileno())
