"""Processes, known by more than their id: another program may have that by now."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_PROCESSES = Path("/proc")
_PID_NAMESPACE = Path("/proc/self/ns/pid")  # containers may share a host's name, and then number processes on their own
_DEAD = "ZX"  # of states in /proc: a process that ended, though its parent has not taken notice
_POLL_SECONDS = 0.1


def this_process() -> str:
    """Return a name for this process, which no other one ever has: machine, namespace of ids, id, time of its start."""
    return name_of(os.getpid())


def name_of(pid: int) -> str:
    """Return such a name for a process of this machine."""
    return f"{_machine()}#{pid}#{_started(pid)}"


def pid_of(process: str) -> int:
    """Return the id of the process of that name, on its own machine."""
    return int(process.rsplit("#", 2)[1])


def has_ended(process: str) -> bool | None:
    """Return whether the process of that name is gone; None where this machine cannot tell."""
    machine, *rest = process.rsplit("#", 2)
    if machine != _machine() or len(rest) != 2 or not rest[0].isdecimal():
        return None
    pid, started = rest
    # Process ids are given out again: the same id with another start is another process.
    return not started or _started(int(pid)) != started


def with_variable(name: str, value: str) -> list[str]:
    """Return the names of the processes that were started with a variable in their environment, by themselves or above.

    Those of this user. Only where there is a /proc; elsewhere none.
    """
    wanted = f"{name}={value}".encode()
    return [name_of(pid) for pid in _ids() if wanted in _read(pid, "environ").split(b"\0") and _started(pid)]


def arguments_of(process: str) -> list[str]:
    """Return the command line of a process; empty where it is gone, or there is no /proc."""
    return _read(pid_of(process), "cmdline").decode(errors="replace").split("\0")


def send(process: str, number: signal.Signals) -> None:
    """Send a signal to the process of that name; a no-op where it is gone, whoever has its id by now."""
    if has_ended(process) is not False:
        return
    try:
        if hasattr(os, "pidfd_open"):
            descriptor = os.pidfd_open(pid_of(process))
            try:
                if has_ended(process) is False:  # the descriptor is of this process, not of one that came meanwhile
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
        else:
            os.kill(pid_of(process), number)
    except ProcessLookupError:
        return


def stop_all(running: Callable[[], Sequence[str]], *, timeout_seconds: float) -> None:
    """Stop processes until none is running: they are asked to end, and killed after a time."""
    for process in running():
        send(process, signal.SIGTERM)
    deadline = time.monotonic() + timeout_seconds
    while left := running():
        if time.monotonic() > deadline:
            for process in left:
                send(process, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _ids() -> Iterator[int]:
    if _PID_NAMESPACE.exists():
        yield from (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdecimal())


def _read(pid: int, name: str) -> bytes:
    try:
        return (_PROCESSES / str(pid) / name).read_bytes()
    except OSError:  # it is gone, or another user's
        return b""


def _machine() -> str:
    """A digest: whoever may read the name of a process need not read the names of machines."""
    namespace = _PID_NAMESPACE.readlink() if _PID_NAMESPACE.exists() else ""
    return hashlib.sha256(f"{socket.gethostname()}#{namespace}".encode()).hexdigest()[:12]


def _started(pid: int) -> str:
    """Return what tells when the process of an id began; empty where there is none, or it has ended."""
    if _PID_NAMESPACE.exists():
        # The name of the program, in parentheses, may hold anything. After it: state (3), ..., starttime (22).
        fields = _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
        return "" if not fields or fields[0] in _DEAD else fields[19]
    listing = ["ps", "-o", "lstart=", "-p", str(pid)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(listing, capture_output=True, text=True, check=False, env=environment).stdout.strip()
