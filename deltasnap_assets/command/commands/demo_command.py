"""`deltasnap demo`: a demo table and its assets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltasnap_assets.command.endings import require_package


def demo(
    remote: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A Spark Connect server: sc://HOST:PORT."),
    ] = None,
) -> None:
    """Write a demo table, materialize each of its versions with Dagster, and show the result.

    A second run adds a few commits and refreshes only those. All files are below .deltasnap in this folder.
    """
    require_package("deltalake", "demo")
    from pydantic import ValidationError

    from deltasnap_assets.settings.config import SparkSettings
    from deltasnap_assets.settings.loading import message_of
    from deltasnap_assets.spark.java import check_java

    try:
        spark = SparkSettings(remote=remote)
    except ValidationError as error:
        raise typer.BadParameter(message_of(error.errors()[0]), param_hint="--remote") from error
    if remote is None:
        check_java()
    from deltasnap_assets.command.local.demo_run import run_demo

    if not run_demo(Path.cwd(), spark):
        raise typer.Exit(1)
