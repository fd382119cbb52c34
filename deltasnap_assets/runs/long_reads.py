"""Reads that may take longer than a tick. Each continues in its thread, and a later tick uses its result."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from deltasnap_assets.quantities import span_text, time_text

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

    @property
    def num_running(self) -> int:
        """Return the number of reads in progress, without those that were given up."""
        return sum(not read.future.done() and not read.is_given_up for read in list(self._reads.values()))

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
