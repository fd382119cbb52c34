"""The output of `deltasnap verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Column, Table

from deltasnap_assets.command.output import OutputFormat, print_rows
from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.terminal import output_console, print_line, shown, working
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.quantities import bytes_text, counted

_MAX_ROWS = 50


def show_file_problems(path: str, storage_options: Mapping[str, Any], version: int | None, form: OutputFormat) -> None:
    """Print the files of a version (None: the latest) that are not in storage as in the log; exit with 1 for any.

    Errors: JavaError; FaultyTableError if a fault of the log is the cause; errors of loading and listing the table.
    """
    versions = () if version is None else (version,)
    with explaining(path, storage_options, *versions), working("Listing"), spark_aside(path):
        log = delta_log_of(path, storage_options)
        snapshot = log.update() if version is None else log.get_snapshot_at(version)
        problems = snapshot.tables.file_problems().orderBy("path").toArrow().to_pylist()
        num_files = snapshot.num_of_files
    if form != "table":
        print_rows(form, problems, path=path, version=snapshot.version, files=num_files)
    else:
        _print(output_console(), snapshot.version, num_files, problems)
    if is_damaged(problems):
        raise typer.Exit(1)


def is_damaged(problems: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether a file is missing or has another size. Some may not have been compared."""
    return any(row["certain"] for row in problems)


def _print(console: Console, version: int, num_files: int, problems: Sequence[Mapping[str, Any]]) -> None:
    """Print a version's files that are not in storage as in the log, or were not compared: rows of `file_problems`."""
    numbers = Counter(row["problem"] for row in problems)
    facts = [f"{number:,} {problem}" for problem, number in numbers.most_common()]
    files = f"Version {version} has {counted(num_files, 'file')}"
    print_line(console, shown(f"{files}: {', '.join(facts)}." if facts else f"{files}, all in storage."))
    if not problems:
        return
    table = Table(Column("file", overflow="fold"), "problem", box=None, header_style="dim")
    for name in ("size in the log", "size in storage"):
        table.add_column(name, justify="right")
    for row in sorted(problems, key=lambda row: not row["certain"])[:_MAX_ROWS]:
        sizes = ("" if row[name] is None else bytes_text(row[name]) for name in ("size", "listed_size"))
        table.add_row(shown(row["path"]), row["problem"], *sizes)
    if len(problems) > _MAX_ROWS:
        table.add_row(f"and {len(problems) - _MAX_ROWS:,} more")
    console.print(table)
