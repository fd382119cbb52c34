"""The `deltasnap` command. Each command imports what it needs when it runs, so that `--help` is fast."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from typer.exceptions import TyperException

from deltasnap_assets.command.arguments import StorageOptions, TablePath, storage_options, timestamp_argument
from deltasnap_assets.command.changes_command import changes
from deltasnap_assets.command.checkpoint_command import checkpoint
from deltasnap_assets.command.driver_commands import add_commands
from deltasnap_assets.command.help_text import CommandLine
from deltasnap_assets.command.scan_command import scan
from deltasnap_assets.command.terminal import WarningLines, error_text, prepare_terminal, print_problem
from deltasnap_assets.command.vacuum_command import vacuum
from deltasnap_assets.command.verify_command import verify
from deltasnap_assets.quantities import counted
from deltasnap_assets.settings.distribution import DISTRIBUTION, how_to_install
from deltasnap_core import DeltaSnapError

if TYPE_CHECKING:
    from deltasnap_assets.settings.config import Settings, SparkSettings
    from deltasnap_core import TableCondition

_MAX_ERROR_LENGTH = 1000
_INTERRUPTED = 128 + signal.SIGINT
_NEW_OBJECTS = 50_000
"""The number of new objects after which Python collects garbage. With the default of 700, it takes a tenth of the time
of a short command, which mostly loads modules.
"""

app = CommandLine(
    name="deltasnap",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> NoReturn:
    """Run a command and end the process. See `run`."""
    gc.set_threshold(_NEW_OBJECTS)
    try:
        run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.__context__, BrokenPipeError):
            code = 0  # the reader has seen enough, as with `head`: Typer and Rich exit with 1
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except (BrokenPipeError, AttributeError):  # the reader has seen enough, or stdout is closed
        pass
    except OSError as error:
        code = code or 1
        print_problem(Console(stderr=True), "error", f"stdout: {error.strerror}")
    with suppress(OSError, AttributeError):
        sys.stderr.flush()
    # A normal exit waits for threads whose requests nobody needs, and can abort while native threads still run.
    os._exit(code)


def run() -> NoReturn:
    """Run a command and raise SystemExit.

    A failure prints a line on stderr (for JSON also an object on stdout) and exits non-zero.
    """
    prepare_terminal()
    logging.getLogger("deltasnap_assets").addHandler(WarningLines(logging.WARNING))
    try:
        code = app(standalone_mode=False, prog_name="deltasnap")
        if code == _INTERRUPTED:  # Typer returns this code for Ctrl-C, earlier releases raise KeyboardInterrupt
            raise KeyboardInterrupt
        sys.exit(code)
    except TyperException as error:
        fail(_usage_text(error), code=error.exit_code)
    except DeltaSnapError as error:
        fail(*getattr(error, "lines", [str(error)]), condition=getattr(error, "condition", None))
    except KeyboardInterrupt:
        fail("interrupted", code=_INTERRUPTED)
    except Exception as error:
        if os.environ.get("DELTASNAP_DEBUG"):
            raise
        if isinstance(error, OSError) and (problem := _problem_of_stdout() or _problem_of_a_folder(error)) is not None:
            fail(problem)
        text = " ".join(str(error).split())[:_MAX_ERROR_LENGTH]
        fail(f"{type(error).__name__}: {text} (set DELTASNAP_DEBUG=1 for a traceback)")


def fail(*messages: str, code: int = 1, condition: TableCondition | None = None) -> NoReturn:
    """Print each message as a line on stderr and exit. If the output is JSON, also print them on stdout as `error`.

    condition: of the table of the command; printed as JSON only.
    """
    shown = [message for message in messages if message]
    for message in shown:
        print_problem(Console(stderr=True), "error", message)
    if shown and _prints_json(sys.argv[1:]):
        known = {} if condition is None else {"condition": condition.to_json()}
        with suppress(OSError):  # writing to stdout may be the failure, if its disk is full
            typer.echo(json.dumps({"error": error_text(" ".join(shown)), **known}))
    _flush_stdout()
    sys.exit(code)


def _prints_json(arguments: Sequence[str]) -> bool:
    """Return whether a command prints one JSON value. `scan` and `changes --format json` print one for each row."""
    is_fleet = arguments[:1] == ["fleet"] and "--format json" in " ".join(arguments).replace("=", " ")
    return "--json" in arguments or is_fleet


def _problem_of_stdout() -> str | None:
    """Return why the output cannot be written as a sentence; None: it is written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return f"stdout: {error.strerror}."
    return None


def _problem_of_a_folder(error: OSError) -> str | None:
    """Return an error of a local file or folder as a sentence; None: it names no file."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return "The current folder was deleted. Change to another folder."
    if not isinstance(error.filename, str | bytes) or error.strerror is None:
        return None
    advice = " Correct its permissions, or change to another folder." if isinstance(error, PermissionError) else ""
    return f"{os.fsdecode(error.filename)}: {error.strerror}.{advice}"


def _flush_stdout() -> None:
    """Flush stdout. If that fails, discard the buffer, because Python would fail again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _usage_text(error: TyperException) -> str:
    """Return the error in a command line and where to find help; empty if the help was printed instead."""
    text = error.format_message().strip().replace("Value error, ", "", 1)  # the prefix of an error in a choice
    context = getattr(error, "ctx", None)
    end = "" if text.endswith((".", "?")) else "."
    return f"{text}{end} See `{context.command_path} -h`." if text and context is not None else text


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"deltasnap {distribution_version(DISTRIBUTION)}")
        except PackageNotFoundError:
            typer.echo("deltasnap, not installed")
        raise typer.Exit


spark_server = CommandLine(
    no_args_is_help=True, help="Manage a warm Spark Connect server on this machine for all runs."
)
app.add_typer(spark_server, name="spark-server")
add_commands(app)
app.command()(checkpoint)
app.command()(scan)
app.command()(verify)
app.command()(vacuum)
app.command()(changes)


@app.callback()
def common(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Materialize each version of your Delta tables as Dagster assets."""


@app.command()
def demo(
    remote: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A Spark Connect server (sc://HOST:PORT), or sail."),
    ] = None,
) -> None:
    """Write a demo table, materialize each of its versions with Dagster, and show the result.

    A second run adds a few commits and refreshes only those. All files are below .deltasnap in this folder.
    """
    _require("deltalake", "demo")
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
    from deltasnap_assets.command.demo_run import run_demo

    if not run_demo(Path.cwd(), spark):
        raise typer.Exit(1)


@app.command()
def ui(
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65535, help="The port of the UI.")] = 3000,
    host: Annotated[str, typer.Option(metavar="HOST", help="The address of the UI.")] = "127.0.0.1",
) -> None:
    """Start Dagster's UI for the configured tables, and follow their new commits. Ctrl-C stops it.

    If a table needs Spark and no session is configured, starts a warm server and stops it on exit.
    """
    _require("dagster_webserver", "ui")
    family = _family_of(host)
    from deltasnap_assets.command.local.local_instance import use_local_instance
    from deltasnap_assets.command.local.running_ui import take_instance
    from deltasnap_assets.spark.java import check_java
    from deltasnap_assets.spark.session.needed import reason_for_spark

    # Checked here, an error is one line. Dagster's code server would print a page.
    settings = _settings_in_use()
    reason = reason_for_spark(settings)
    if settings.spark.remote is None and reason is not None:
        check_java()
    if stopped := take_instance(use_local_instance(), f"http://{host}:{port}"):
        typer.echo(f"Stopped {counted(stopped, 'process', 'processes')} of an earlier deltasnap ui.")
    with socket.socket(family) as probe:
        if probe.connect_ex((host, port)) == 0:
            fail(f"Port {port} of {host} is in use. Choose another with --port.")
    _bring_spark(settings.spark, reason)
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


def _bring_spark(spark: SparkSettings, reason: str | None) -> None:
    """Start the server of the UI unless a session is configured. On failure, print a warning and continue without it.

    reason: why a table needs Spark; None: no table needs it now.
    """
    from deltasnap_assets.spark.connect_server import SparkServerError, free_port
    from deltasnap_assets.spark.ui_server import SERVER_FOLDER, bring_server, is_free_to_choose

    if not is_free_to_choose(spark):
        return
    if reason is None:
        typer.echo("No warm Spark server: no table needs Spark now. A run that needs Spark starts its own session.")
        return
    without = "each run starts its own Spark session, which takes some seconds"
    if find_spec("grpc") is None:
        typer.echo(f"No warm Spark server: {without}. To have one, {how_to_install('connect')}.")
        return
    typer.echo(f"Starting a warm Spark server for all runs ({reason}) ...")
    try:
        bring_server(spark, SERVER_FOLDER, free_port())
    except SparkServerError as error:
        print_problem(Console(stderr=True), "warning", f"{error} Without the server, {without}.")


@app.command()
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
    from deltasnap_assets.command.refresh_view import Refreshed, refresh_tables, report_unfollowed_tables
    from deltasnap_assets.spark.java import JavaError, check_java
    from deltasnap_assets.spark.session.needed import reasons_for_spark

    settings = _settings_in_use()
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


@app.command(name="warm-up")
def warm_up() -> None:
    """Create an archive of Java classes, so that Spark sessions on this machine start faster.

    Takes a minute and 200 MB below ~/.cache/deltasnap, once for each Java and PySpark on this machine.
    """
    from deltasnap_assets.spark.warm_up import make_archive

    archive = make_archive()
    typer.echo(f"{archive}: {archive.stat().st_size >> 20} MiB of classes. New sessions use it.")


@spark_server.command()
def start(
    port: Annotated[int, typer.Option(metavar="PORT", min=1, max=65535, help="The port, on 127.0.0.1.")] = 15002,
) -> None:
    """Start a server with the configured Spark settings, and wait until it responds."""
    _require("grpc", "connect")
    from deltasnap_assets.settings.loading import load_settings
    from deltasnap_assets.spark.connect_server import DEFAULT_FOLDER, exercise_server, start_server

    server = start_server(load_settings().spark, DEFAULT_FOLDER, port)
    exercise_server(server)
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


@app.command(name="inspect")
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
    """Show a Delta table: protocol, schema, counts, log segment, checkpoint lag, history. Does not need Dagster.

    Faults of the table come first, on stderr. If the latest version cannot be read, shows the newest readable one.
    Exits with 1 unless the requested version is shown completely.
    """
    if version is not None and timestamp is not None:
        raise typer.BadParameter("Give --version or --timestamp, not both.")
    options = storage_options(option)
    timestamp_ms = None if timestamp is None else timestamp_argument(timestamp)
    from deltasnap_assets.command.views.inspect_view import inspect

    if not inspect(path, options, version=version, timestamp_ms=timestamp_ms, commits=commits, as_json=as_json):
        raise typer.Exit(1)


def _settings_in_use() -> Settings:
    """Return the configured settings. Without a configuration or a demo table, print what to do and exit."""
    from deltasnap_assets.settings.loading import load_settings, nothing_to_follow

    settings = load_settings()
    if (problem := nothing_to_follow(settings)) is not None:
        fail(problem)
    return settings


def _require(module: str, extra: str) -> None:
    if find_spec(module) is None:
        fail(f"This command needs the package {module.replace('_', '-')}: {how_to_install(extra)}.")
