"""Processes identified by more than their id, because ids are reused."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

_PROCESSES = Path("/proc")
_PID_NAMESPACE = Path("/proc/self/ns/pid")  # containers can share a host name and have separate process ids
_DEAD = "ZX"  # states in /proc of a process that has ended, but that its parent has not reaped
_POLL_SECONDS = 0.1

R = TypeVar("R")


def this_process() -> str:
    """Return a unique name of this process: machine, namespace of ids, id, start time."""
    return process_name(os.getpid())


def process_name(pid: int) -> str:
    """Return the unique name of a process of this machine."""
    return f"{_machine()}#{pid}#{_started(pid)}"


def pid_of(process: str) -> int:
    """Return the id of the process with that name, on its own machine."""
    return int(process.rsplit("#", 2)[1])


def has_ended(process: str) -> bool | None:
    """Return whether the process with that name has ended; None: cannot be determined on this machine."""
    machine, *rest = process.rsplit("#", 2)
    if machine != _machine() or len(rest) != 2 or not rest[0].isdecimal():
        return None
    pid, started = rest
    # Process ids are reused: the same id with another start time is another process.
    return not started or _started(int(pid)) != started


def with_variable(name: str, value: str) -> list[str]:
    """Return the names of processes started with this environment variable, or whose ancestors were.

    Only processes of this user, and only on systems with /proc.
    """
    wanted = f"{name}={value}".encode()
    return [process_name(pid) for pid in _ids() if wanted in _read(pid, "environ").split(b"\0") and _started(pid)]


def arguments_of(process: str) -> list[str]:
    """Return the command line of a process; empty if it has ended or there is no /proc."""
    return _read(pid_of(process), "cmdline").decode(errors="replace").split("\0")


def send_signal(process: str, number: signal.Signals) -> None:
    """Send a signal to the process with that name. Does nothing if it has ended, even if its id was reused."""
    if has_ended(process) is not False:
        return
    try:
        if hasattr(os, "pidfd_open"):
            descriptor = os.pidfd_open(pid_of(process))
            try:
                if has_ended(process) is False:  # the descriptor belongs to this process, not a later one
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
        else:
            os.kill(pid_of(process), number)
    except ProcessLookupError:
        return


def stop_all(running: Callable[[], Sequence[str]], *, timeout_seconds: float) -> None:
    """Terminate processes until none is running, and kill the rest after a timeout."""
    left = {*running()}
    for process in left:
        send_signal(process, signal.SIGTERM)
    deadline = time.monotonic() + timeout_seconds
    # A process that is ending loses its environment first, by which `running` may search, and then its files and ports.
    while left := {*running(), *(process for process in left if has_ended(process) is False)}:
        if time.monotonic() > deadline:
            for process in left:
                send_signal(process, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def read_record(file: Path, kind: type[R]) -> R:
    """Return the record of a process in a JSON file. kind: a dataclass whose fields are all `int` or `str`.

    Errors: FileNotFoundError and other errors of the system; ValueError if the record is invalid.
    """
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        record = kind(**values)
    except (TypeError, RecursionError) as error:  # not an object, or one with other keys
        raise ValueError(str(error)) from error
    for field in fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if type(value).__name__ != field.type:
            raise ValueError(f"expected {field.name} to be of type {field.type}, found {value!r}")
        if isinstance(value, str):
            value.encode()  # a lone surrogate is a ValueError
    return record


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Wait for a lock between processes, and hold it. The kernel frees it when the process ends."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _ids() -> Iterator[int]:
    if _PID_NAMESPACE.exists():
        yield from (int(entry.name) for entry in _PROCESSES.iterdir() if entry.name.isdecimal())


def _read(pid: int, name: str) -> bytes:
    try:
        return (_PROCESSES / str(pid) / name).read_bytes()
    except OSError:  # it has ended, or belongs to another user
        return b""


def _machine() -> str:
    """Return a digest, so that readers of a process name do not learn machine names."""
    namespace = _PID_NAMESPACE.readlink() if _PID_NAMESPACE.exists() else ""
    return hashlib.sha256(f"{socket.gethostname()}#{namespace}".encode()).hexdigest()[:12]


def _started(pid: int) -> str:
    """Return the start time of the process with an id, as text; empty if there is none or it has ended."""
    if _PID_NAMESPACE.exists():
        # The program name, in parentheses, can contain anything. After it: state (3), ..., num_threads (20), -,
        # starttime (22). If the first thread has ended and others have not, the process still has its files and ports.
        fields = _read(pid, "stat").decode(errors="replace").rpartition(")")[2].split()
        return "" if not fields or (fields[0] in _DEAD and int(fields[17]) < 2) else fields[19]
    listing = ["ps", "-o", "lstart=", "-p", str(pid)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(listing, capture_output=True, text=True, check=False, env=environment).stdout.strip()
