"""What a process remembers between ticks. Nothing is lost with it but time: another process reads it again.

These are the only global variables of `runs/`: threads of reads that take longer than a tick, and what was read lately.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple

from deltasnap_assets.quantities import span_text, time_text
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import TableCondition
from deltasnap_core.support import CommonVersion, LogListing

_OVERDUE_SECONDS, _LOST_SECONDS = 300.0, 3600.0


class LongRead(NamedTuple):
    """A read in a thread. since: when it was started, in s since the epoch."""

    future: Future[Any]
    since: float

    @property
    def is_overdue(self) -> bool:
        """Return whether the read takes much longer than a tick."""
        return time.time() - self.since >= _OVERDUE_SECONDS

    @property
    def is_lost(self) -> bool:
        """Return whether the read is to be started again: its storage may have lost a request."""
        return not self.future.done() and time.time() - self.since >= _LOST_SECONDS

    @property
    def since_text(self) -> str:
        """Return since when a table waits for the read."""
        return f"since {time_text(int(self.since * 1000))} ({span_text(int((time.time() - self.since) * 1000))})"


Key = tuple[str, str]
"""A table: the store and its name in it."""


def key_of_table(settings: Settings, table: TableSettings) -> Key:
    return settings.storage, table.name


class Look(NamedTuple):
    """When a tick last read the records of a table without requesting a run.

    failed: the failed runs that it knew of, see `Seen.failed_lately`.
    fault: why versions cannot be loaded; None: they can.
    """

    at_ms: int
    failed: Hashable = None
    fault: str | None = None


class ListedLog(NamedTuple):
    """The listing of a table's log, and how the log relates to the stored versions (None: not compared)."""

    listing: LogListing
    common: CommonVersion | None


class ReadCondition(NamedTuple):
    """The condition of a log, the inputs from which it was read, and when (`time.monotonic`)."""

    inputs: object
    condition: TableCondition
    at: float


LOOKS: dict[Key, Look] = {}
"""What ticks last read. A look counts until a run is requested, or until another one fails."""
CONDITIONS: dict[tuple[Key, bool], ReadCondition] = {}
"""The last conditions with faults, by table and whether pages were read."""
POLLS: dict[Hashable, LongRead] = {}
"""The polls that are in progress, or whose answer was not used yet."""
_LISTED: dict[str, dict[str, ListedLog]] = {}


@contextmanager
def handing_over(run_id: str, table_name: str, listed: ListedLog | None) -> Iterator[None]:
    """Make the listed log of a table available to the run with this id, while the context is open.

    So `refresh` and the run that it starts in the same process read the log once.
    """
    _LISTED[run_id] = {} if listed is None else {table_name: listed}
    try:
        yield
    finally:
        del _LISTED[run_id]


def listed_logs_of(run_id: str) -> Mapping[str, ListedLog]:
    """Return the listed logs passed to a run, by table; empty for a run in another process."""
    return dict(_LISTED.get(run_id, {}))
