"""How a command ends with an error: one line on stderr, for JSON also an object on stdout, and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from typer.exceptions import TyperException

from deltasnap_assets.command.output import print_json
from deltasnap_assets.command.terminal import error_text, print_problem

if TYPE_CHECKING:
    from deltasnap_core import TableCondition

from importlib.util import find_spec

from deltasnap_core.support import how_to_install

_ROWS = (["scan"], ["changes"], ["table"])
_VALUED = ("-C", "--directory", "--config")


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
            print_json({"error": error_text(" ".join(shown)), **known})
    _flush_stdout()
    sys.exit(code)


def _prints_json(arguments: Sequence[str]) -> bool:
    """Return whether a command prints one JSON value. Commands in _ROWS print one for each row."""
    words = [word for before, word in pairwise(("", *arguments)) if not (word.startswith("-") or before in _VALUED)]
    prints_rows = words[:1] in _ROWS and "--explain" not in arguments
    return "--json" in arguments or (not prints_rows and "--format json" in " ".join(arguments).replace("=", " "))


def problem_of_stdout() -> str | None:
    """Return why the output cannot be written as a sentence; None: it is written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return f"stdout: {error.strerror}."
    return None


def problem_of_a_folder(error: OSError) -> str | None:
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


def usage_text(error: TyperException) -> str:
    """Return the error in a command line and where to find help; empty if the help was printed instead."""
    text = error.format_message().strip().replace("Value error, ", "", 1)  # the prefix of an error in a choice
    if "Input should be " in text:
        text = text.partition(", unable to parse")[0].replace("Input should be ", "must be ", 1)
    context = getattr(error, "ctx", None)
    end = "" if text.endswith((".", "?")) else "."
    return f"{text}{end} See `{context.command_path} -h`." if text and context is not None else text


def require_package(module: str, extra: str) -> None:
    """Unless a module is installed, print which extra to install and exit."""
    if find_spec(module) is None:
        fail(f"This command needs the package {module.replace('_', '-')}: {how_to_install(extra)}.")
