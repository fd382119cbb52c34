"""What a process remembers between ticks. Nothing is lost with it but time: another process reads it again.

These are the only global variables of `runs/`: threads of reads that take longer than a tick, and what was read lately.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from deltasnap_assets.quantities import span_text, time_text
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import TableCondition
from deltasnap_core.support import CommonVersion, LogListing

_PATIENCE_SECONDS = 300.0
"""A read that takes longer than this is started again, because its storage may have lost a request. The second read may
take twice as long, the third four times: so few threads wait forever, and a long log is eventually read."""

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRead(Generic[T]):
    """A read in a thread. since: when it was first started, in s since the epoch. started: when it was last started."""

    future: Future[T]
    since: float
    started: float
    patience: float

    @property
    def is_given_up(self) -> bool:
        """Return whether the read is to be started again."""
        return not self.future.done() and time.time() - self.started >= self.patience

    @property
    def is_overdue(self) -> bool:
        """Return whether the read takes so long that it is, or was, started again."""
        return time.time() - self.since >= _PATIENCE_SECONDS

    @property
    def since_text(self) -> str:
        """Return since when a table waits for the read."""
        return f"since {time_text(int(self.since * 1000))} ({span_text(int((time.time() - self.since) * 1000))})"


class LongReads(Generic[K, T]):
    """The reads of a process that are in progress, or whose result was not used yet, by key."""

    def __init__(self) -> None:
        self._reads: dict[K, LongRead[T]] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._reads

    def of(self, key: K, start: Callable[[], Future[T]]) -> LongRead[T]:
        """Return the read of a key. It is started if there is none, or if it was given up."""
        before, now = self._reads.get(key), time.time()
        if before is not None and not before.is_given_up:
            return before
        since, patience = (now, _PATIENCE_SECONDS) if before is None else (before.since, 2 * before.patience)
        read = LongRead(future=start(), since=since, started=now, patience=patience)
        self._reads[key] = read
        return read

    def end(self, key: K) -> None:
        """Forget a read: its result is used."""
        self._reads.pop(key, None)


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
POLLS = LongReads[Hashable, Any]()
"""The polls that did not end within their tick."""
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
