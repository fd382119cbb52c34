"""A Spark Connect server, started and stopped by Spark's own scripts, as `docs/spark-and-clusters.md` describes."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from deltasnap_assets.spark.java import use_java

_HOST = "127.0.0.1"


@contextmanager
def connect_server(folder: Path, config: Mapping[str, str], **environment: str) -> Iterator[str]:
    """Run a server with some settings. Yield its address, `sc://HOST:PORT`. Its log and process ids are in a folder."""
    use_java()
    home, port = Path(pyspark.__file__).parent, free_port()
    env = {**os.environ, "SPARK_LOG_DIR": str(folder), "SPARK_PID_DIR": str(folder), **environment}
    for name in ("SPARK_HOME", "SPARK_REMOTE", "SPARK_MASTER"):
        env.pop(name, None)
    settings = {**config, "spark.connect.grpc.binding.address": _HOST, "spark.connect.grpc.binding.port": str(port)}
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    subprocess.run([home / "sbin" / "start-connect-server.sh", *options], env=env, check=True)
    try:
        while not is_listening(port):
            (pid,) = folder.glob("*.pid")
            assert Path("/proc", pid.read_text().strip()).exists(), [log.read_text() for log in folder.glob("*.out")]
            time.sleep(0.2)
        yield f"sc://{_HOST}:{port}"
    finally:
        subprocess.run([home / "sbin" / "stop-connect-server.sh"], env=env, check=True)


def is_listening(port: int) -> bool:
    """Return whether a process listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex((_HOST, port)) == 0


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
