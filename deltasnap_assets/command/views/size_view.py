"""The storage bills of `deltasnap size`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from deltasnap_assets.command.commands.size_command import Grouping
from deltasnap_assets.command.output import OutputFormat, print_rows
from deltasnap_assets.command.table_on_spark import delta_log_of, sessions_of, spark_aside
from deltasnap_assets.command.targets import Target
from deltasnap_assets.command.terminal import output_console, print_line, print_problem, shown, working
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.command.views.vacuum_view import age_text
from deltasnap_assets.quantities import bytes_text, counted, time_text
from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.loading import find_config, read_settings
from deltasnap_assets.settings.located import located
from deltasnap_assets.texts import lines_joined, visible
from deltasnap_core import DeltaLog, DeltaSnapError, MetadataTables, SnapshotStore
from deltasnap_core.support import StorageClass, redacted

_GB = 10**9
_MAX_GROUPS = 50
_WIDE, _MIN_TEXT_WIDTH = 110, 10
"""The columns of a terminal with room for all classes, and of a column of texts."""
_Row = dict[str, Any]
_CLASSES = {f"{each}_bytes": each.value.replace("_", " ") for each in StorageClass} | {"total_bytes": "total"}
_GROUP_NAMES: Mapping[Grouping | None, Sequence[str]] = {
    None: (),
    "partition": ("partition",),
    "age": ("age",),
    "writer": ("operation", "job"),
}
_SUMMED = (*_CLASSES, "num_files", "store_bytes", "deleted_records", "monthly_cost")


def show_bills(
    targets: Iterable[Target], form: OutputFormat, by: Grouping | None, price: float | None, *, list_files: bool
) -> None:
    """Print the bill of each table once, and what could not be read; then exit with 1.

    by: None: one row. price: of 10^9 bytes for a month; None: unknown.
    """
    rows, errors, once = list[_Row](), list[_Row](), dict[str, Target]()
    for target in targets:
        once.setdefault(target.place, target)
    for target in once.values():
        name = redacted(target.name)
        try:
            for row in _rows(target, by, list_files=list_files):
                has_cost = price is not None and row["total_bytes"] is not None
                cost = row["total_bytes"] / _GB * price if has_cost else None
                rows.append({"table": name, **row, "monthly_cost": cost})
        except DeltaSnapError as error:
            errors.append({"table": name, "error": visible(lines_joined(str(error)))})
            print_problem(Console(stderr=True), "error", f"{name}: {error}")
    if form == "table":
        _print(output_console(), rows, by, has_costs=price is not None)
    else:
        print_rows(form, rows, price=price, totals=_totals(rows), errors=errors)
    if errors:
        raise typer.Exit(1)


def _rows(target: Target, by: Grouping | None, *, list_files: bool) -> list[_Row]:
    """Return the row of a table, or those of its groups. Errors: DeltaSnapError."""
    if target.table is None:
        raise DeltaSnapError(target.problem or "there is no table")
    table = located(target.table)
    with explaining(table.path, table.storage_options), working("Listing"), spark_aside(table.path):
        log = delta_log_of(table.path, table.storage_options)
        tables = _stored_tables(target, log) if by == "writer" else None
        tables = tables or log.update().tables
        return _groups(tables, by) if by else [_bill(tables, target, list_files=list_files)]


def _bill(tables: MetadataTables, target: Target, *, list_files: bool) -> _Row:
    bill = tables.storage_bill(list_files=list_files)
    return {**asdict(bill), "total_bytes": bill.total_bytes, "store_bytes": _store_bytes(target)}


def _groups(tables: MetadataTables, by: Grouping) -> list[_Row]:
    """Return the groups: ages ascending, others by their size, the largest first."""
    rows: list[_Row] = tables.storage_groups(by).toArrow().to_pylist()
    if by == "age":
        return sorted(rows, key=lambda row: (row["age_days"] is None, row["age_days"]))
    return sorted(rows, key=lambda row: (-(row["total_bytes"] or 0), *_group_texts(row, by)))


def _stored_tables(target: Target, log: DeltaLog) -> MetadataTables | None:
    """Return the tables of the latest version as stored: the store may have commits that its log no longer has.

    None: the store does not have this version.
    """
    settings = _settings_of(target)
    if settings is None or target.table is None:
        return None
    name, engine = target.table.name, settings.spark.engine
    sessions = sessions_of(settings.spark)
    store = SnapshotStore.open(sessions, settings.storage, settings.storage_options, engine=engine)
    with suppress(DeltaSnapError):
        common, version = store.common_version(name, log.context.table_log).version, log.update().version
        return store.tables(name, version) if common == version else None
    return None


def _store_bytes(target: Target) -> int | None:
    """Return the bytes of the versions in the store; None: there are none, or the store cannot be read."""
    settings = _settings_of(target)
    with suppress(DeltaSnapError):
        if settings is not None and target.table is not None:
            return store_of(settings).usage(target.table.name).size_in_bytes or None
    return None


def _settings_of(target: Target) -> Settings | None:
    """Return the settings with a table; None: it is not a configured one."""
    file = find_config(os.environ, Path.cwd())
    if file is None or target.table is None or target.name not in (target.table.name, target.table.table):
        return None
    return read_settings(file)


def _totals(rows: Sequence[_Row]) -> _Row:
    """Return the sums over the rows; null: a row does not have it."""
    totals: _Row = {"tables": len({row["table"] for row in rows})}
    for name in _SUMMED:
        values = [row.get(name) for row in rows]
        known = [value for value in values if value is not None]
        totals[name] = sum(known) if len(known) == len(values) else None
    return totals


def _print(console: Console, rows: Sequence[_Row], by: Grouping | None, *, has_costs: bool) -> None:
    table = Table(box=None, header_style="dim")
    for name in ("table", *_GROUP_NAMES[by]):
        table.add_column(name, overflow="fold", min_width=_MIN_TEXT_WIDTH)
    is_wide = console.width >= _WIDE  # a narrow terminal shows only the classes that have files
    classes = [name for name in _CLASSES if is_wide or any(row[name] != 0 for row in rows)]
    for name in (*map(_CLASSES.__getitem__, classes), *(["a month"] if has_costs else [])):
        table.add_column(name, justify="right", no_wrap=True)
    for texts, row in _lines(rows, by):
        costs = [_cost_text(row)] if has_costs else []
        table.add_row(*map(shown, texts), *(_size_text(row[name]) for name in classes), *costs)
    console.print(table)
    for row in rows if by is None else ():
        for note in _notes(row):
            print_line(console, shown(note))


def _lines(rows: Sequence[_Row], by: Grouping | None) -> Iterator[tuple[list[str], _Row]]:
    """Yield the lines of the table: texts, and the row with the sizes. Last come the sums, if there are several."""
    count = 1 + len(_GROUP_NAMES[by])
    for name, of_table in groupby(rows, key=itemgetter("table")):
        found = list(of_table)
        for row in found[:_MAX_GROUPS]:
            yield [name, *_group_texts(row, by)], row
        if rest := found[_MAX_GROUPS:]:
            yield [name, f"and {len(rest):,} more", *[""] * (count - 2)], _totals(rest)
    if len(rows) > 1:
        totals = _totals(rows)
        yield [counted(totals["tables"], "table"), *[""] * (count - 1)], totals


def _group_texts(row: _Row, by: Grouping | None) -> list[str]:
    match by:
        case None:
            return []
        case "age":
            return [age_text(row["age_days"])]
        case "partition":
            return [_partition_text(row["partition"])]
        case "writer":
            return [row["operation"] or "unknown", row["job"] or ""]


def _partition_text(values: _Row | None) -> str:
    if values is None:
        return "none"
    return "/".join(f"{name}={'null' if value is None else value}" for name, value in values.items()) or "all"


def _notes(row: _Row) -> Iterator[str]:
    if row["expires_ms"] is not None:
        yield f"VACUUM may free the time travel of {row['table']} until {time_text(row['expires_ms'])}."
    if row["deleted_records"]:
        yield f"Live files of {row['table']} have {counted(row['deleted_records'], 'deleted row')}."
    if row["store_bytes"]:
        yield f"The store has {bytes_text(row['store_bytes'])} of {row['table']}."


def _size_text(size: int | None) -> str:
    return "?" if size is None else bytes_text(size)


def _cost_text(row: _Row) -> str:
    return "?" if row["monthly_cost"] is None else f"{row['monthly_cost']:,.2f}"
