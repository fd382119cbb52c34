"""A warm Spark Connect server on this machine: start it from pip's PySpark, stop it, find it.

All its files are in one folder: `server.json` has its port and its process, `server.log` its output. The process is
identified by its id and start time, and its children by an environment variable, so that a different program that
reuses the id is never mistaken for the server. The lock file `lock` is held only while a server starts; nothing else
uses it.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

from deltasnap_assets.processes import has_ended, process_name, read_record, stop_all, with_variable
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.java import use_java
from deltasnap_assets.spark.jvm_options import find_spark_home
from deltasnap_assets.spark.session_config import server_config, session_config
from deltasnap_core import DeltaSnapError

DEFAULT_FOLDER = Path(".deltasnap", "spark-server")
HOST = "127.0.0.1"
SERVER_VARIABLE = "DELTASNAP_SPARK_SERVER"
_SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_POLL_SECONDS = 0.2
_ERRORS = ("Exception", "Error", "error:", "Could not", "Unrecognized")


class SparkServerError(DeltaSnapError):
    """The server could not start or stop. The message gives the reason and the path of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkServer:
    """A running server.

    process_group: the process group of its launcher and its JVM. process: the name of the launcher, which `exec`
    replaces by the JVM. mark: the value of SERVER_VARIABLE in the environment of all processes that it started.
    """

    port: int
    process_group: int
    process: str = ""
    mark: str = ""

    @property
    def url(self) -> str:
        """The address for sessions: the value of `spark.remote`."""
        return f"sc://{HOST}:{self.port}"


def running_server(folder: Path) -> SparkServer | None:
    """Return the server of a folder, even if it does not respond yet; None: there is none.

    Errors: SparkServerError if `server.json` is invalid.
    """
    file = folder / "server.json"
    try:
        server = read_record(file, SparkServer)
        if not 0 < server.port < 2**16:
            raise ValueError(f"expected a port up to 65535, found {server.port}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        advice = "delete it if no server is running"
        raise SparkServerError(f"{file} is invalid ({error}): {advice}.") from error
    return server if _processes_of(server) else None


def _running_on(port: int, folder: Path) -> SparkServer | None:
    running = running_server(folder)
    if running is not None and running.port != port:
        raise SparkServerError(f"A server is already running in this folder, on port {running.port}. Stop it first.")
    return running


def start_server(spark: SparkSettings, folder: Path, port: int, *, timeout_seconds: float = 180) -> SparkServer:
    """Start a server with the configured Spark settings, and return it when it responds. Return a running server as is.

    Errors: `JavaError`; `SparkServerError` if another program uses the port, if the server of the folder listens on
    another port, and if the server ends or does not respond in time.
    """
    if (running := _running_on(port, folder)) is not None:
        return running
    use_java()
    if answers(port):
        raise SparkServerError(f"Another program listens on port {port} of this machine. Choose another port.")
    folder.mkdir(parents=True, exist_ok=True)
    properties = folder / "spark.properties"
    log = folder / "server.log"
    with _locked(folder / "lock"):
        if (running := _running_on(port, folder)) is not None:  # started in the meantime
            return running
        _write_properties(properties, server_config(spark, port))
        server = SparkServer(port=port, process_group=0, mark=uuid4().hex)
        _record(folder, server)  # before it runs: if this process is killed, the mark still identifies the server
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [*_command(), "--load-spark-defaults", "--properties-file", str(properties.absolute())],
                env={**_environment(), SERVER_VARIABLE: server.mark},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        server = replace(server, process_group=process.pid, process=process_name(process.pid))
        _record(folder, server)
    try:
        _wait_until_it_answers(process, port, log, timeout_seconds)
    except BaseException:
        process.kill()
        process.wait()
        stop_all(partial(_processes_of, server), timeout_seconds=0)
        raise
    return server


def exercise_server(server: SparkServer, rounds: int = 1) -> bool:
    """Run the warm-up workload on a server, so that the first run is fast. Return False on failure.

    rounds: the JVM compiles code that it has run often. Rounds after the third hardly help.
    """
    config = session_config(SparkSettings(remote=server.url))
    result = subprocess.run(
        [sys.executable, "-m", "deltasnap_assets.tables.warm_up_workload", str(rounds)],
        input=json.dumps(config),
        capture_output=True,
        text=True,
        check=False,
    )
    return result.returncode == 0


def stop_server(folder: Path, *, timeout_seconds: float = 30) -> SparkServer | None:
    """Stop the server of a folder and wait until it has ended. Return that server; None: there was none."""
    server = running_server(folder)
    if server is None:
        return None
    stop_all(partial(_processes_of, server), timeout_seconds=timeout_seconds)
    return server


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


def answers(port: int) -> bool:
    """Return whether a process listens on a port of this machine."""
    try:
        with socket.create_connection((HOST, port), timeout=2):
            return True
    except OSError:
        return False


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not answers(port):
        if process.poll() is not None:
            raise SparkServerError(f"The Spark Connect server stopped: {_reason(log)} (its log: {log})")
        if time.monotonic() > deadline:
            raise SparkServerError(
                f"The Spark Connect server did not respond within {timeout_seconds:.0f} s: see {log}"
            )
        time.sleep(_POLL_SECONDS)


def _reason(log: Path) -> str:
    """Return the most useful line of a log: the first one with an error, else the last."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = (line for line in lines if any(word in line for word in _ERRORS))
    return next(errors, lines[-1] if lines else "its log is empty")


def _command() -> list[str]:
    """Return the command of `sbin/start-connect-server.sh`. Not every PySpark from pip has that script."""
    home = find_spark_home()
    script = None if home is None else home / "bin" / "spark-submit"
    if script is None or not script.is_file():
        raise SparkServerError(f"The server needs {script or 'PySpark'}, which does not exist.")
    return ["bash", str(script), "--class", _SERVER_CLASS, "--name", "Spark Connect server"]


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("SPARK_REMOTE", "SPARK_MASTER")}
    return {"SPARK_HOME": str(find_spark_home()), **inherited, "SPARK_CONNECT_MODE": "0"}


def _write_properties(file: Path, config: Mapping[str, str]) -> None:
    """Write settings to a file for Spark. Only the user can read it, because a setting may be a credential.

    A command line is visible to every user of the machine.
    """
    lines = [f"{_escaped(key)} {_escaped(value)}\n" for key, value in config.items()]
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as sink:
        sink.writelines(lines)


def _escaped(text: str) -> str:
    """Return a text as a key or value of a Java properties file."""
    escapes = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", " ": r"\ ", ":": r"\:", "=": r"\="}
    return "".join(escapes.get(character, character) for character in text)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the lock for starting a server. Errors: SparkServerError if another process holds it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SparkServerError(
                f"Another command is starting a server in this folder: it holds the lock {file}."
            ) from error
        yield
    finally:
        os.close(descriptor)


def _processes_of(server: SparkServer) -> list[str]:
    """Return the running processes of a server."""
    marked = with_variable(SERVER_VARIABLE, server.mark) if server.mark else []
    is_running = server.process not in marked and has_ended(server.process) is False
    return [server.process, *marked] if is_running else marked


def _record(folder: Path, server: SparkServer) -> None:
    """Write `server.json` atomically."""
    temporary = folder / f".server-{server.mark}.json"
    temporary.write_text(json.dumps(asdict(server)), encoding="utf-8")
    temporary.replace(folder / "server.json")
