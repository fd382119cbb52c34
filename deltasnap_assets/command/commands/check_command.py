"""`deltasnap check`: the asset checks of tables, as a gate for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from deltasnap_assets.command.arguments import InCatalog, StorageOptions, check_file_to_write, storage_options
from deltasnap_assets.command.completion import check_names, table_names
from deltasnap_assets.command.output import AsJson, CheckFormat


def check(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET",
            help="Names of tables, folders or URLs; * and ? match.",
            autocompletion=table_names,
        ),
    ],
    fail_on: Annotated[
        Literal["error", "warn"], typer.Option("--fail-on", metavar="LEVEL", help="error, or warn: warnings fail too.")
    ] = "error",
    select: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKS", help="The checks, separated by commas. Default: all.", autocompletion=check_names
        ),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="LIMIT=VALUE", help="A limit, as in `checks` of the configuration; repeatable."),
    ] = None,
    form: Annotated[
        CheckFormat | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="table, json, csv, junit, or github (annotations). Default: table.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write to a file. Default: stdout.")
    ] = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
) -> None:
    """Evaluate the checks of tables, for CI. Needs no configuration, and no Spark for tables that fit into memory.

    Exits with 1 if a check fails (a damaged log fails a check), with 3 if there is no table or its storage cannot be
    reached, and with 2 if the command line is wrong.
    """
    if as_json and form not in (None, "json"):
        raise typer.BadParameter("Give --json or --format, not both.")
    form = "json" if as_json else form or "table"
    options = storage_options(option)
    if output is not None:
        check_file_to_write(output)
    from deltasnap_assets.command.targets import targets_of
    from deltasnap_assets.command.views.check_view import Gate, check_targets, chosen_checks, limits_of

    found = targets_of(targets, options, catalog)
    tables = check_targets(found, chosen_checks(select), limits_of(limits or []))
    gate = Gate(tables=tables, fails_on_warnings=fail_on == "warn")
    text = gate.text(form)
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
    raise typer.Exit(gate.exit_code)
