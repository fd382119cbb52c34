"""Commands that do not start Spark. Each has `--json`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from deltasnap_assets.command.arguments import (
    InCatalog,
    StorageOptions,
    TablePath,
    TablePaths,
    check_file_to_write,
    storage_options,
    table_at,
    timestamp_argument,
)
from deltasnap_assets.command.output import AsJson, FleetFormat, Form, chosen_format, print_json, print_rows
from deltasnap_assets.command.rows.row_options import DEFAULT_LIMIT
from deltasnap_assets.command.terminal import output_console, print_line, print_notice, print_problem, shown
from deltasnap_assets.tables.fleet_totals import FleetOrder
from deltasnap_core.support import TableLevel

_ORDERS = f"The sort order: {', '.join(get_args(FleetOrder))}."
_ONLY = f"Show only tables in this condition: {', '.join(TableLevel)}; repeatable."
_MARKS = {"ok": "green", "warning": "yellow", "error": "red"}


def init(
    places: TablePaths,
    option: StorageOptions = None,
    out: Annotated[Path, typer.Option("--out", "--output", metavar="FILE", help="The file to write.")] = Path(
        "deltasnap.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Generate a commented deltasnap.yaml for existing tables. Reads the log of each table."""
    from deltasnap_assets.command.init import configuration, find_tables, secret_options, variable_of
    from deltasnap_assets.settings.config import DEFAULT_STORAGE
    from deltasnap_assets.settings.store_place import check_place

    form, options = chosen_format(form, as_json), storage_options(option)
    check_file_to_write(out)
    if out.exists() and not force:
        raise typer.BadParameter(f"{out} already exists. Use --force to overwrite it.", param_hint="--out")
    tables = find_tables(places, options)
    found = [table for table in tables if table.problem is None]
    if found:
        check_place(str(out.parent / DEFAULT_STORAGE), {}, ((table.path, options) for table in found))
        out.write_text(configuration(found, options, out.parent), encoding="utf-8")
    if form != "table":
        rows = [{"name": t.name, "path": t.path, "found": t.found, "problem": t.problem} for t in tables]
        print_rows(form, rows, file=str(out) if found else None)
    else:
        for table in tables:
            if table.problem is None:
                typer.echo(f"{table.name}: {table.found}")
            else:
                print_problem(Console(stderr=True), "error", f"{table.path}: {table.problem}")
        if (secrets := secret_options(options)) and found:
            typer.echo(f"Set these environment variables before use: {', '.join(map(variable_of, secrets))}.")
        typer.echo(f"Wrote {out}. Next: deltasnap ui" if found else "No table found. Nothing was written.")
    if len(found) < max(len(tables), 1):
        raise typer.Exit(1)


def history(
    path: TablePath,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="N",
            min=1,
            help=f"The maximum number of commits, newest first. Default: {DEFAULT_LIMIT}.",
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only commits from this time on (ISO 8601; without an offset: local time)."),
    ] = None,
    operation: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only commits of this operation, such as MERGE; repeatable."),
    ] = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show who committed what and when, newest first.

    Missing and unreadable commits also have a line. Exits with 1 if there is one, or if the log has another fault that
    keeps a version from loading.
    """
    from deltasnap_assets.command.views.condition_view import explaining, fault_lines, without_listed_warnings
    from deltasnap_assets.command.views.history import (
        LostCommits,
        history_json,
        history_table,
        read_wanted_history,
    )
    from deltasnap_core import TableLog

    form = chosen_format(form, as_json)
    since_ms = None if since is None else timestamp_argument(since, "--since")
    path, options = table_at(path, option, catalog)
    with explaining(path, options), without_listed_warnings():
        log = TableLog.for_path(path, options)
        found = read_wanted_history(log, limit or DEFAULT_LIMIT, since_ms, operation or ())
    for mark, text in fault_lines(found.faults):
        print_problem(Console(stderr=True), mark, text)
    if form != "table":
        print_rows(form, history_json(found.entries))
    else:
        console = output_console()
        console.print(history_table(found.entries, console.width))
    if found.is_cut and limit is None:
        text = f"Only {DEFAULT_LIMIT} commits are shown; there are more. --limit N shows N of them."
        print_notice(text)
    if any(fault.mark == "error" for fault in found.faults) or any(isinstance(e, LostCommits) for e in found.entries):
        raise typer.Exit(1)


def diff(
    path: TablePath,
    one: Annotated[int, typer.Argument(metavar="V1", min=0, help="A version.")],
    other: Annotated[int, typer.Argument(metavar="V2", min=0, help="Another version.")],
    option: StorageOptions = None,
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show the differences between two versions: schema, properties, protocol, domains, files.

    A file is a data file with its deletion vector: a changed vector counts as a removed and an added file. If the files
    of the earlier version cannot be read, diff prints a warning and uses only the commits between the versions: it then
    may show a file as added although it was in the table before. Exits with 1 if one of the versions, or a commit
    between them, cannot be read.
    """
    from deltasnap_assets.command.views.diff import compare_versions, show_diff

    form = chosen_format(form, as_json, has_rows=False)
    path, options = table_at(path, option, catalog)
    found = compare_versions(path, options, one, other)
    if found.assumed is not None:
        warning = f"The files of version {found.first} cannot be read, so files that it contains may be shown as added."
        print_problem(Console(stderr=True), "warning", f"{warning} {found.assumed}")
    if form == "json":
        print_json(found.to_json())
    else:
        show_diff(output_console(), found)


def doctor(form: Form = None, as_json: AsJson = False) -> None:
    """Check everything that a refresh needs: Java, Spark, configuration, tables, store, runs.

    Exits with 1 if a check fails, or if other readers cannot read a table.
    """
    from deltasnap_assets.command.doctor import Finding, examine, is_well

    form, findings = chosen_format(form, as_json), list[Finding]()
    for finding in examine():
        findings.append(finding)
        if form == "table":
            mark = shown(f"{finding.mark:8}", style=_MARKS[finding.mark])
            print_line(Console(), mark + shown(f"{finding.subject}: {finding.message}"))
            if finding.advice:
                print_line(Console(), shown(f"        {finding.advice}"))
    if form != "table":
        print_rows(form, [_finding_json(finding) for finding in findings])
    if not is_well(findings):
        raise typer.Exit(1)


def fleet(
    sort: Annotated[FleetOrder, typer.Option(metavar="ORDER", help=_ORDERS)] = "condition",
    only: Annotated[list[TableLevel] | None, typer.Option(metavar="CONDITION", help=_ONLY)] = None,
    how: Annotated[
        FleetFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="table, json, csv, or prometheus: gauges for the textfile collector. Default: table.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show all followed tables, the worst first: condition, last commit, size, growth, and what VACUUM would free.

    Reads only the store. The condition is as of the last time a sensor, schedule or refresh read the log.
    """
    from deltasnap_assets.command.views.fleet.fleet_view import fleet_text, read_rows, show_fleet
    from deltasnap_assets.settings.loading import load_settings

    if as_json and how not in (None, "json"):
        raise typer.BadParameter("Give --json or --format, not both.")
    rows, chosen = read_rows(load_settings(), sort, only or ())
    how = "json" if as_json else how or "table"
    if how == "table":
        show_fleet(output_console(), rows, chosen)
    else:
        typer.echo(fleet_text(rows, chosen, how), nl=False)


def _finding_json(finding: Any) -> dict[str, Any]:
    values = {name: getattr(finding, name) for name in ("subject", "mark", "message", "advice")}
    return values if finding.condition is None else {**values, "condition": finding.condition.to_json()}
