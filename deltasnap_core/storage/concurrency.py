"""Waiting for many remote files at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 16


def map_concurrently(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return `function` of each item, in order, some at a time in threads; raises the first error in that order.

    For functions that wait for a remote storage; what is local is faster one by one.
    """
    todo: Sequence[T] = tuple(items)
    if len(todo) < 2:
        return [function(item) for item in todo]
    with ThreadPoolExecutor(min(_THREADS, len(todo)), thread_name_prefix="deltasnap-io") as pool:
        return list(pool.map(function, todo))
