"""A process is identified by more than its id, and no other process is ever stopped instead."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets import processes
from deltasnap_assets.processes import (
    has_ended,
    pid_of,
    process_name,
    send_signal,
    stop_all,
    this_process,
    with_variable,
)

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="there is no /proc")  # noqa: PTH110

MINE = f"mine of {os.getpid()}"  # others may run these tests too


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"], env={**os.environ, "DELTASNAP_TEST": MINE})
    yield process
    process.kill()
    process.wait()


def other_start(process: str) -> str:
    """Return the name of a process of the same id that started at another time."""
    return f"{process.rpartition('#')[0]}#1"


def test_process_runs_until_it_ends(program: subprocess.Popen[bytes]) -> None:
    name = process_name(program.pid)
    assert pid_of(name) == program.pid
    assert has_ended(name) is False
    assert has_ended(this_process()) is False
    program.kill()
    program.wait()
    assert has_ended(name) is True
    assert has_ended(process_name(program.pid)) is True  # named after its end


def test_name_of_a_process_does_not_tell_the_name_of_its_machine() -> None:
    assert re.fullmatch(rf"[0-9a-f]{{12}}#{os.getpid()}#\d+", this_process())


@pytest.mark.parametrize("name", ["", "#", "1#2", "a#b#c", "elsewhere##1#2", "{machine}#x#1", "elsewhere#{pid}#1"])
def test_state_of_another_machine_is_not_known(name: str) -> None:
    machine, _, _ = this_process().split("#")
    assert has_ended(name.format(machine=machine, pid=os.getpid())) is None


@pytest.mark.skipif(shutil.which("ps") is None, reason="there is no ps")
def test_process_is_known_by_its_start_also_without_proc(
    program: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_PID_NAMESPACE", Path("/proc/nothing"))
    name = process_name(program.pid)
    assert str(datetime.now(UTC).year) in name.rpartition("#")[2]
    assert has_ended(name) is False
    assert with_variable("DELTASNAP_TEST", MINE) == []
    program.kill()
    program.wait()
    assert has_ended(name) is True


def test_process_with_another_start_time_is_another_process(program: subprocess.Popen[bytes]) -> None:
    other = other_start(process_name(program.pid))
    assert has_ended(other) is True
    send_signal(other, signal.SIGKILL)
    assert program.poll() is None


@pytest.mark.parametrize("by_descriptor", [True, False], ids=["by descriptor", "by id"])
def test_process_of_another_machine_gets_no_signal(
    program: subprocess.Popen[bytes], by_descriptor: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_descriptor:
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    send_signal(f"elsewhere{process_name(program.pid)}", signal.SIGKILL)
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(timeout=0.1)
    send_signal(process_name(program.pid), signal.SIGTERM)
    assert program.wait(timeout=60) == -signal.SIGTERM


def test_process_whose_id_is_reused_in_the_meantime_gets_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    states, sent = iter([False, True]), list[tuple[Any, ...]]()
    monkeypatch.setattr(processes, "has_ended", lambda _: next(states))
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *given: sent.append(given), raising=False)
    send_signal(this_process(), signal.SIGCONT)
    assert sent == []


def test_signal_reaches_the_process(program: subprocess.Popen[bytes]) -> None:
    send_signal(process_name(program.pid), signal.SIGTERM)
    assert program.wait(timeout=60) == -signal.SIGTERM
    send_signal(process_name(program.pid), signal.SIGTERM)


@needs_proc
def test_process_has_not_ended_while_one_of_its_threads_runs() -> None:
    script = (
        "import ctypes, threading, time; threading.Thread(target=time.sleep, args=(600,)).start();"
        "print('up', flush=True); ctypes.CDLL(None).pthread_exit(None)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    name = process_name(process.pid)
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    while ") Z " not in Path(f"/proc/{process.pid}/stat").read_text():
        assert process.poll() is None
    assert has_ended(name) is False
    process.kill()
    process.wait()
    assert has_ended(name) is True


@needs_proc
def test_processes_and_their_children_are_found_by_a_variable(program: subprocess.Popen[bytes]) -> None:
    assert with_variable("DELTASNAP_TEST", MINE) == [process_name(program.pid)]
    assert with_variable("DELTASNAP_TEST", MINE[:-1]) == []
    script = "import subprocess; subprocess.run(['sleep', '600'])"
    parent = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "DELTASNAP_TEST": "children"})
    while len(with_variable("DELTASNAP_TEST", "children")) < 2:
        assert parent.poll() is None
    stop_all(lambda: with_variable("DELTASNAP_TEST", "children"), timeout_seconds=30)
    parent.wait()
    assert program.poll() is None


@pytest.mark.slow
@needs_proc
def test_process_that_is_no_longer_found_is_waited_for_until_it_ends_by_itself() -> None:
    on_end = "signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.5), sys.exit()))"
    script = f"import signal, sys, time; {on_end}; print(flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as slow:
        assert slow.stdout is not None
        slow.stdout.readline()
        name = process_name(slow.pid)
        found = iter([[name]])  # the kernel frees the environment of a process some time before its files and ports
        stop_all(lambda: next(found, []), timeout_seconds=30)
        assert has_ended(name)
    assert slow.returncode == 0


@needs_proc
def test_process_that_does_not_end_is_killed() -> None:
    script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
    environment = {**os.environ, "DELTASNAP_TEST": "deaf"}
    deaf = subprocess.Popen([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE)
    assert deaf.stdout is not None
    deaf.stdout.readline()
    stop_all(lambda: with_variable("DELTASNAP_TEST", "deaf"), timeout_seconds=0)
    assert deaf.wait() == -signal.SIGKILL


def test_zombie_process_has_ended() -> None:
    zombie = subprocess.Popen([sys.executable, "-c", ""])
    machine, _, start = this_process().rsplit("#", 2)
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert has_ended(f"{machine}#{zombie.pid}#{start}")
    zombie.wait()
