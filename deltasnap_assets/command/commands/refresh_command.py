"""`deltasnap refresh`: materializes new versions in this process."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from deltasnap_assets.command.endings import fail
from deltasnap_assets.command.terminal import print_problem


def refresh(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Tables to refresh. Default: all.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: the versions of each table, or its error.")
    ] = False,
) -> None:
    """Materialize the new versions of the configured tables now, in this process.

    Exits with 1 if a run fails, or if a table is `broken` in the fleet: an error in a version that is not selected
    counts too. All other versions and tables are still materialized.
    """
    from deltasnap_assets.command.views.refresh_view import Refreshed, refresh_tables, report_unfollowed_tables
    from deltasnap_assets.settings.loading import load_settings
    from deltasnap_assets.spark.java import JavaError, check_java
    from deltasnap_assets.spark.session.needed import reasons_for_spark

    settings = load_settings()
    known = [table.name for table in settings.tables]
    if not tables:
        report_unfollowed_tables(settings)
    if not known:
        fail("There is no table to refresh: the patterns in `discover` match no tables.")
    if unknown := [name for name in tables or [] if name not in known]:
        raise typer.BadParameter(f"No table named {', '.join(unknown)}. Configured: {', '.join(known)}.")
    names = list(dict.fromkeys(tables or known))
    need_java = {} if settings.spark.remote else reasons_for_spark(settings, map(settings.table, names))
    without_java = dict[str, Refreshed]()
    try:
        if need_java:
            check_java()
    except JavaError as error:
        without_java = {name: Refreshed(error=str(error)) for name in need_java}
        if not as_json:
            print_problem(Console(stderr=True), "error", f"{', '.join(need_java)}: {error}")
    others = [name for name in names if name not in without_java]
    done = without_java | (refresh_tables(settings, others, as_json=as_json) if others else {})
    if as_json:
        typer.echo(json.dumps({name: asdict(each) for name, each in done.items()}))
    if any(each.error for each in done.values()):
        raise typer.Exit(1)
