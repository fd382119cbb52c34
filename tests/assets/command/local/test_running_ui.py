"""One `deltasnap ui` per instance, and no processes left by a killed one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltasnap_assets.command import doctor
from deltasnap_assets.command.local.running_ui import (
    UI_VARIABLE,
    UiRunsError,
    last_ui,
    leftovers,
    stop_leftovers,
    take_instance,
)
from deltasnap_assets.processes import has_ended, pid_of, process_name, with_variable

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")

URL = "http://127.0.0.1:3000"
# What `deltasnap ui` does: it takes the instance, becomes another program, and that starts others. A program that the
# kernel is still loading has no environment yet.
UI = '''\
import os, sys
from pathlib import Path
from deltasnap_assets.command.local.running_ui import take_instance
take_instance(Path(sys.argv[1]), sys.argv[2])
script = """
import subprocess, time
from pathlib import Path
started = [subprocess.Popen(["sleep", "600"], start_new_session=True), subprocess.Popen(["sleep", "601"])]
while not all(Path(f"/proc/{each.pid}/environ").read_bytes() for each in started):
    time.sleep(0.01)
print("up", flush=True)
time.sleep(600)
"""
os.execv(sys.executable, [sys.executable, "-c", script])
'''


@pytest.fixture
def ui(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", UI, str(tmp_path), URL], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.wait()
    take_instance(tmp_path, URL)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UI_VARIABLE, "")


@pytest.mark.slow
def test_second_ui_is_rejected_with_the_address_of_the_first(ui: subprocess.Popen[str], tmp_path: Path) -> None:
    with pytest.raises(UiRunsError, match=f"already running at {URL}, process {ui.pid}. Use it, or stop it first."):
        take_instance(tmp_path, "http://127.0.0.1:3001")
    assert leftovers(tmp_path) == []
    found = last_ui(tmp_path)
    assert found is not None
    assert found.is_running


@pytest.mark.slow
def test_processes_of_a_killed_ui_are_stopped_by_the_next(ui: subprocess.Popen[str], tmp_path: Path) -> None:
    ui.kill()
    ui.wait()
    left = leftovers(tmp_path)
    assert len(left) == 2
    assert take_instance(tmp_path, URL) == 2
    assert all(map(has_ended, left))
    assert leftovers(tmp_path) == []


@pytest.mark.slow
def test_doctor_stops_the_processes_of_a_killed_ui(
    ui: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "local_home", lambda: tmp_path)
    assert doctor._ui().message == f"runs at {URL}, process {ui.pid}"
    ui.kill()
    ui.wait()
    left = leftovers(tmp_path)
    found = doctor._ui()
    assert (found.mark, found.message.partition(":")[0]) == ("warning", "was killed; stopped 2 processes that it left")
    assert all(map(has_ended, left))
    assert doctor._ui().message == "not running"


@pytest.mark.slow
def test_processes_of_a_ui_that_runs_are_not_stopped(ui: subprocess.Popen[str], tmp_path: Path) -> None:
    assert stop_leftovers(tmp_path) == []
    found = last_ui(tmp_path)
    assert found is not None
    assert len(with_variable(UI_VARIABLE, found.mark)) == 3
    assert ui.poll() is None


def test_program_with_the_id_of_a_dead_ui_is_not_stopped(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "600"])
    try:
        machine, pid, _ = process_name(other.pid).split("#")
        record = {"url": URL, "process": f"{machine}#{pid}#1", "mark": "gone"}
        (tmp_path / "ui.json").write_text(json.dumps(record))
        assert leftovers(tmp_path) == []
        assert take_instance(tmp_path, URL) == 0
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_runs_of_a_gone_ui_are_killed_without_a_signal_to_cancel(tmp_path: Path) -> None:
    script = 'trap "echo cancelled" TERM; echo up; read end'
    program = [*("sh", "-c", script), "execute_run"]
    run = subprocess.Popen(
        program, env={**os.environ, UI_VARIABLE: "gone"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout is not None
    assert run.stdout.readline() == "up\n"
    ended = f"{process_name(run.pid).rpartition('#')[0]}#1"
    (tmp_path / "ui.json").write_text(json.dumps({"url": URL, "process": ended, "mark": "gone"}))
    assert len(stop_leftovers(tmp_path)) == 1
    assert run.communicate()[0] == ""


@pytest.mark.slow
def test_one_of_several_concurrent_uis_claims_the_instance(tmp_path: Path) -> None:
    def take(_: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", UI, str(tmp_path), URL]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    with ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(take, range(4)))
    said = [program.stdout.readline() for program in programs if program.stdout is not None]
    assert sorted(said) == ["", "", "", "up\n"]
    for program in programs:
        program.kill()
        program.wait()
    assert take_instance(tmp_path, URL) == 2


@pytest.mark.parametrize("text", ["{", "[]", '{"url": 1, "process": "p", "mark": "m"}'])
def test_invalid_record_raises_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    (tmp_path / "ui.json").write_text(text)
    with pytest.raises(UiRunsError, match=r"ui\.json"):
        last_ui(tmp_path)


def test_process_that_claims_the_instance_again_keeps_what_it_started(tmp_path: Path) -> None:
    take_instance(tmp_path, URL)
    started = subprocess.Popen(["sleep", "600"])  # it inherits the variable
    try:
        assert take_instance(tmp_path, URL) == 0
        assert started.poll() is None
    finally:
        started.kill()
        started.wait()


def test_instance_is_claimed_by_this_process(tmp_path: Path) -> None:
    assert take_instance(tmp_path, URL) == 0
    found = last_ui(tmp_path)
    assert found is not None
    assert pid_of(found.process) == os.getpid()
    assert os.environ[UI_VARIABLE] == found.mark
