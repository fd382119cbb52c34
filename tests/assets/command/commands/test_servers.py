"""`deltasnap ui`, with its processes replaced."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from deltasnap_assets.command.local import local_instance
from deltasnap_assets.spark import java
from deltasnap_assets.spark.session import needed
from tests.assets.command.commands.driver_commands_builders import run


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
def test_ui_becomes_dagster_on_the_local_instance(
    reason: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
