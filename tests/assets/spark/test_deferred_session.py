"""A session that starts when it is needed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from deltasnap_assets.spark.deferred_session import deferred

LIMIT = "spark.databricks.delta.stalenessLimit"


class Conf:
    def get(self, key: str, default: str | None = None) -> str | None:
        return {"spark.sql.ansi.enabled": "true"}.get(key, default)


class Session:
    conf = Conf()
    version = "4.3.0"


def test_session_starts_with_the_first_question_and_is_each_time_the_same() -> None:
    started: list[Session] = []

    def start() -> Any:
        if not started:
            started.append(Session())
        return started[0]

    session = deferred(start, {})
    assert not started
    assert session.version == "4.3.0"
    assert cast("Any", session).conf.get("spark.sql.ansi.enabled") == "true"
    assert len(started) == 1


def test_properties_of_delta_are_those_of_the_settings_and_start_nothing() -> None:
    def start() -> Any:
        raise AssertionError("started")

    conf: Any = deferred(start, {LIMIT: "5s"}).conf
    assert conf.get(LIMIT, None) == "5s"
    assert conf.get("spark.databricks.delta.snapshotPartitions", None) is None
    with pytest.raises(AssertionError, match="started"):
        conf.get("spark.sql.ansi.enabled", "false")
