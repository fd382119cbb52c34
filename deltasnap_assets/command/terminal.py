"""The terminal of a command shows what the user should see; what libraries and the JVM print goes to a log file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console


@contextmanager
def output_to(log: Path) -> Iterator[Console]:
    """Send everything written to this process' stdout and stderr, its children's too, to `log`; yields the real stdout.

    On the level of file descriptors: Spark's JVM inherits them and keeps writing to `log` for as long as it lives.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    real_stdout, real_stderr = os.dup(1), os.dup(2)
    try:
        with log.open("wb") as sink, os.fdopen(os.dup(real_stdout), "w", encoding="utf-8") as terminal:
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)
            try:
                yield Console(file=terminal)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os.dup2(real_stdout, 1)
                os.dup2(real_stderr, 2)
    finally:
        os.close(real_stdout)
        os.close(real_stderr)
