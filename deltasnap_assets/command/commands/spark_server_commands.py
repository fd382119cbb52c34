"""`deltasnap spark-server`: a warm Spark Connect server on this machine; `deltasnap warm-up`: an archive of classes."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.help_text import CommandLine
from deltasnap_assets.command.prerequisites import require_package

spark_server = CommandLine(
    no_args_is_help=True, help="Manage a warm Spark Connect server on this machine for all runs."
)


@spark_server.command()
def start(
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65535, help="The port, on 127.0.0.1.")] = 15002,
) -> None:
    """Start a server with the configured Spark settings, and wait until it responds."""
    require_package("grpc", "connect")
    from deltasnap_assets.settings.loading import load_spark_settings
    from deltasnap_assets.spark.connect_server import DEFAULT_FOLDER, exercise_server, running_server, start_server

    is_warm = running_server(DEFAULT_FOLDER) is not None
    server = start_server(load_spark_settings(), DEFAULT_FOLDER, port)
    if not is_warm and not exercise_server(server):
        typer.echo("warning: The first queries on the server failed, so it is not warm yet.", err=True)
    typer.echo(
        f"The Spark Connect server is ready. To use it, add to deltasnap.yaml:\n\nspark:\n  remote: {server.url}\n"
    )
    typer.echo(f"It runs until `deltasnap spark-server stop`. Its log: {DEFAULT_FOLDER / 'server.log'}")


@spark_server.command()
def stop() -> None:
    """Stop the server of this folder."""
    from deltasnap_assets.spark.connect_server import DEFAULT_FOLDER, stop_server

    server = stop_server(DEFAULT_FOLDER)
    typer.echo("No server is running in this folder." if server is None else f"The server at {server.url} has stopped.")


@spark_server.command()
def status() -> None:
    """Show whether the server of this folder is running and responds. Exits with 1 unless it does."""
    from deltasnap_assets.spark.connect_server import DEFAULT_FOLDER, answers, running_server

    server = running_server(DEFAULT_FOLDER)
    if server is None:
        typer.echo("No server is running in this folder.")
        raise typer.Exit(1)
    if not answers(server.port):
        typer.echo(
            f"The server at {server.url} is starting or does not respond. Its log: {DEFAULT_FOLDER / 'server.log'}"
        )
        raise typer.Exit(1)
    typer.echo(f"The server at {server.url} is ready.")


def warm_up() -> None:
    """Create an archive of Java classes, so that Spark sessions on this machine start faster.

    Takes a minute and 200 MB below ~/.cache/deltasnap, once for each Java and PySpark on this machine.
    """
    from deltasnap_assets.spark.warm_up import make_archive

    archive = make_archive()
    typer.echo(f"{archive}: {archive.stat().st_size >> 20} MiB of classes. New sessions use it.")
