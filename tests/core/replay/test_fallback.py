"""Queries that meet damage continue with another value of the same version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Barrier, Thread

import pytest

from deltasnap_core.errors import CorruptLogError, DeltaSnapError, UnsupportedServerError
from deltasnap_core.replay.fallback import Fallback


def damaged(path: str) -> CorruptLogError:
    return CorruptLogError(path=path, reason="a page is damaged")


@dataclass(frozen=True, eq=False)
class Checkpoints:
    """A version that reads the first of some checkpoints. The last one cannot be replaced."""

    names: tuple[str, ...]

    def without(self, error: DeltaSnapError) -> Checkpoints:
        if len(self.names) == 1:
            raise error
        return Checkpoints(self.names[1:])


def reading(read: list[str], *, sound: str) -> Callable[[Checkpoints], str]:
    """A query that notes which checkpoints it reads. Only one of them is sound."""

    def query(version: Checkpoints) -> str:
        read.append(version.names[0])
        if version.names[0] != sound:
            raise damaged(version.names[0])
        return sound

    return query


def test_query_continues_without_each_damaged_checkpoint_and_later_queries_do_not_read_it() -> None:
    version, read = Checkpoints(("new", "older", "oldest")), list[str]()
    versions = Fallback(version)
    assert [versions.run(reading(read, sound="oldest")) for _ in range(2)] == ["oldest", "oldest"]
    assert read == ["new", "older", "oldest", "oldest"]
    assert version.names == ("new", "older", "oldest")


def test_damage_that_nothing_replaces_is_raised_and_the_version_stays() -> None:
    versions, read = Fallback(Checkpoints(("new", "older"))), list[str]()
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="older"):
            versions.run(reading(read, sound="none"))
    assert read == ["new", "older", "older"]


def test_checkpoint_in_a_form_that_spark_cannot_read_is_replaced() -> None:
    def query(version: Checkpoints) -> str:
        if version.names[0] == "new":
            raise UnsupportedServerError(server="Spark", work="read it", reason="no codec", needed="a codec")
        return version.names[0]

    assert Fallback(Checkpoints(("new", "older"))).run(query) == "older"


def test_other_errors_are_raised_without_another_try() -> None:
    versions = Fallback(Checkpoints(("new", "older")))
    with pytest.raises(ValueError, match="wrong"):
        versions.run(lambda _: int("wrong"))
    assert versions.version.names == ("new", "older")


def test_threads_that_meet_the_same_damage_continue_with_the_same_value() -> None:
    versions, barrier, found = Fallback(Checkpoints(("new", "older", "oldest"))), Barrier(8), list[Checkpoints]()

    def query(version: Checkpoints) -> Checkpoints:
        if version.names[0] == "new":
            barrier.wait()
            raise damaged("new")
        return version

    threads = [Thread(target=lambda: found.append(versions.run(query))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.names for each in found] == [("older", "oldest")] * 8
    assert {*map(id, found)} == {id(versions.version)}
