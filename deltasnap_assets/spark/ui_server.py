"""The warm Spark Connect server that `deltasnap ui` starts if the configuration names no session.

It stops when the process that started it ends, for any reason. A watcher reads a pipe; only that process, and its
replacement after `exec`, holds the other end open. Runs find the server by an environment variable. A run that finds no
server starts its own session.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.connect_server import SparkServer, answers, exercise_server, start_server, stop_server

SERVER_FOLDER = Path(".deltasnap", "ui-server")
PORT_VARIABLE = "DELTASNAP_UI_SERVER_PORT"


def start_ui_server(spark: SparkSettings, folder: Path, port: int) -> SparkServer:
    """Start a server that stops with this process, and set its address for child processes. It warms up in parallel.

    Errors: the errors of `start_server`.
    """
    server = start_server(spark, folder, port)
    reading, writing = os.pipe()
    try:
        subprocess.Popen(
            [sys.executable, "-m", "deltasnap_assets.spark.ui_server", str(folder.absolute()), str(port)],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        os.close(reading)
    os.set_inheritable(writing, True)  # the replacement of this process keeps it open
    os.environ[PORT_VARIABLE] = str(port)
    return server


def spark_of_run(spark: SparkSettings, environment: Mapping[str, str] = os.environ) -> SparkSettings:
    """Return the Spark settings of a run: the server of its UI if it responds, otherwise the configured ones."""
    port = environment.get(PORT_VARIABLE)
    if port is None or not is_free_to_choose(spark) or not answers(int(port)):
        return spark
    return SparkSettings(remote=SparkServer(port=int(port), process_group=0).url, config=spark.config)


def is_free_to_choose(spark: SparkSettings) -> bool:
    """Return whether the configuration sets neither a master nor a remote server."""
    return spark.remote is None and spark.master is None


def _watch(folder: Path, port: int) -> None:
    """Warm up the server, and stop it when no process holds the other end of stdin open."""
    server = SparkServer(port=port, process_group=0)
    threading.Thread(target=exercise_server, args=(server, 3), daemon=True).start()
    sys.stdin.read()
    stop_server(folder)
    os.killpg(0, signal.SIGKILL)  # this process, and a warm-up that may still run


if __name__ == "__main__":
    _watch(Path(sys.argv[1]), int(sys.argv[2]))
