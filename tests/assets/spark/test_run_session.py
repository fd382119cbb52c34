"""The Spark session of a run: when it starts, its line in the run log, and its failures."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from pyspark.errors import AnalysisException, PySparkRuntimeError, SparkRuntimeException

from deltasnap_assets.spark.java import Java, JavaError
from deltasnap_assets.spark.session import failures, run_session
from deltasnap_assets.spark.session.failures import starting_spark, using_spark
from deltasnap_assets.spark.session.run_session import RunSession, SharedSession
from deltasnap_core import DeltaSnapError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = "spark.databricks.delta.stalenessLimit"


class Conf:
    def get(self, key: str, default: str | None = None) -> str | None:
        return {"spark.sql.ansi.enabled": "true"}.get(key, default)


class Resource:
    """A fake of dagster-pyspark's resource that counts the started sessions."""

    def __init__(self) -> None:
        self.config = lambda **_: self
        self.started = 0
        self.missing_file: Exception | None = AnalysisException("no such file", "PATH_NOT_FOUND", {})

    def getOrCreate(self) -> Any:  # noqa: N802  # Spark's name
        self.started += 1
        return SimpleNamespace(conf=Conf(), version="4.3.0", read=self)

    def text(self, _: str) -> Any:
        if self.missing_file is not None:
            raise self.missing_file
        return SimpleNamespace(schema="value")


Made = Callable[..., tuple[RunSession, Resource, list[str]]]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr(run_session, "use_java", lambda: Java(path=Path("/jdk/bin/java"), major=17))
    monkeypatch.setattr(run_session, "check_remote", lambda _: None)
    monkeypatch.setattr(run_session, "limit_retries", lambda _: None)

    def make(**config: str) -> tuple[RunSession, Resource, list[str]]:
        resource, lines = Resource(), list[str]()
        monkeypatch.setattr(run_session, "SparkSession", SimpleNamespace(builder=resource))
        return RunSession(config, lines.append), resource, lines

    return make


def test_session_starts_once_and_the_log_has_one_line_with_the_first_reason(made: Made) -> None:
    sessions, resource, lines = made(**{"spark.master": "local[2]"})
    assert (resource.started, lines) == (0, [])
    assert sessions.session("facts about files") is sessions.session("tombstones")
    assert resource.started == 1
    assert lines == ["Starting Spark, master local[2], on Java 17 of this machine (/jdk/bin/java): facts about files"]


def test_remote_session_is_logged_without_its_token(made: Made) -> None:
    sessions, _, lines = made(**{"spark.remote": "sc://lake:15002/;token=secret"})
    sessions.session("facts about files")
    assert lines == ["Connecting to Spark at sc://lake:15002: facts about files"]


def test_remote_session_is_checked_before_and_after_it_starts(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(run_session, "check_remote", done.append)
    monkeypatch.setattr(run_session, "limit_retries", lambda session: done.append(session.version))
    sessions, _, _ = made(**{"spark.remote": "sc://127.0.0.1:7"})
    sessions.session("facts about files")
    assert done == ["sc://127.0.0.1:7", "4.3.0"]


def test_server_that_reads_missing_files_as_empty_is_rejected(made: Made) -> None:
    sessions, resource, _ = made(**{"spark.remote": "sc://127.0.0.1:7"})
    resource.missing_file = None
    client = logging.getLogger("pyspark.sql.connect.logging")
    before = client.disabled
    with pytest.raises(DeltaSnapError, match="reads missing files as empty ones"):
        sessions.session("facts about files")
    assert client.disabled == before


def test_own_session_needs_no_server(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("check_remote", "limit_retries"):
        monkeypatch.setattr(run_session, name, Mock(side_effect=AssertionError("a server")))
    sessions, resource, lines = made()
    sessions.session("facts about files")
    assert (resource.started, lines[0].partition(" on ")[0]) == (1, "Starting Spark, master local,")


def test_settings_come_from_the_configuration_and_start_nothing(made: Made) -> None:
    sessions, resource, _ = made(**{LIMIT: "5s"})
    assert sessions.setting(LIMIT) == "5s"
    assert sessions.setting("spark.databricks.delta.snapshotPartitions") is None
    assert resource.started == 0


def test_running_session_provides_its_own_settings(made: Made) -> None:
    sessions, _, _ = made()
    sessions.session("facts about files")
    assert sessions.setting("spark.sql.ansi.enabled") == "true"


def test_session_without_java_is_our_error_and_starts_nothing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_session, "use_java", Mock(side_effect=JavaError("No Java found")))
    sessions, resource, lines = made()
    with pytest.raises(JavaError, match="No Java found"):
        sessions.session("facts about files")
    assert (resource.started, lines) == (0, [])


LONG = "Job aborted due to stage failure\n" + "\tat org.apache.spark.X(X.scala:1)\n" * 500
CAUSE = "Caused by: org.apache.spark.SparkException: Total size of serialized results is bigger than maxResultSize"


def test_failure_is_one_line_with_table_and_cause() -> None:
    with pytest.raises(DeltaSnapError) as raised, using_spark("events"):
        raise SparkRuntimeException(LONG + CAUSE)
    assert str(raised.value) == (
        "Spark failed on table events: SparkException: Total size of serialized results is bigger than maxResultSize"
    )


def test_failure_names_the_data_file_that_spark_was_reading() -> None:
    with pytest.raises(DeltaSnapError, match=r"maxResultSize \(in file:///t/a%20b\.parquet\)$"), using_spark("events"):
        raise SparkRuntimeException(f"Encountered error while reading file file:///t/a%20b.parquet. KD001\n{CAUSE}")


def test_session_that_does_not_start_names_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "check_java", lambda: 17)
    with pytest.raises(DeltaSnapError, match=r"did not start: .*spark\.config"), starting_spark():
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})


def test_settings_of_a_project_are_those_of_its_resource_until_its_session_is_used(spark: SparkSession) -> None:
    lines = list[str]()
    sessions = SharedSession(SimpleNamespace(spark_session=spark, spark_config={LIMIT: "7s"}), lines.append)
    assert (sessions.setting(LIMIT), sessions.setting("spark.sql.session.timeZone"), lines) == ("7s", None, [])
    assert sessions.session("facts about files") is sessions.session("tombstones") is spark
    assert (sessions.setting(LIMIT), sessions.setting("spark.sql.session.timeZone")) == (None, "UTC")
    assert lines == ["Using the Spark session of the project: facts about files"]


def test_settings_of_a_session_of_a_project_are_known_before_a_query(spark: SparkSession) -> None:
    sessions = SharedSession(spark)
    assert (sessions.setting("spark.sql.session.timeZone"), sessions.setting(LIMIT)) == ("UTC", None)
    assert sessions.session("facts about files") is spark
