"""When this process last did something for each table, so that not every tick does it again."""

from __future__ import annotations

import math
import time

from deltasnap_assets.settings.config import Settings, TableSettings


class Reminders:
    """When something was last done for a table, and with which value: by name, store and table."""

    def __init__(self) -> None:
        self._done: dict[tuple[str, str, str], tuple[float, object]] = {}

    def is_due(
        self, what: str, settings: Settings, table: TableSettings, *, seconds: float = math.inf, value: object = None
    ) -> bool:
        """Return whether something was never done, not for this many seconds, or last with another value."""
        at, last = self._done.get((what, settings.storage, table.name), (-math.inf, None))
        return time.monotonic() - at >= seconds or last != value

    def restart(self, what: str, settings: Settings, table: TableSettings, value: object = None) -> None:
        """Remember that something is done now."""
        self._done[what, settings.storage, table.name] = (time.monotonic(), value)

    def restart_if_due(
        self, what: str, settings: Settings, table: TableSettings, *, seconds: float, waits_first: bool = False
    ) -> bool:
        """Return whether something is due, and remember that it is done now.

        waits_first: whether it first becomes due this many seconds after the first call.
        """
        key = what, settings.storage, table.name
        if waits_first:
            self._done.setdefault(key, (time.monotonic(), None))
        is_due = self.is_due(what, settings, table, seconds=seconds)
        if is_due:
            self.restart(what, settings, table)
        return is_due


REMINDERS = Reminders()
