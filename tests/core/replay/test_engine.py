"""The engine for each query, the reason, and another value of the same version where a query meets damage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deltasnap_core.errors import CorruptLogError, DeltaSnapError, SparkRequiredError, UnsupportedServerError
from deltasnap_core.replay.engine import (
    LIMITS,
    EngineUse,
    Question,
    ReplayEngine,
    UnusualError,
    actions_text,
    why_spark,
)
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.sessions import GivenSession, provider_of

SESSION: Any = SimpleNamespace(version="4.3.0", conf=SimpleNamespace(get=lambda *_: "local[2]"))


class Provider:
    """A fake that counts its calls."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def session(self, reason: str) -> Any:
        self.reasons.append(reason)
        return SESSION

    def setting(self, name: str) -> str | None:
        return None


def answer(engine: ReplayEngine, sizes: dict[Question, int | None], *, is_unusual: bool = False) -> tuple[str, str]:
    def driver() -> str:
        if is_unusual:
            raise UnusualError("a large commit")
        return "driver"

    found = engine.answer(sizes, work="12 actions applied to version 40", driver=driver, spark=lambda _: "spark")
    return found.value, found.computed_by


@pytest.mark.parametrize("question", list(LIMITS))
def test_driver_is_used_up_to_the_limit_and_spark_beyond(question: Question) -> None:
    most = LIMITS[question].most
    assert why_spark(question, most) is None
    assert f"{most + 1:,} {LIMITS[question].unit}, more than {most:,}" in str(why_spark(question, most + 1))
    assert why_spark(question, None) is not None
    assert why_spark(question, 0, "spark") is not None


def test_spark_reconstructs_versions_of_any_size() -> None:
    assert why_spark(Question.RECONSTRUCT, 1) is not None
    assert Question.RECONSTRUCT not in LIMITS


def test_three_limits_have_costs_for_both_engines() -> None:
    assert len(LIMITS) == 3
    assert all(limit.driver and limit.spark for limit in LIMITS.values())


def test_driver_starts_no_session_and_logs_its_work() -> None:
    provider = Provider()
    engine = ReplayEngine(provider)
    assert answer(engine, {Question.COUNT: 5}) == ("driver", "driver: 12 actions applied to version 40")
    assert provider.reasons == []


def test_spark_is_named_with_its_version_and_master() -> None:
    provider = Provider()
    assert answer(ReplayEngine(provider, "spark"), {Question.COUNT: 5}) == ("spark", "Spark 4.3.0, local[2]")
    assert provider.reasons == ["the computed state of a version: the engine is set to Spark"]


def test_server_that_hides_its_master_is_named_by_its_version() -> None:
    session: Any = SimpleNamespace(version="4.3.0", conf=SimpleNamespace(get=lambda *_: None))
    assert answer(ReplayEngine(GivenSession(session), "spark"), {Question.COUNT: 5})[1] == "Spark 4.3.0"


def test_spark_is_used_if_one_of_two_sizes_exceeds_the_driver_limit() -> None:
    provider = Provider()
    sizes: dict[Question, int | None] = {Question.APPLY: 1, Question.ROWS: LIMITS[Question.ROWS].most + 1}
    assert answer(ReplayEngine(provider), sizes)[0] == "spark"
    assert provider.reasons == ["the file actions of a version: 50,001 rows, more than 50,000"]


def test_spark_is_used_if_the_driver_finds_an_unusual_form() -> None:
    provider = Provider()
    assert answer(ReplayEngine(provider), {Question.ROWS: 1}, is_unusual=True)[0] == "spark"
    assert provider.reasons == ["the file actions of a version: only Spark reads a large commit"]


@pytest.mark.parametrize("use", ["auto", "spark"])
def test_without_a_session_a_spark_query_is_an_error_with_the_reason(use: EngineUse) -> None:
    engine = ReplayEngine(GivenSession(None), use)
    with pytest.raises(SparkRequiredError, match="the computed state of a version"):
        answer(engine, {Question.COUNT: None})


def test_session_may_be_an_object_a_provider_or_none() -> None:
    provider = Provider()
    assert provider_of(provider) is provider
    assert provider_of(None).setting("spark.master") is None
    with pytest.raises(SparkRequiredError, match="a query"):
        provider_of(None).session("a query")
    given = provider_of(cast("Any", SESSION))
    assert isinstance(given, GivenSession)
    assert given.session("nothing is started") is SESSION
    assert given.setting("spark.master") == "local[2]"


def test_work_of_the_driver_is_counted_in_words() -> None:
    assert [actions_text(count, "read") for count in (0, 1, 1234, None)] == [
        "0 actions read",
        "1 action read",
        "1,234 actions read",
        "read",
    ]


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
