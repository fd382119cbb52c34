"""The cache of a reconstructed state, and job descriptions. Sessions are fakes that record their calls."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException

from deltasnap_core.replay.spark.session.state_cache import StateCache, job_description


class Session:
    """A session, its catalog and its configuration. fails: by the name of a call, the error that it raises."""

    def __init__(self, **fails: Exception) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.settings: dict[str, str] = {}
        self._fails = fails
        self.catalog = self.conf = self

    def _called(self, *call: str) -> None:
        self.calls.append(call)
        if call[0] in self._fails:
            raise self._fails[call[0]]

    def cacheTable(self, name: str) -> None:  # noqa: N802
        self._called("cacheTable", name)

    def uncacheTable(self, name: str) -> None:  # noqa: N802
        self._called("uncacheTable", name)

    def dropTempView(self, name: str) -> None:  # noqa: N802
        self._called("dropTempView", name)

    def get(self, name: str, default: str | None) -> str | None:
        return self.settings.get(name, default)

    def set(self, name: str, value: str) -> None:
        self._called("set", name, value)
        self.settings[name] = value

    def unset(self, name: str) -> None:
        del self.settings[name]


class Frame:
    def __init__(self, session: Session) -> None:
        self.sparkSession = session

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802
        self.sparkSession.calls.append(("createOrReplaceTempView", name))


def test_state_is_cached_once_until_it_is_released() -> None:
    session, cache = Session(), StateCache("the `state`")
    frame: Any = Frame(session)
    assert (cache.name, cache.is_cached) == ("the 'state'", False)
    assert cache.cached(frame) is cache.cached(frame) is frame
    assert cache.is_cached
    assert session.calls == [("createOrReplaceTempView", "`the 'state'`"), ("cacheTable", "`the 'state'`")]
    session.calls.clear()
    cache.release()
    cache.release()
    found = (cache.is_cached, session.calls)
    assert found == (False, [("uncacheTable", "`the 'state'`"), ("dropTempView", "the 'state'")])
    session.calls.clear()
    assert cache.cached(frame) is frame
    assert (session.calls, cache.is_cached) == ([], False)


def test_state_that_is_not_cached_is_released_without_a_session() -> None:
    cache = StateCache("state")
    cache.release()
    assert not cache.is_cached


def test_state_of_a_stopped_session_is_released() -> None:
    session, cache = Session(uncacheTable=ConnectionError("stopped")), StateCache("state")
    frame: Any = Frame(session)
    cache.cached(frame)
    cache.release()
    assert not cache.is_cached


def test_caches_in_use_have_different_names() -> None:
    first, second, third = StateCache("a table"), StateCache("a table"), StateCache("a table")
    assert [cache.name for cache in (first, second, third)] == ["a table", "a table (2)", "a table (3)"]
    del second
    assert StateCache("a table").name == "a table (2)"


@pytest.mark.parametrize("before", [None, "a notebook"])
def test_jobs_have_a_description_within_the_context(before: str | None) -> None:
    session: Any = Session()
    session.settings = {} if before is None else {"spark.job.description": before}
    earlier = dict(session.settings)
    with job_description(session, "Counting"):
        assert session.settings == {"spark.job.description": "Counting"}
    assert session.settings == earlier


def test_server_without_job_descriptions_runs_the_jobs() -> None:
    session: Any = Session(set=PySparkException("unknown setting"))
    with job_description(session, "Counting"):
        assert session.settings == {}
    assert session.calls == [("set", "spark.job.description", "Counting")]
