"""`deltasnap ui`: its port, checked before anything is started, and its processes, replaced."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from deltasnap_assets.command.local import local_instance
from deltasnap_assets.spark import java
from deltasnap_assets.spark.session import needed
from tests.assets.command.cli_builders import COMMAND, FORKS, assert_one_line_of_error, small_table
from tests.assets.command.commands.driver_commands_builders import run

# In place of Dagster's UI, which would replace the process: print how it would be started.
STARTED = "import json, os\nos.execv = lambda _, arguments: print(json.dumps(arguments))\n" + COMMAND


@pytest.fixture
def remote_folder(tmp_path: Path) -> Path:
    """A working remote_folder with a table, and a session that needs no Java on this machine."""
    small_table(tmp_path / "t")
    text = "storage: store\ntables: [{name: t, path: t}]\nspark: {remote: 'sc://127.0.0.1:1'}"
    (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    """A socket with a port of its own. Nothing answers there before it listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found


def test_port_in_use_is_an_error_that_names_the_option(remote_folder: Path, bound: socket.socket) -> None:
    bound.listen()
    port = bound.getsockname()[1]
    result = FORKS.run(STARTED, "ui", "--port", str(port), cwd=remote_folder)
    assert_one_line_of_error(result, f"Port {port} of 127.0.0.1 is in use. Choose another with --port.")
    assert (result.returncode, result.stdout) == (1, "")


def test_ui_starts_on_a_free_port(remote_folder: Path, bound: socket.socket) -> None:
    port = str(bound.getsockname()[1])
    result = FORKS.run(STARTED, "ui", "--port", port, cwd=remote_folder)
    arguments = json.loads(result.stdout.splitlines()[-1])
    assert arguments[1:4] == ["-m", "dagster", "dev"]
    assert arguments[-4:] == ["--host", "127.0.0.1", "--port", port]


def test_port_that_cannot_be_opened_is_an_error_with_its_reason(remote_folder: Path, bound: socket.socket) -> None:
    address = "192.0.2.1"  # reserved for documentation: of no machine
    result = FORKS.run(STARTED, "ui", "--host", address, "--port", str(bound.getsockname()[1]), cwd=remote_folder)
    assert_one_line_of_error(result, f"of {address} cannot be opened: ", "Choose another with --port or --host.")
    assert not (remote_folder / ".deltasnap").exists()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DELTASNAP_CONFIG", raising=False)
    text = "tables: [{name: events, path: events}]\nspark: {master: 'local[3]'}"
    (tmp_path / "deltasnap.yaml").write_text(text, encoding="utf-8")
    return tmp_path


class Ui:
    """`deltasnap ui` up to the process that replaces it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, reason: str | None) -> None:
        self.done: list[Any] = []
        monkeypatch.setattr(java, "check_java", lambda: self.done.append("java"))
        monkeypatch.setattr(needed, "reason_for_spark", lambda _: reason)
        monkeypatch.setattr(local_instance, "use_local_instance", lambda: self.done.append("instance"))
        monkeypatch.setattr(signal, "signal", lambda *given: self.done.append(given))
        monkeypatch.setattr(os, "execv", lambda *given: self.done.append(given))
        monkeypatch.setenv("PYTHONWARNINGS", "")

    def start(self, *arguments: object) -> Result:
        return run("ui", *arguments)


@pytest.mark.parametrize("reason", [None, "events is new"])
def test_ui_becomes_dagster_on_its_instance(reason: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "tables: [{name: events, path: events}]"
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    ui, port = Ui(monkeypatch, reason), free_port()
    shown = ui.start("--port", port)
    assert shown.exit_code == 0, shown.output
    arguments = ["dev", "-m", "deltasnap_assets.definitions", "--host", "127.0.0.1", "--port", str(port)]
    assert ui.done == [
        *([] if reason is None else ["java"]),
        "instance",
        (signal.SIGINT, signal.SIG_DFL),
        (sys.executable, [sys.executable, "-m", "dagster", *arguments]),
    ]


def test_ui_with_a_remote_session_needs_no_java(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "tables: [{name: events, path: events}]\nspark: {remote: 'sc://host:1'}"
    (folder / "deltasnap.yaml").write_text(text, encoding="utf-8")
    ui = Ui(monkeypatch, "events is new")
    assert ui.start("--port", free_port()).stdout == ""
    assert "java" not in ui.done
