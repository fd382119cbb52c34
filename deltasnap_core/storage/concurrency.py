"""Runs many requests to a remote storage in parallel, in threads that do not keep the process from exiting."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import partial
from threading import Lock, Thread
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 16


def map_concurrently(function: Callable[[T], R], items: Iterable[T], *, at_once: int = _THREADS) -> list[R]:
    """Return `function` of each item, in order. Runs in threads, and raises the first error in item order.

    Use it for functions that wait for a remote storage. Local files are faster one by one.
    at_once: the number of threads; below 2: none.
    """
    todo = tuple(items)
    if len(todo) < 2 or at_once < 2:
        return [function(item) for item in todo]
    threads = ReadThreads(at_once)
    futures = [threads.submit(partial(function, item)) for item in todo]
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        threads.cancel()
    wait(futures)
    return [future.result() for future in futures]


class ReadThreads:
    """Threads that run reads, at most `at_once`. Unlike those of an executor, they do not keep a process from exiting.

    A storage may never respond. The process must still be able to exit, for example when a user stops `deltasnap ui`.
    """

    def __init__(self, at_once: int) -> None:
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._left = at_once
        self._lock = Lock()

    def submit(self, read: Callable[[], R]) -> Future[R]:
        """Run a read as soon as a thread is free."""
        future = Future[R]()
        with self._lock:
            if self._left > 0:
                self._left -= 1
                Thread(target=self._work, args=(future, read), daemon=True, name="deltasnap read").start()
            else:
                self._waiting.append((future, read))
        return future

    def cancel(self) -> None:
        """Cancel the reads that have not started."""
        with self._lock:
            for future, _ in self._waiting:
                future.cancel()

    def _work(self, future: Future[Any], read: Callable[[], Any]) -> None:
        while True:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(read())
                except BaseException as error:  # noqa: BLE001  # raised where the result is used
                    future.set_exception(error)
            with self._lock:
                if not self._waiting:
                    self._left += 1
                    return
                future, read = self._waiting.popleft()
