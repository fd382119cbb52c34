"""`deltasnap refresh`: materializes new versions in this process."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from deltasnap_assets.command.completion import table_names
from deltasnap_assets.command.endings import fail
from deltasnap_assets.command.output import AsJson, Form, OutputFormat, chosen_format, print_rows
from deltasnap_assets.command.terminal import print_problem

if TYPE_CHECKING:
    from deltasnap_assets.settings.config import Settings


def refresh(
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE", help="Tables to refresh. Default: all.", autocompletion=table_names),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show which versions it would materialize, and materialize nothing.")
    ] = False,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Materialize the new versions of the configured tables now, in this process.

    Exits with 1 if a run fails, or if a table is `broken` in the fleet: an error in a version that is not selected
    counts too. All other versions and tables are still materialized.
    """
    from deltasnap_assets.command.table_on_spark import settings_with_session
    from deltasnap_assets.command.views.refresh_view import Refreshed, refresh_tables, report_unfollowed_tables
    from deltasnap_assets.spark.java import JavaError, check_java
    from deltasnap_assets.spark.session.needed import reasons_for_spark

    form, settings = chosen_format(form, as_json), settings_with_session()
    known = [table.name for table in settings.tables]
    if not tables:
        report_unfollowed_tables(settings)
    if not known:
        fail("There is no table to refresh: the patterns in `discover` match no tables.")
    if unknown := [name for name in tables or [] if name not in known]:
        raise typer.BadParameter(f"No table named {', '.join(unknown)}. Configured: {', '.join(known)}.")
    names = list(dict.fromkeys(tables or known))
    if dry_run:
        _show_plan(settings, names, form)
        return
    need_java = {} if settings.spark.remote else reasons_for_spark(settings, map(settings.table, names))
    without_java = dict[str, Refreshed]()
    try:
        if need_java:
            check_java()
    except JavaError as error:
        without_java = {name: Refreshed(error=str(error)) for name in need_java}
        if form == "table":
            print_problem(Console(stderr=True), "error", f"{', '.join(need_java)}: {error}")
    others = [name for name in names if name not in without_java]
    is_silent = form != "table"
    done = without_java | (refresh_tables(settings, others, is_silent=is_silent) if others else {})
    if is_silent:
        print_rows(form, [{"table": name, **asdict(done[name])} for name in names])
    if any(each.error for each in done.values()):
        raise typer.Exit(1)


def _show_plan(settings: Settings, names: list[str], form: OutputFormat) -> None:
    from deltasnap_assets.command.views.refresh_view import planned_versions

    failed, rows = False, []
    for name in names:
        versions, note = planned_versions(settings, name)
        failed = failed or versions is None
        rows.append({"table": name, "versions": None if versions is None else versions.text(), "note": note})
    if form != "table":
        print_rows(form, rows)
    for row in rows if form == "table" else ():
        if row["versions"] is None:
            print_problem(Console(stderr=True), "error", f"{row['table']}: {row['note']}")
        else:
            note = f" ({row['note']})" if row["note"] else ""
            typer.echo(f"{row['table']}: {row['versions'] or 'nothing to do'}{note}")
    if failed:
        raise typer.Exit(1)
