"""Communication with a child: its arguments and its reports. Imports nothing slow, because start times are measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def arguments() -> dict[str, Any]:
    """Return the arguments of the child."""
    values: dict[str, Any] = json.loads(sys.argv[1])
    return values


def report(name: str, **values: Any) -> None:
    """Report that a step is complete."""
    print(json.dumps({"report": name, **values}), flush=True)


def process_mib(pid: int, name: str) -> float:
    """Return the memory of a process in MiB. name: `VmRSS`, what it has now, or `VmHWM`, its peak."""
    # Not `ru_maxrss`: in a new process it starts with the value of the parent.
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"expected {name} of process {pid}, found none")
