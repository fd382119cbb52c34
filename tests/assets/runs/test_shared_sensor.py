"""The sensor that many tables share."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import dagster as dg
import fsspec
import pytest

from deltasnap_assets.runs import polls, sensors
from deltasnap_assets.runs.sensors import new_commits_sensors
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import DeltaSnapError, TableLog
from tests.assets.followed_table import write
from tests.assets.jobs import idle_job, skip_message, ticked

if TYPE_CHECKING:
    from tests.flaky_s3 import FlakyS3

SENSORS = 4
"""The number of tables with a sensor each, in these tests."""


@pytest.fixture(autouse=True)
def few_sensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensors, "MAX_SENSORS", SENSORS)


def many_tables(folder: Path | str, count: int, **options: Any) -> tuple[dg.SensorDefinition, Settings]:
    tables = tuple(
        TableSettings(name=f"t{number}", path=f"{folder}/t{number}", storage_options=options) for number in range(count)
    )
    settings = Settings(storage=f"{folder}/store", storage_options=options, tables=tables)
    jobs = dict.fromkeys((table.name for table in tables), idle_job)
    (sensor,) = new_commits_sensors(settings, jobs, lambda *_: idle_job)
    return sensor, settings


def written_tables(folder: Path) -> tuple[dg.SensorDefinition, Settings]:
    """Return the sensor and the settings of tables of one version, which share the sensor."""
    sensor, settings = many_tables(folder, SENSORS + 1)
    for table in settings.tables:
        write(Path(table.path), 0, 0)
    return sensor, settings


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Make the storage of a table unresponsive. The tick ends as soon as all other polls have ended."""
    end = Event()

    def wait_for_others(polls: Collection[Future[Any]], **_: Any) -> None:
        running = [*polls]
        while len(running) > 1:
            running = [*wait(running, return_when=FIRST_COMPLETED).not_done]

    for_path = TableLog.for_path

    def silence(name: str) -> None:
        def unresponsive(path: str, *options: Any) -> TableLog:
            if path.endswith(f"/{name}"):
                end.wait(60)
            return for_path(path, *options)

        monkeypatch.setattr(TableLog, "for_path", unresponsive)
        monkeypatch.setattr(polls, "wait", wait_for_others)

    yield silence
    end.set()


def refuse(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Make the storage of the first table raise an error."""
    for_path = TableLog.for_path

    def refusing(path: str, *options: Any) -> TableLog:
        if path.endswith("/t0"):
            raise error
        return for_path(path, *options)

    monkeypatch.setattr(TableLog, "for_path", refusing)


@pytest.mark.slow
def test_many_tables_share_a_sensor(tmp_path: Path) -> None:
    sensor, settings = many_tables(tmp_path, SENSORS + 1)
    instance, cursor = dg.DagsterInstance.ephemeral(), None
    for table in settings.tables[1:]:
        write(Path(table.path), 0, 1)
    requested = []
    for _ in range(2):
        result = ticked(sensor, instance, cursor)
        requested.append({request.job_name for request in result.run_requests or ()})
        cursor = result.cursor
        if requested == [{f"t{number}_snapshots" for number in range(1, SENSORS + 1)}]:
            write(Path(settings.tables[3].path), 2, 2)
    assert requested[1] == {"t3_snapshots"}
    assert instance.get_dynamic_partitions("t3_versions") == ["0", "1", "2"]
    result = ticked(sensor, instance, cursor)
    assert "t0 is broken: No Delta table" in skip_message(result)


@pytest.mark.parametrize("cursor", ["not json", "[1]", '{"t0": 5, "t1": "x", "t2": {"a": 1}, "@next": ["t1"]}'])
def test_unreadable_cursor_of_a_shared_sensor_is_ignored(tmp_path: Path, cursor: str) -> None:
    sensor, _ = written_tables(tmp_path)
    instance = dg.DagsterInstance.ephemeral()
    result = ticked(sensor, instance, cursor)
    assert len(result.run_requests or ()) == SENSORS + 1


def test_table_whose_poll_fails_keeps_its_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sensor, settings = written_tables(tmp_path)
    instance = dg.DagsterInstance.ephemeral()
    before = ticked(sensor, instance, None).cursor or ""

    refuse(monkeypatch, DeltaSnapError("no answer"))
    write(Path(settings.tables[1].path), 1, 1)
    after = ticked(sensor, instance, before).cursor or ""
    assert [name for name, each in json.loads(before).items() if json.loads(after)[name] != each] == ["t1"]


def test_next_tick_continues_a_tick_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polls, "_AT_ONCE", 1)
    monkeypatch.setattr(polls, "wait", lambda futures, **_: wait(futures, return_when=FIRST_COMPLETED))
    sensor, settings = written_tables(tmp_path)
    instance, cursor = dg.DagsterInstance.ephemeral(), None
    requested = list[str]()
    while len(requested) < len(settings.tables):
        result = ticked(sensor, instance, cursor)
        assert len(result.run_requests or ()) < len(settings.tables)
        requested.extend(request.job_name or "" for request in result.run_requests or ())
        cursor = result.cursor
    assert sorted(requested) == [f"{table.name}_snapshots" for table in settings.tables]


def test_unresponsive_storage_of_a_table_does_not_delay_others(tmp_path: Path, silent: Callable[[str], None]) -> None:
    sensor, _ = written_tables(tmp_path)
    silent("t0")
    result = ticked(sensor, dg.DagsterInstance.ephemeral())
    assert len(result.run_requests or ()) == SENSORS
    assert json.loads(result.cursor or "{}")["t0"] is None


@pytest.mark.slow
def test_shared_sensor_logs_a_table_that_waits_if_it_requests_runs_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, silent: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sensors, "_MAX_MESSAGES", SENSORS)
    sensor, settings = written_tables(tmp_path)
    instance = dg.DagsterInstance.ephemeral()
    first = ticked(sensor, instance)
    write(Path(settings.tables[0].path), 1, 1)
    silent(f"t{SENSORS}")
    result = ticked(sensor, instance, first.cursor)
    assert len(result.run_requests or ()) == 1
    assert f"The poll of t{SENSORS} has been running since" in capfd.readouterr().err


@pytest.mark.spark  # a server
def test_idle_tick_on_s3_costs_one_listing_per_table(tmp_path: Path, flaky_s3: tuple[FlakyS3, dict[str, Any]]) -> None:
    flaky, options = flaky_s3
    folder, count = f"s3://lake/{tmp_path.name}", SENSORS + 1
    write(tmp_path / "t", 0, 1)
    for number in range(count):
        fsspec.filesystem("s3", **options).put(f"{tmp_path}/t/", f"{folder}/t{number}/", recursive=True)
    sensor, _ = many_tables(folder, count, **options)
    # An instance in memory refuses two threads at once.
    instance, cursor = dg.DagsterInstance.ephemeral(), None
    requested = []
    for _ in range(3):  # the first tick after a request also reads whether its runs share the store
        flaky.reset()
        result = ticked(sensor, instance, cursor)
        requested.append(len(result.run_requests or ()))
        cursor = result.cursor
    assert requested == [count, 0, 0]
    assert [flaky.count("GET", "prefix="), sum(flaky.requested.values())] == [count, count]


def test_tick_fails_if_some_tables_fail_and_nothing_else_is_new(tmp_path: Path) -> None:
    _, settings = many_tables(tmp_path, SENSORS + 1)
    settings = settings.model_copy(update={"storage": "unknown://bucket/store"})
    for table in settings.tables:
        write(Path(table.path), 0, 0)
    jobs = dict.fromkeys((table.name for table in settings.tables), idle_job)
    (sensor,) = new_commits_sensors(settings, jobs, lambda *_: idle_job)
    for cursor in (None, "{}"):
        with pytest.raises(DeltaSnapError, match=r"5 tables failed\. t0: .* t1: .* t2: .* t3: .* t4: "):
            sensor(dg.build_sensor_context(instance=dg.DagsterInstance.ephemeral(), cursor=cursor))


def test_shared_sensor_reports_a_failure_without_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    sensor, _ = written_tables(tmp_path)
    refuse(monkeypatch, OSError("s3://me:hunter2@lake/t0 refuses"))
    result = ticked(sensor, dg.DagsterInstance.ephemeral())
    assert len(result.run_requests or ()) == SENSORS
    reported = capfd.readouterr().err
    assert "t0 refuses" in reported
    assert "hunter2" not in reported
