"""Communication with a child: its arguments and its reports. Imports nothing slow, because start times are measured."""

from __future__ import annotations

import json
import sys
from typing import Any


def arguments() -> dict[str, Any]:
    """Return the arguments of the child."""
    values: dict[str, Any] = json.loads(sys.argv[1])
    return values


def report(name: str, **values: Any) -> None:
    """Report that a step is complete."""
    print(json.dumps({"report": name, **values}), flush=True)
