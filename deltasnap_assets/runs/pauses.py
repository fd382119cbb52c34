"""What a sensor keeps between ticks of a table that is broken: when to look again. Plain values."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

_FIRST_PAUSE_SECONDS = 60.0  # doubled after each look that finds the table as broken
_LONGEST_PAUSE_SECONDS = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """How far a table was followed, and what is known to be wrong with it.

    cursor: of the log; None: it was not followed yet. fault: what is wrong; None: nothing. looks: how many found it.
    next_look: s since the epoch; no earlier look is taken.
    """

    cursor: str | None = None
    fault: str | None = None
    looks: int = 0
    next_look: float = 0.0

    @classmethod
    def from_text(cls, text: str | None) -> Followed:
        """Return what `to_text` gave; a text that it did not give is a cursor."""
        if not text:
            return cls()
        try:
            values = json.loads(text)
            return cls(**values) if "fault" in values else cls(cursor=text)
        except (ValueError, TypeError):
            return cls(cursor=text)

    def to_text(self) -> str | None:
        """Return it as the cursor of a sensor."""
        return self.cursor if self.fault is None else json.dumps(asdict(self))

    @property
    def pause_left(self) -> float:
        """How many seconds to wait before the next look."""
        return self.next_look - time.time() if self.fault is not None else 0.0

    def broken(self, fault: str, cursor: str | None = None) -> Followed:
        """Return what to keep after a look that found a fault; the pauses between looks grow."""
        looks = self.looks + 1
        pause = min(_FIRST_PAUSE_SECONDS * 2.0 ** (looks - 1), _LONGEST_PAUSE_SECONDS)
        return Followed(cursor=cursor or self.cursor, fault=fault, looks=looks, next_look=time.time() + pause)
