"""Runs many requests to a remote storage in parallel."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 16


def map_concurrently(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return `function` of each item, in order. Runs in threads, and raises the first error in item order.

    Use it for functions that wait for a remote storage. Local files are faster one by one. The threads do not keep the
    process from exiting, unlike those of an executor: a storage may never respond.
    """
    todo: Sequence[T] = tuple(items)
    if len(todo) < 2:
        return [function(item) for item in todo]
    futures = [Future[R]() for _ in todo]
    waiting = deque(zip(futures, todo, strict=True))

    def work() -> None:
        while waiting:
            try:
                future, item = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                future.set_result(function(item))
            except BaseException as error:  # noqa: BLE001  # raised below
                future.set_exception(error)
                waiting.clear()

    threads = [Thread(target=work, daemon=True, name="deltasnap-io") for _ in range(min(_THREADS, len(todo)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [future.result() for future in futures]
