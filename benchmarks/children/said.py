"""How a child is told what to do, and says how far it is. Imports nothing that takes time: starts are what is timed."""

from __future__ import annotations

import json
import sys
from typing import Any


def arguments() -> dict[str, Any]:
    """What the child was given."""
    values: dict[str, Any] = json.loads(sys.argv[1])
    return values


def report(name: str, **values: Any) -> None:
    """Say that something is there."""
    print(json.dumps({"report": name, **values}), flush=True)
