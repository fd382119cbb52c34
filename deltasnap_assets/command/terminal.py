"""Output of a command to the terminal. Text from a log or an error cannot control the terminal."""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, ClassVar

from rich.console import Console
from rich.text import Text
from typer.exceptions import TyperException

from deltasnap_assets.texts import MAX_CHARACTERS, visible
from deltasnap_core import DeltaSnapError

_MAX_MESSAGE_LENGTH = 4000
_COLORS = {"error": "red", "warning": "yellow", "info": "dim"}
_LOGGERS = ("deltasnap_core", "deltasnap_assets")
_TAIL_LINES = 5
WIDEST = 1_000_000
"""The width of output that is neither wrapped nor truncated, in characters."""


def output_console() -> Console:
    """Return the console for stdout. Without a terminal and `COLUMNS`, a line of a table is neither wrapped nor cut."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDEST
    return console


def shown(text: object, most: int = MAX_CHARACTERS, *, style: str = "") -> Text:
    """Return a text for printing: without markup, terminal escapes or credentials, truncated."""
    return Text(visible(str(text), most), style=style)


def error_text(message: str) -> str:
    """Return a message for printing, on one line."""
    return shown(message, _MAX_MESSAGE_LENGTH).plain


def print_line(console: Console, line: Text) -> None:
    """Print one line. A terminal wraps a long one itself, so that it is copied without line breaks."""
    console.print(line, soft_wrap=True)


class Verbosity:
    """What a command prints on stderr. least: the level of the least important lines."""

    least: ClassVar[int] = logging.WARNING

    @classmethod
    def set(cls, least: int) -> None:
        """Print lines of this level and above, also those that are logged."""
        cls.least = least
        for logger in map(logging.getLogger, _LOGGERS):
            logger.setLevel(least if least < logging.WARNING else logging.NOTSET)
            for handler in logger.handlers:
                if isinstance(handler, WarningLines):
                    handler.setLevel(least)

    @classmethod
    def is_quiet(cls) -> bool:
        """Whether only errors are printed."""
        return cls.least > logging.WARNING


def print_problem(console: Console, kind: str, message: str) -> None:
    """Print one line with the problem, unless the command is too quiet for it. kind: `error`, `warning` or `info`."""
    if kind == "warning" and Verbosity.is_quiet():
        return
    print_line(console, Text.assemble((f"{kind}:", _COLORS[kind]), " ", error_text(message)))


def print_notice(text: str) -> None:
    """Print one line on stderr, unless the command is quiet."""
    if not Verbosity.is_quiet():
        print_line(Console(stderr=True), shown(text))


def working(what: str) -> AbstractContextManager[object]:
    """Show on a terminal what the command does meanwhile, unless it is quiet."""
    return nullcontext() if Verbosity.is_quiet() else Console(stderr=True).status(what)


class WarningLines(logging.Handler):
    """Prints each log record as a warning line, unless it printed the same one before.

    While output is redirected (`output_aside`), it holds the lines, and prints them afterwards.
    """

    _held: ClassVar[list[tuple[str, str]] | None] = None

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self._printed = set[str]()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        message = record.getMessage()
        if message not in self._printed:
            self._printed.add(message)
            kind = "info" if record.levelno < logging.WARNING else "warning"
            if self._held is None:
                print_problem(Console(stderr=True), kind, message)
            else:
                self._held.append((kind, message))

    @classmethod
    @contextmanager
    def held(cls) -> Iterator[list[tuple[str, str]]]:
        """Hold all warning lines, yield them, and print those that remain at the end, also before an error."""
        lines = cls._held = []
        try:
            yield lines
        finally:
            cls._held = None
            for kind, line in lines:
                print_problem(Console(stderr=True), kind, line)


def prepare_terminal() -> None:
    """Make printing safe: escape unencodable characters, and print the core's warnings as warning lines.

    A closed stdin, stdout or stderr becomes the null device. Otherwise the next opened file would take its descriptor.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, _null_device(descriptor, mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    log = logging.getLogger("deltasnap_core")
    if not any(isinstance(handler, WarningLines) for handler in log.handlers):
        log.addHandler(WarningLines(logging.WARNING))


def _null_device(descriptor: int, mode: str) -> IO[str]:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)
    return os.fdopen(descriptor, mode, encoding="utf-8")


@contextmanager
def output_to(log: Path) -> Iterator[tuple[Console, Console]]:
    """Redirect stdout and stderr of this process and its children to `log`. Yields the real stdout and stderr.

    It works on file descriptors: Spark's JVM inherits them and writes to `log` as long as it lives.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink, _descriptors_to(sink.fileno()) as consoles:
        yield consoles


@contextmanager
def output_aside() -> Iterator[Console]:
    """Redirect output to a temporary file, as `output_to` does. Yields the real stderr. On failure, print its end.

    Warnings of deltasnap are printed after the output is restored.
    """
    with tempfile.TemporaryFile() as sink, WarningLines.held():
        try:
            with _descriptors_to(sink.fileno()) as (_, err):
                yield err
        except (DeltaSnapError, TyperException):
            raise  # its message is complete
        except Exception:
            sink.seek(0)
            printed = sink.read().decode(errors="replace").split("\n")
            for line in [line for line in printed if line.strip()][-_TAIL_LINES:]:
                print_line(Console(stderr=True), shown(line, style="dim"))
            raise


@contextmanager
def _descriptors_to(target: int) -> Iterator[tuple[Console, Console]]:
    sys.stdout.flush()
    sys.stderr.flush()
    real_stdout, real_stderr = os.dup(1), os.dup(2)
    try:
        with _console_on(real_stdout) as out, _console_on(real_stderr) as err:
            os.dup2(target, 1)
            os.dup2(target, 2)
            try:
                yield out, err
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os.dup2(real_stdout, 1)
                os.dup2(real_stderr, 2)
    finally:
        os.close(real_stdout)
        os.close(real_stderr)


class _Console(Console):
    """A console that prints nothing more if its reader is gone. Rich's own console would exit."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


@contextmanager
def _console_on(descriptor: int) -> Iterator[Console]:
    file = os.fdopen(os.dup(descriptor), "w", encoding="utf-8", errors="backslashreplace")
    try:
        yield _Console(file=file)
    finally:
        with suppress(BrokenPipeError):
            file.close()
