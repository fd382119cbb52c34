"""Which process a run is in, so that a run whose process was killed is known for what it is.

Dagster itself takes such a run for one under way for ever, and with it every place it holds in a queue.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

PROCESS_TAG = "deltasnap/process"

_PID_NAMESPACE = Path("/proc/self/ns/pid")  # containers may share a host's name, and then number processes on their own


def this_process() -> str:
    """A name for this process: machine, namespace of process ids, process id."""
    return f"{_machine()}#{os.getpid()}"


def has_ended(process: str) -> bool:
    """Whether the process of that name is gone; False where this machine cannot tell."""
    machine, _, pid = process.rpartition("#")
    if machine != _machine() or not pid.isdecimal() or os.name != "posix":
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _machine() -> str:
    namespace = _PID_NAMESPACE.readlink() if _PID_NAMESPACE.exists() else ""
    return f"{socket.gethostname()}#{namespace}"
