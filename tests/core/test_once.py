"""Properties computed once."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Barrier, Event, Thread

import pytest

from deltasnap_core.once import forget_all, once


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
    assert (Thing.value.is_computed(thing), Thing.value.value_if_computed(thing)) == (False, None)
    assert thing.value == Thing.value.value_if_computed(thing) == 1
    assert Thing.value.is_computed(thing)
    assert Thing.value.__doc__ == "Documented."


def test_error_is_not_cached() -> None:
    thing = Thing()
    with pytest.raises(ValueError, match="once"):
        _ = thing.fails_first
    assert thing.fails_first == 2


def test_value_can_be_replaced_and_forgotten() -> None:
    thing = Thing()
    Thing.value.replace(thing, 7)
    assert thing.value == 7
    Thing.value.forget(thing)
    assert thing.value == 1


def test_every_value_can_be_forgotten() -> None:
    class Other(Thing):
        @once
        def more(self) -> int:
            return self.value + 1

    thing = Other()
    assert (thing.more, thing.value) == (2, 1)
    forget_all(thing)
    assert (thing.more, thing.value) == (3, 2)


class Slow:
    """Its value is the source when the computation began. The computation waits for `go_on`."""

    def __init__(self) -> None:
        self.source = 1
        self.began, self.go_on = Event(), Event()

    @once
    def value(self) -> int:
        found = self.source
        self.began.set()
        assert self.go_on.wait(10)
        return found


def running(thing: Slow) -> Thread:
    """A thread that has begun to compute the value of 1."""
    thread = Thread(target=lambda: thing.value)
    thread.start()
    assert thing.began.wait(10)
    thing.source = 2
    return thread


@pytest.mark.parametrize("forget", [forget_all, Slow.value.forget], ids=["all", "one"])
def test_value_that_is_forgotten_during_its_computation_is_computed_again(forget: Callable[[Slow], None]) -> None:
    thing = Slow()
    thread = running(thing)
    forget(thing)
    thing.go_on.set()
    thread.join()
    assert not Slow.value.is_computed(thing)
    assert thing.value == 2


def test_value_that_is_replaced_during_its_computation_stays() -> None:
    thing = Slow()
    thread = running(thing)
    Slow.value.replace(thing, 7)
    thing.go_on.set()
    thread.join()
    assert thing.value == 7
