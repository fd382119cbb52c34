"""Pauses between attempts, which double. Plain values."""

from __future__ import annotations

import math
import time

FIRST_PAUSE_SECONDS = 60.0
_MAX_DOUBLINGS = 10  # a float overflows after a thousand


def doubling_pause(attempt: int, *, most: float = math.inf) -> float:
    """Return the pause in seconds after an attempt, from 1."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(attempt - 1, _MAX_DOUBLINGS), most)


def seconds_left(until: float, *, most: float) -> float:
    """Return the seconds until a time in s since the epoch; 0 or less: it has passed.

    More than `most` means that a clock was wrong: 0.
    """
    left = until - time.time()
    return left if left <= most else 0.0
