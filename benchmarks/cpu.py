"""CPU seconds of this process and of those it started, the JVM among them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Return what this process and its children, while they live, have taken of all cores together."""
    return sum(map(_seconds_of, _family(os.getpid())))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(task).split():
            yield from _family(int(child))


def _seconds_of(pid: int) -> float:
    # The name of the program, in brackets, may hold anything: what follows does not.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _read(file: Path) -> str:
    """Return what a file of /proc says; nothing where its thread or process ended since it was listed."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
