"""The current time, as a function that callers can replace. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""A function that returns the current time, in milliseconds since the epoch."""


def system_clock() -> int:
    """Return the current time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000
