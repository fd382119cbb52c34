"""Runs many requests to a remote storage in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

_THREADS = 16


def map_concurrently(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Return `function` of each item, in order. Runs in threads, and raises the first error in item order.

    Use it for functions that wait for a remote storage. Local files are faster one by one.
    """
    todo: Sequence[T] = tuple(items)
    if len(todo) < 2:
        return [function(item) for item in todo]
    with ThreadPoolExecutor(min(_THREADS, len(todo)), thread_name_prefix="deltasnap-io") as pool:
        return list(pool.map(function, todo))
