"""`deltasnap inspect`: a version of a table."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.arguments import StorageOptions, TablePath, storage_options, timestamp_argument


def inspect_table(
    path: TablePath,
    version: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The version to show. Default: the latest.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Show the version at this time (ISO 8601; without an offset: local time)."),
    ] = None,
    option: StorageOptions = None,
    commits: Annotated[int, typer.Option(metavar="N", min=1, help="The number of commits to show.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a Delta table: protocol, schema, counts, log segment, checkpoint lag, history. Needs no configuration.

    Faults of the table come first, on stderr. If the latest version cannot be read, shows the newest readable one.
    Exits with 1 unless the requested version is shown completely.
    """
    if version is not None and timestamp is not None:
        raise typer.BadParameter("Give --version or --timestamp, not both.")
    options = storage_options(option)
    timestamp_ms = None if timestamp is None else timestamp_argument(timestamp)
    from deltasnap_assets.command.views.inspect_view import inspect
    from deltasnap_assets.command.views.inspection import Wanted

    wanted = Wanted(version=version, timestamp_ms=timestamp_ms, commits=commits)
    if not inspect(path, options, wanted, as_json=as_json):
        raise typer.Exit(1)
