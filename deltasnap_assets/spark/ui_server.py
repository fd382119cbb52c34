"""The warm Spark Connect server that `deltasnap ui` brings along, where the configuration names no session.

It lives as long as the process that asked for it, whatever becomes of that: a watcher reads a pipe of which only that
process, and what takes its place by `exec`, has the other end. Runs find the server by a variable of the environment;
one that finds no server there starts a session of its own.
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


def bring_server(spark: SparkSettings, folder: Path, port: int) -> SparkServer:
    """Start a server that ends with this process, and tell its children where; it warms up while they start.

    Errors: those of `start_server`.
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
    os.set_inheritable(writing, True)  # what takes the place of this process keeps it open
    os.environ[PORT_VARIABLE] = str(port)
    return server


def spark_of_run(spark: SparkSettings, environment: Mapping[str, str] = os.environ) -> SparkSettings:
    """Return where a run has its session: on the server of the UI that it belongs to, where that answers."""
    port = environment.get(PORT_VARIABLE)
    if port is None or not is_free_to_choose(spark) or not answers(int(port)):
        return spark
    return SparkSettings(remote=SparkServer(port=int(port), process_group=0).url, config=spark.config)


def is_free_to_choose(spark: SparkSettings) -> bool:
    """Whether the configuration leaves it open where sessions are."""
    return spark.remote is None and spark.master is None


def _watch(folder: Path, port: int) -> None:
    """Warm the server up, and stop it once nobody has the other end of stdin any longer."""
    server = SparkServer(port=port, process_group=0)
    threading.Thread(target=exercise_server, args=(server, 3), daemon=True).start()
    sys.stdin.read()
    stop_server(folder)
    os.killpg(0, signal.SIGKILL)  # this process, and what may still be warming up


if __name__ == "__main__":
    _watch(Path(sys.argv[1]), int(sys.argv[2]))
