"""CPU seconds of this process and its children, including the JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its live children, summed over all cores."""
    return sum(map(_seconds_of, _family(os.getpid())))


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in _read(task).split():
            yield from _family(int(child))


def _seconds_of(pid: int) -> float:
    # The program name, in parentheses, can contain anything; the rest cannot.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS if fields else 0.0


def _read(file: Path) -> str:
    """Return the text of a file in /proc; empty if its thread or process has ended since it was listed."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
