"""The `deltasnap` command. Each command imports what it needs when it runs, so that `--help` is fast."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version as distribution_version
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from typer.exceptions import TyperException

from deltasnap_assets.command.commands.bisect_command import bisect
from deltasnap_assets.command.commands.blame_command import blame
from deltasnap_assets.command.commands.changes_command import changes
from deltasnap_assets.command.commands.check_command import check
from deltasnap_assets.command.commands.driver_commands import diff, doctor, fleet, history, init
from deltasnap_assets.command.commands.local_commands import demo, ui
from deltasnap_assets.command.commands.metadata_command import table
from deltasnap_assets.command.commands.refresh_command import refresh
from deltasnap_assets.command.commands.repair_command import repair
from deltasnap_assets.command.commands.scan_command import scan
from deltasnap_assets.command.commands.settings_commands import alerts, config
from deltasnap_assets.command.commands.size_command import size
from deltasnap_assets.command.commands.table_commands import checkpoint, inspect_table, vacuum, verify
from deltasnap_assets.command.endings import fail, problem_of_a_folder, problem_of_stdout, usage_text
from deltasnap_assets.command.help_text import CommandLine
from deltasnap_assets.command.terminal import Verbosity, WarningLines, prepare_terminal, print_problem
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import DISTRIBUTION

_MAX_ERROR_LENGTH = 1000
_INTERRUPTED = 128 + signal.SIGINT
_NEW_OBJECTS = 50_000
"""The number of new objects after which Python collects garbage. With the default of 700, it takes a tenth of the time
of a short command, which mostly loads modules.
"""

app = CommandLine(
    name="deltasnap",
    no_args_is_help=True,
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
        fail(usage_text(error), code=error.exit_code)
    except DeltaSnapError as error:
        fail(*getattr(error, "lines", [str(error)]), condition=getattr(error, "condition", None))
    except KeyboardInterrupt:
        fail("interrupted", code=_INTERRUPTED)
    except Exception as error:
        if os.environ.get("DELTASNAP_DEBUG"):
            raise
        if isinstance(error, OSError) and (problem := problem_of_stdout() or problem_of_a_folder(error)) is not None:
            fail(problem)
        text = " ".join(str(error).split())[:_MAX_ERROR_LENGTH]
        fail(f"{type(error).__name__}: {text} (set DELTASNAP_DEBUG=1 for a traceback)")


def _show_version(wanted: bool) -> None:
    if wanted:
        try:
            typer.echo(f"deltasnap {distribution_version(DISTRIBUTION)}")
        except PackageNotFoundError:
            typer.echo("deltasnap, not installed")
        raise typer.Exit


_COMMANDS: tuple[Callable[..., None], ...] = (
    *(demo, init, ui, refresh),
    *(inspect_table, history, diff, scan, changes, table, bisect, blame),
    *(checkpoint, repair, vacuum, verify, size),
    *(check, fleet, doctor),
)
"""In the order of the help: start, read a table, maintain it, operate."""
for _command in _COMMANDS:
    app.command(name="inspect" if _command is inspect_table else None)(_command)
for _group in (alerts, config):
    app.add_typer(_group)


@app.callback()
def common(
    directory: Annotated[
        Path | None, typer.Option("--directory", "-C", metavar="FOLDER", help="Run the command in this folder.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="The configuration. Default: deltasnap.yaml in this folder or above it."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no warnings and no progress.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print what is loaded and written, and why Spark starts.")
    ] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print without colors, as with NO_COLOR=1.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Materialize each version of your Delta tables as Dagster assets."""
    if no_color:
        os.environ["NO_COLOR"] = "1"
    if quiet and verbose:
        raise typer.BadParameter("Give --quiet or --verbose, not both.")
    Verbosity.set(logging.ERROR if quiet else logging.INFO if verbose else logging.WARNING)
    if directory is not None:
        try:
            os.chdir(directory)
        except OSError as error:
            message = f"{directory}: {error.strerror}."
            raise typer.BadParameter(message, param_hint="--directory") from error
    if file is not None:
        if not file.is_file():
            raise typer.BadParameter(f"There is no file {file}.", param_hint="--config")
        os.environ["DELTASNAP_CONFIG"] = str(file.absolute())
