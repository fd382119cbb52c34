"""The server started by the UI, with a fake Spark."""

from __future__ import annotations

import io
import os
import queue
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark import ui_server
from deltasnap_assets.spark.connect_server import free_port, running_server, stop_server
from deltasnap_assets.spark.ui_server import PORT_VARIABLE, spark_of_run
from tests.assets.spark.test_connect_server import LISTENS, folder, spark_that

__all__ = ["folder"]  # the fixture

_UI = """\
import os, sys
from pathlib import Path
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.ui_server import start_ui_server
start_ui_server(SparkSettings(), Path(sys.argv[1]), int(sys.argv[2]))
os.execv("/bin/sh", ["/bin/sh", "-c", "echo started; exec sleep 600"])
"""


@pytest.mark.spark  # separate programs
def test_server_stops_even_if_the_process_that_started_it_is_killed(folder: Path) -> None:
    spark_that(folder, LISTENS)
    command = [sys.executable, "-c", _UI, str(folder), str(free_port())]
    interface = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert interface.stdout is not None
        assert interface.stdout.readline() == "started\n"
        assert running_server(folder) is not None
        interface.kill()
        interface.wait()
        while running_server(folder) is not None:
            time.sleep(0.05)
    finally:
        interface.kill()
        stop_server(folder)


@pytest.mark.parametrize(
    "spark",
    [SparkSettings(remote="sc://elsewhere:15002"), SparkSettings(master="local[2]")],
    ids=["a server is named", "a master is named"],
)
def test_configured_session_is_used_in_a_run(spark: SparkSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ui_server, "answers", lambda _: True)
    assert spark_of_run(spark, {PORT_VARIABLE: "1"}) == spark


def test_run_without_a_server_starts_its_own_session() -> None:
    assert spark_of_run(SparkSettings(), {PORT_VARIABLE: str(free_port())}) == SparkSettings()
    assert spark_of_run(SparkSettings(), {}) == SparkSettings()


def test_run_uses_the_server_of_its_ui_with_the_configured_settings() -> None:
    config: dict[str, str | bool | int | float] = {"spark.sql.ansi.enabled": "false"}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        found = spark_of_run(SparkSettings(config=config), {PORT_VARIABLE: str(port)})
    assert found == SparkSettings(remote=f"sc://127.0.0.1:{port}", config=config)


def test_watcher_has_an_input_that_ends_with_this_process_and_its_replacement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchers: list[tuple[Any, int]] = []

    def watch(command: list[str], *, stdin: int, **_: object) -> None:
        watchers.append((command[1:], os.dup(stdin)))

    monkeypatch.setattr(ui_server, "start_server", lambda spark, folder, port: (spark, folder, port))
    monkeypatch.setattr(subprocess, "Popen", watch)
    monkeypatch.delenv(PORT_VARIABLE, raising=False)
    kept: list[tuple[int, bool]] = []
    monkeypatch.setattr(os, "set_inheritable", lambda *given: kept.append(given))
    started: Any = ui_server.start_ui_server(SparkSettings(), tmp_path, 7)
    assert started == (SparkSettings(), tmp_path, 7)
    assert os.environ.pop(PORT_VARIABLE) == "7"
    ((command, reading),) = watchers
    assert command == ["-m", "deltasnap_assets.spark.ui_server", str(tmp_path), "7"]
    ((writing, is_inheritable),) = kept
    assert is_inheritable
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_watcher_stops_the_server_and_itself_after_its_input_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exercised, done = queue.Queue[Any](), list[Any]()
    monkeypatch.setattr(sys, "stdin", io.StringIO("text"))
    monkeypatch.setattr(ui_server, "exercise_server", lambda server, rounds: exercised.put((server.port, rounds)))
    monkeypatch.setattr(ui_server, "stop_server", lambda folder: done.append((folder, sys.stdin.read())))
    monkeypatch.setattr(os, "killpg", lambda *given: done.append(given))
    ui_server._watch(tmp_path, 7)
    assert exercised.get(timeout=60) == (7, 3)
    assert done == [(tmp_path, ""), (0, signal.SIGKILL)]
