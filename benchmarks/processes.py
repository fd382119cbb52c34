"""Other processes: children that report their progress, and the ports of servers."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"


class ChildFailedError(RuntimeError):
    """A child ended before its last report."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report of a child, and its time in seconds since the child's start."""

    seconds: float
    values: dict[str, Any]


def run_child(name: str, log: Path, **given: Any) -> dict[str, Report]:
    """Run `benchmarks.children.NAME` to its end and return its reports by name, in order. Its stderr goes to `log`.

    given: the values that `reporting.arguments` returns there.
    Errors: ChildFailedError.
    """
    command = [sys.executable, "-m", f"benchmarks.children.{name}", json.dumps(given)]
    reports: dict[str, Report] = {}
    with log.open("wb") as stderr:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, stdin=subprocess.DEVNULL, text=True)
        assert child.stdout is not None
        try:
            for line in child.stdout:
                if line.startswith("{"):
                    values = json.loads(line)
                    name_of_report = values.pop("report")
                    reports[name_of_report] = Report(time.perf_counter() - start, values)
            code = child.wait()
        finally:
            child.kill()  # no effect on a child that has ended: for interrupts of this process
    if code or not reports:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise ChildFailedError(f"{name} ended with {code}:\n{tail}")
    return reports


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Return whether a process listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0
