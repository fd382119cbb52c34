"""Commands that run Dagster on this machine: its UI, and a demo."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from deltasnap_assets.command.endings import fail, require_package


def ui(
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65535, help="The port of the UI.")] = 3000,
    host: Annotated[str, typer.Option(metavar="HOST", help="The address of the UI.")] = "127.0.0.1",
) -> None:
    """Start Dagster's UI for the configured tables, and follow their new commits. Ctrl-C stops it.

    Without a configuration, it follows the table of `deltasnap demo` in this folder, if there is one.
    """
    require_package("dagster_webserver", "ui")
    family = _family_of(host)
    from deltasnap_assets.command.local.local_instance import use_local_instance
    from deltasnap_assets.definitions import UI_VARIABLE
    from deltasnap_assets.settings.loading import CONFIG_FILE, CONFIG_VARIABLE, DEMO_FOLDER, find_config, load_settings
    from deltasnap_assets.spark.java import check_java
    from deltasnap_assets.spark.session.needed import reason_for_spark

    demo_config = Path.cwd() / DEMO_FOLDER / CONFIG_FILE
    if find_config(os.environ, Path.cwd()) is None and demo_config.exists():
        os.environ[CONFIG_VARIABLE] = str(demo_config)
    # Checked here, an error is one line. Dagster's code server would print a page.
    settings = load_settings()
    if settings.spark.remote is None and reason_for_spark(settings) is not None:
        check_java()
    _check_port(family, host, port)
    use_local_instance()
    os.environ[UI_VARIABLE] = "1"
    arguments = ["dev", "-m", "deltasnap_assets.definitions", "--host", host, "--port", str(port)]
    # Dagster replaces this process: it receives signals directly, and its exit code is ours. A script that starts us in
    # the background ignores SIGINT. Dagster would inherit that, and SIGINT could not stop it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # This warning addresses users who type `dagster dev`.
    os.environ.setdefault("PYTHONWARNINGS", "ignore:Function `dev_command` is superseded")
    os.execv(sys.executable, [sys.executable, "-m", "dagster", *arguments])


def _family_of(host: str) -> socket.AddressFamily:
    """Return the address family of a host, IPv4 or IPv6. Errors: typer.BadParameter."""
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise typer.BadParameter(f"{host!r} is not an address ({reason}).", param_hint="--host") from error


def _check_port(family: socket.AddressFamily, host: str, port: int) -> None:
    """Unless Dagster's webserver can open the port, print why and exit."""
    with socket.socket(family) as server:
        try:
            server.bind((host, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                fail(f"Port {port} of {host} cannot be opened: {error.strerror}. Choose another with --port or --host.")
    # A port is not in use while only its last connections close: a webserver can open it.
    with socket.socket(family) as client:
        if client.connect_ex((host, port)) == 0:
            fail(f"Port {port} of {host} is in use. Choose another with --port.")


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
