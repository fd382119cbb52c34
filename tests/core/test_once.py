"""Properties computed once."""

from __future__ import annotations

import time
from threading import Barrier, Thread

import pytest

from deltasnap_core.once import once


class Thing:
    def __init__(self) -> None:
        self.computed = 0

    @once
    def value(self) -> int:
        """Documented."""
        time.sleep(0.02)
        self.computed += 1
        return self.computed

    @once
    def fails_first(self) -> int:
        self.computed += 1
        if self.computed == 1:
            raise ValueError("once")
        return self.computed


def test_value_is_computed_once_for_many_threads() -> None:
    thing, barrier, found = Thing(), Barrier(8), []

    def ask() -> None:
        barrier.wait()
        found.append(thing.value)

    threads = [Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (found, thing.computed) == ([1] * 8, 1)


def test_value_is_computed_only_on_access() -> None:
    thing = Thing()
    assert not Thing.value.is_computed(thing)
    assert (thing.value, thing.value) == (1, 1)
    assert Thing.value.is_computed(thing)
    assert Thing.value.__doc__ == "Documented."


def test_error_is_not_cached() -> None:
    thing = Thing()
    with pytest.raises(ValueError, match="once"):
        _ = thing.fails_first
    assert thing.fails_first == 2
