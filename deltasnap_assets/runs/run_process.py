"""Which process a run is in, and whether it still lives: so that a run whose process was killed is known for lost.

Dagster itself takes such a run for one under way for ever, and with it every place it holds in a queue. Its own run
monitoring is no help: it knows the runs that its daemon launched, and takes those of `deltasnap refresh` for dead.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

# Dagster keeps tags that begin so out of its pages: a name that is there for machines would stand first in its list.
HIDDEN_TAG_PREFIX = ".dagster/deltasnap/"
PROCESS_TAG = f"{HIDDEN_TAG_PREFIX}process"
HEARTBEAT_SECONDS = 30.0

_PID_NAMESPACE = Path("/proc/self/ns/pid")  # containers may share a host's name, and then number processes on their own
_DEAD = "ZX"  # of states in /proc: a process that ended, though its parent has not taken notice


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
    return _started(int(pid)) != started


@contextmanager
def heartbeat(instance: dg.DagsterInstance, run_id: str, every_seconds: float = HEARTBEAT_SECONDS) -> Iterator[None]:
    """Tag a run with this process, and again every few seconds until the end: that sets when it was last updated.

    By that time, which is the instance's, any machine can tell a run that lives from one that is lost. Of an ephemeral
    instance no other process asks: it is tagged once, since its database in memory lets no second thread in.
    """
    tags, ended = {PROCESS_TAG: this_process()}, threading.Event()

    def beat() -> None:
        while not ended.wait(every_seconds):
            try:
                instance.add_run_tags(run_id, tags)
            except Exception:  # noqa: BLE001  # a storage that is busy or away for a moment: the next one counts
                continue

    instance.add_run_tags(run_id, tags)
    if instance.is_ephemeral:
        yield
        return
    thread = threading.Thread(target=beat, name="deltasnap-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _machine() -> str:
    """A digest: whoever may read a run's tags need not read the names of machines."""
    namespace = _PID_NAMESPACE.readlink() if _PID_NAMESPACE.exists() else ""
    return hashlib.sha256(f"{socket.gethostname()}#{namespace}".encode()).hexdigest()[:12]


def _started(pid: int) -> str:
    """Return what tells when the process of an id began; empty where there is none, or it has ended."""
    if _PID_NAMESPACE.exists():
        try:
            # The name of the program, in parentheses, may hold anything. After it: state (3), ..., starttime (22).
            fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in _DEAD else fields[19]
    listing = ["ps", "-o", "lstart=", "-p", str(pid)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    return subprocess.run(listing, capture_output=True, text=True, check=False, env=environment).stdout.strip()
