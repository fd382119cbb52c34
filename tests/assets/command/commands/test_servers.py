"""The commands that start Spark servers and the UI, with the servers and processes replaced."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from deltasnap_assets.command.commands import ui_command
from deltasnap_assets.command.local import local_instance, running_ui
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark import connect_server, java, ui_server, warm_up
from deltasnap_assets.spark.connect_server import DEFAULT_FOLDER, SparkServer, SparkServerError, free_port
from deltasnap_assets.spark.session import needed
from deltasnap_assets.spark.ui_server import SERVER_FOLDER
from tests.assets.command.commands.test_driver_commands import run

SERVER = SparkServer(port=7, process_group=0)
LOG = DEFAULT_FOLDER / "server.log"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)
    text = "tables: [{name: events, path: events}]\nspark: {master: 'local[3]'}"
    (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("is_running", [False, True])
@pytest.mark.parametrize("is_warm", [True, False])
def test_started_server_has_the_configured_settings_and_is_exercised_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_running: bool, is_warm: bool
) -> None:
    done: list[Any] = []

    def start(*given: Any) -> SparkServer:
        done.append(given)
        return SERVER

    def exercise(server: SparkServer) -> bool:
        done.append(server)
        return is_warm

    monkeypatch.setattr(connect_server, "running_server", lambda _: SERVER if is_running else None)
    monkeypatch.setattr(connect_server, "start_server", start)
    monkeypatch.setattr(connect_server, "exercise_server", exercise)
    shown = run("spark-server", "start", "--port", 7)
    assert shown.exit_code == 0, shown.output
    assert "spark:\n  remote: sc://127.0.0.1:7\n" in shown.stdout
    assert f"Its log: {LOG}" in shown.stdout
    assert done == [(SparkSettings(master="local[3]"), DEFAULT_FOLDER, 7), *([] if is_running else [SERVER])]
    assert ("first queries on the server failed" in shown.stderr) == (not is_running and not is_warm)


@pytest.mark.parametrize(
    ("responds", "code", "text"),
    [
        (True, 0, "The server at sc://127.0.0.1:7 is ready."),
        (False, 1, f"The server at sc://127.0.0.1:7 is starting or does not respond. Its log: {LOG}"),
    ],
)
def test_status_fails_unless_the_server_responds(
    responds: bool, code: int, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect_server, "running_server", {DEFAULT_FOLDER: SERVER}.get)
    monkeypatch.setattr(connect_server, "answers", {7: responds}.get)
    shown = run("spark-server", "status")
    assert (shown.exit_code, shown.stdout.strip()) == (code, text)


def test_stopped_server_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_server, "stop_server", {DEFAULT_FOLDER: SERVER}.get)
    shown = run("spark-server", "stop")
    assert (shown.exit_code, shown.stdout) == (0, "The server at sc://127.0.0.1:7 has stopped.\n")


def test_warm_up_shows_the_archive_and_its_size(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = folder / "classes.jsa"
    archive.write_bytes(b"x" * (3 << 20))
    monkeypatch.setattr(warm_up, "make_archive", lambda: archive)
    assert run("warm-up").stdout == f"{archive}: 3 MiB of classes. New sessions use it.\n"


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The servers that the UI starts."""
    started: list[Any] = []
    monkeypatch.setattr(ui_server, "start_ui_server", lambda *given: started.append(given[:2]))
    return started


@pytest.mark.parametrize("spark", [SparkSettings(master="local[2]"), SparkSettings(remote="sc://host:1")], ids=str)
def test_ui_starts_no_server_if_a_session_is_configured(
    spark: SparkSettings, servers: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    ui_command._start_server(spark, "events needs Spark")
    assert (servers, capsys.readouterr().out) == ([], "")


def test_ui_starts_a_server_only_if_a_table_needs_spark(servers: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    ui_command._start_server(SparkSettings(), None)
    assert servers == []
    assert "no table needs Spark now" in capsys.readouterr().out
    ui_command._start_server(SparkSettings(), "events is new")
    assert servers == [(SparkSettings(), SERVER_FOLDER)]
    assert "events is new" in capsys.readouterr().out


def test_ui_without_a_server_says_why_and_continues(
    servers: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise SparkServerError("The port is in use.")

    without = "each run starts its own Spark session"
    with monkeypatch.context() as missing:
        missing.setattr(ui_command, "find_spec", lambda _: None)
        ui_command._start_server(SparkSettings(), "events is new")
    shown = capsys.readouterr().out
    assert shown.startswith(f"No warm Spark server: {without}")
    assert "with the extra connect" in shown
    monkeypatch.setattr(ui_server, "start_ui_server", fail)
    ui_command._start_server(SparkSettings(), "events is new")
    assert f"warning: The port is in use. Without the server, {without}" in capsys.readouterr().err
    assert servers == []


class Ui:
    """`deltasnap ui` up to the process that replaces it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reason: str | None) -> None:
        self.done: list[Any] = []
        self.stopped = 0
        monkeypatch.setattr(java, "check_java", lambda: self.done.append("java"))
        monkeypatch.setattr(needed, "reason_for_spark", lambda _: reason)
        monkeypatch.setattr(local_instance, "use_local_instance", lambda: Path("home"))
        monkeypatch.setattr(running_ui, "take_instance", self._take)
        monkeypatch.setattr(ui_command, "_start_server", lambda _, reason: self.done.append(reason))
        monkeypatch.setattr(signal, "signal", lambda *given: self.done.append(given))
        monkeypatch.setattr(os, "execv", lambda *given: self.done.append(given))
        monkeypatch.setenv("PYTHONWARNINGS", "")

    def _take(self, *given: Any) -> int:
        self.done.append(given)
        return self.stopped

    def start(self, *arguments: object) -> Result:
        return run("ui", *arguments)


@pytest.mark.parametrize("reason", [None, "events is new"])
def test_ui_becomes_dagster_after_it_took_the_instance(
    reason: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "tables: [{name: events, path: events}]"
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    ui, port = Ui(monkeypatch, reason), free_port()
    ui.stopped = 2
    shown = ui.start("--port", port)
    assert shown.exit_code == 0, shown.output
    assert shown.stdout == "Stopped 2 processes of an earlier deltasnap ui.\n"
    arguments = ["dev", "-m", "deltasnap_assets.definitions", "--host", "127.0.0.1", "--port", str(port)]
    assert ui.done == [
        *([] if reason is None else ["java"]),
        (Path("home"), f"http://127.0.0.1:{port}"),
        reason,
        (signal.SIGINT, signal.SIG_DFL),
        (sys.executable, [sys.executable, "-m", "dagster", *arguments]),
    ]


def test_ui_with_a_remote_session_needs_no_java(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "tables: [{name: events, path: events}]\nspark: {remote: 'sc://host:1'}"
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    ui = Ui(monkeypatch, "events is new")
    assert ui.start("--port", free_port()).stdout == ""
    assert "java" not in ui.done
