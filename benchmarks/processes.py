"""Other processes: children that report their progress, and a Spark Connect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.connect_server import exercise_server, free_port, start_server, stop_server


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


@contextmanager
def connect_server(folder: Path, cores: int) -> Iterator[str]:
    """Start a warm server as `deltasnap spark-server` does. Yield its `sc://` address. Errors: SparkServerError."""
    server = start_server(SparkSettings(master=f"local[{cores}]"), folder, free_port())
    try:
        exercise_server(server)
        yield server.url
    finally:
        stop_server(folder)


@contextmanager
def caches_in(folder: Path) -> Iterator[None]:
    """Use the class-data archive in a folder instead of the user's cache folder."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder)
    try:
        yield
    finally:
        del os.environ["XDG_CACHE_HOME"]
        if before is not None:
            os.environ["XDG_CACHE_HOME"] = before
