"""The process that waits for a run, with the run, the definitions and the instance replaced."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._cli.api import execute_run_command  # no public name

from deltasnap_assets.command.local import standby
from deltasnap_assets.settings.yaml_source import ConfigError

RUN = '{"run": 1}'


class Standby:
    """A standby process that is given a line on stdin. `done`: what it does, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
        self.done: list[Any] = []
        self.settings: list[Any] = []
        """The configuration, each time that it is read."""
        repository = SimpleNamespace(get_repository_def=lambda: self.done.append("definitions"))
        instance = SimpleNamespace(get_runs_count=lambda: None)
        monkeypatch.setattr(sys, "stdin", io.StringIO(f"{line}\n"))
        monkeypatch.setattr(signal, "signal", lambda *given: self.done.append(given))
        monkeypatch.setattr(standby, "definitions", SimpleNamespace(defs=repository))
        monkeypatch.setattr(dg.DagsterInstance, "get", lambda: nullcontext(instance))
        monkeypatch.setattr(importlib, "import_module", lambda _: None)
        monkeypatch.setattr(standby, "load_settings", self._load)
        monkeypatch.setattr(standby, "_end_with_stdin", lambda: None)
        monkeypatch.setattr(os, "execv", self._exec)
        monkeypatch.setattr(execute_run_command, "main", lambda given, **_: self.done.append(given))

    def _load(self) -> Any:
        found = self.settings.pop(0)
        if found is None:
            raise ConfigError(file="deltasnap.yaml", problems=())
        return found

    def _exec(self, program: str, arguments: list[str]) -> None:
        self.done.append((program, *arguments[1:]))
        raise SystemExit


def test_run_is_executed_with_the_definitions_that_were_loaded_before(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Standby(monkeypatch, RUN)
    process.settings = ["same", "same"]
    standby.main()
    assert process.done == [(signal.SIGINT, signal.SIG_DFL), "definitions", [RUN]]


@pytest.mark.parametrize(
    ("before", "after"), [("same", "other"), ("same", None), (None, None), (None, "same")], ids=str
)
def test_run_of_a_changed_or_invalid_configuration_is_executed_by_a_new_process(
    before: str | None, after: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Standby(monkeypatch, RUN)
    process.settings = [before, after]
    with pytest.raises(SystemExit):
        standby.main()
    assert process.done[-1] == (sys.executable, "-m", "dagster", "api", "execute_run", RUN)
    assert ("definitions" in process.done) is (before is not None)


def test_process_without_a_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Standby(monkeypatch, "")
    process.settings = ["same"]
    standby.main()
    assert process.done[1:] == ["definitions"]


def test_run_ends_with_the_process_that_passed_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    codes: list[int] = []
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(os, "_exit", codes.append)
    standby._end_with_stdin()
    assert codes == [1]
