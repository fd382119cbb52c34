"""Times in milliseconds since the epoch, and the current time as a function that callers can replace. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], int]
"""A function that returns the current time, in milliseconds since the epoch."""


def system_clock() -> int:
    """Return the current time, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def milliseconds(timestamp: datetime | int | None) -> int:
    """Return a time in ms since the epoch. Errors: ValueError for an invalid time.

    A local time that a change of the clocks skips is moved forward by the length of the gap, as in Spark.
    """
    if isinstance(timestamp, datetime):
        # Do not convert milliseconds to a float, which would lose those of far dates.
        if timestamp.utcoffset() is None:  # `astimezone` moves a skipped time backward
            return int(timestamp.replace(microsecond=0).timestamp()) * 1000 + timestamp.microsecond // 1000
        # Do not convert to UTC, where the first and last days of some zones are out of range.
        return (timestamp - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    if isinstance(timestamp, int):
        return timestamp
    raise ValueError(f"A timestamp is a datetime or milliseconds since the epoch, not {timestamp!r}")
