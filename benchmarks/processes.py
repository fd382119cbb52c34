"""Other processes: children that report as they go, and a Spark Connect server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark

from deltasnap_assets.config import SparkSettings
from deltasnap_assets.session_config import session_config

_CONNECT_SECONDS = 120


class ChildFailedError(RuntimeError):
    """A child ended without reporting all it should have."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a child said, and how long (s) after it was started."""

    seconds: float
    values: dict[str, Any]


def run_child(name: str, log: Path, **given: Any) -> dict[str, Report]:
    """Run `benchmarks.children.NAME` to its end and give its reports by name, in order. Its stderr goes to `log`.

    given: what `said.arguments` gives there.
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
                    said = values.pop("report")
                    reports[said] = Report(time.perf_counter() - start, values)
            code = child.wait()
        finally:
            child.kill()  # nothing to a child that has ended: for when this process is interrupted
    if code or not reports:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise ChildFailedError(f"{name} ended with {code}:\n{tail}")
    return reports


@contextmanager
def connect_server(folder: Path, cores: int) -> Iterator[str]:
    """A Spark Connect server from pip's PySpark, on this machine alone; gives its `sc://` address.

    Errors: ChildFailedError where it does not listen in time.
    """
    sbin = Path(pyspark.__file__).parent / "sbin"
    port = free_port()
    environment = os.environ | {
        "SPARK_LOG_DIR": str(folder / "logs"),
        "SPARK_PID_DIR": str(folder),
        "SPARK_HOME": str(sbin.parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    config = session_config(SparkSettings(master=f"local[{cores}]")) | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    options = [part for item in config.items() for part in ("--conf", "=".join(item))]
    script = ["bash", str(sbin / "start-connect-server.sh"), *options]
    subprocess.run(script, env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield f"sc://127.0.0.1:{port}"
    finally:
        script = ["bash", str(sbin / "stop-connect-server.sh")]
        subprocess.run(script, env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(_CONNECT_SECONDS * 2):
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.5)
    raise ChildFailedError(f"Spark Connect does not listen on port {port} after {_CONNECT_SECONDS} s")
