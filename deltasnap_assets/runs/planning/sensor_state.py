"""The state that a sensor keeps between ticks for a broken table, and when to poll again. Plain values."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from deltasnap_core import LogCursor

_FIRST_PAUSE_SECONDS = 60.0
_MAX_PAUSE_SECONDS = 600.0
_MAX_DOUBLINGS = 10  # a float overflows after a thousand


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorState:
    """How far a table was followed, and its known fault.

    cursor: of the log; None: not followed yet. fault: None: no fault. polls: the number of polls that found the fault.
    next_poll: earliest time of the next poll, in s since the epoch.
    """

    cursor: str | None = None
    fault: str | None = None
    polls: int = 0
    next_poll: float = 0.0

    @classmethod
    def from_text(cls, text: str | None) -> SensorState:
        """Return the value from a text of `to_text`. Errors: ValueError for any other text."""
        if not text:
            return cls()
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError(f"expected an object, found {text!r}")
        try:
            followed = cls(**values) if "fault" in values else cls(cursor=text)
            if followed.cursor is not None:
                LogCursor.from_text(str(followed.cursor))
            if followed.polls < 0 or followed.next_poll < 0:
                raise ValueError(f"expected a number of polls and a time, found {text!r}")
        except TypeError as error:
            raise ValueError(str(error)) from error
        return followed

    def to_text(self) -> str | None:
        """Return the value as a sensor cursor."""
        return self.cursor if self.fault is None else json.dumps(asdict(self))

    def pause_left_ms(self, now_ms: int) -> float:
        """Return how many ms to wait before the next poll; 0 or less: it is due."""
        left = 0.0 if self.fault is None else self.next_poll * 1000 - now_ms
        return left if left <= _MAX_PAUSE_SECONDS * 1000 else 0.0  # more means that a clock was wrong

    def broken(self, fault: str, cursor: str | None = None) -> SensorState:
        """Return the state after a poll that found a fault. The pauses between polls grow."""
        pause = min(_FIRST_PAUSE_SECONDS * 2 ** min(self.polls, _MAX_DOUBLINGS), _MAX_PAUSE_SECONDS)
        polls, next_poll = self.polls + 1, time.time() + pause
        return SensorState(cursor=cursor or self.cursor, fault=fault, polls=polls, next_poll=next_poll)
