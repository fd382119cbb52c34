from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs import observe
from deltasnap_assets.runs.apply import Answer
from deltasnap_assets.runs.condition import log_conditions
from deltasnap_assets.runs.condition.log_conditions import BrokenTableError
from deltasnap_assets.runs.decide import Request
from deltasnap_assets.runs.planning.log_status import read_status
from deltasnap_assets.runs.sensors import _cursors_of, _result, minimum_interval
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import LogCursor
from deltasnap_core.errors import StorageError
from deltasnap_core.storage import retries
from deltasnap_core.support import redacted
from tests.assets.followed_table import forget_looks, health, materialize, write
from tests.assets.jobs import idle_job
from tests.assets.runs.sensors_builders import END, START, Ticks, ended_run, failed_run
from tests.builders import add, write_log
from tests.fast_dagster import local_instance

TABLE = TableSettings(name="events", path="/lake")


def test_tick_requests_its_partitions_with_its_result_and_adds_none_itself(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path / "t", last=2)
    result = ticks.sensor(dg.build_sensor_context(instance=ticks.instance))
    assert isinstance(result, dg.SensorResult)
    assert result.dynamic_partitions_requests == [dg.AddDynamicPartitionsRequest("events_versions", ["0", "1", "2"])]
    assert ticks.partitions == []


def test_tick_drops_the_partitions_that_do_not_return_and_keeps_the_others(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path / "t", last=4)
    ticks.tick()
    shutil.rmtree(ticks.log)
    ticks.write(0, 2, table_id="another")
    result = ticks.sensor(dg.build_sensor_context(instance=ticks.instance, cursor=ticks.cursor))
    assert isinstance(result, dg.SensorResult)
    assert result.dynamic_partitions_requests == [dg.DeleteDynamicPartitionsRequest("events_versions", ["3", "4"])]


def test_partitions_of_requested_versions_are_sorted(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path / "t", last=2)
    ticks.instance.add_dynamic_partitions("events_versions", ["2", "0"])
    assert ticks.tick() == [("0", "1"), ("2", "2")]
    assert ticks.partitions == ["0", "1", "2"]


@pytest.mark.parametrize(("configured", "ticks"), [(1, 5), (7, 5), (9, 5), (10, 10), (12, 10), (30, 30)])
def test_interval_is_rounded_down_to_the_checks_of_the_daemon(configured: int, ticks: int) -> None:
    checks = range(5, 100, 5)  # seconds after a tick, when the daemon checks, perhaps a moment early
    assert next(check for check in checks if check - 0.1 >= minimum_interval(configured)) == ticks


def answers(*messages: str, problems: str = "", requests: str = "") -> list[Answer]:
    """Return answers with these messages. problems, requests: those that are a problem, or request a run."""
    return [
        Answer(
            table=message,
            message=message,
            is_problem=message in problems,
            requests=(Request(0, 1),) if message in requests and message else (),
        )
        for message in messages
    ]


def test_message_of_a_tick_has_ten_answers_the_problems_first() -> None:
    letters = "abcdefghijk"
    for given, expected in (
        (answers("a", "", "b", problems="b"), "b a"),
        (answers(*letters[:10]), " ".join(letters[:10])),
        (answers(*letters), " ".join(letters[:10]) + " ..."),
        (answers(""), None),
        ([], None),
    ):
        result = _result(given, "cursor")
        assert (result.skip_reason and result.skip_reason.skip_message, result.cursor) == (expected, "cursor")
        assert result.run_requests == []


def test_tick_that_requests_runs_has_no_message() -> None:
    result = _result(answers("a", "b", "c", problems="b", requests="ac"), None)
    assert [request.job_name for request in result.run_requests or ()] == ["a_snapshots", "c_snapshots"]
    assert result.skip_reason is None


def test_sensor_without_a_cursor_begins_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert _cursors_of(None, ["a"]) == ({"a": None}, None)
    assert caplog.text == ""


@pytest.mark.parametrize("text", ["[1]", "{", "5", '"a"'])
def test_cursor_of_a_sensor_that_cannot_be_read_is_ignored(text: str, caplog: pytest.LogCaptureFixture) -> None:
    assert _cursors_of(text, ["a"]) == ({"a": None}, None)
    assert "The cursor of the sensor cannot be read, and is ignored" in caplog.text


def test_cursor_of_a_sensor_has_that_of_each_table(caplog: pytest.LogCaptureFixture) -> None:
    cursor = LogCursor(table_id="g", version=3)
    text = json.dumps({"a": cursor.to_text(), "b": "x", "c": None, "gone": "x", "@next": "b"})
    assert _cursors_of(text, ["a", "b", "c", "d"]) == ({"a": cursor, "b": None, "c": None, "d": None}, "b")
    assert [record.args[0] for record in caplog.records if isinstance(record.args, tuple)] == ["b"]


@pytest.mark.parametrize(
    ("folder", "path", "is_in"),
    [
        ("s3://lake/store/", "s3://lake/store/events/x", True),
        ("s3://lake/store", "s3://lake/store", True),
        ("s3://lake/store", "s3://lake/store2/x", False),
        ("s3://me:hunter2@lake/store", "s3://*********(redacted)@lake/store/x", True),
    ],
)
def test_error_in_a_folder_names_a_path_below_it(folder: str, path: str, is_in: bool) -> None:
    depth = log_conditions._depth_in(folder, StorageError(path=path, reason="timeout"))
    assert depth == (len(redacted(folder).rstrip("/")) if is_in else 0)


@pytest.mark.slow
def test_one_run_is_requested_for_the_range_of_new_versions(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=2)
    assert ticks.tick() == [("0", "2")]
    assert ticks.partitions == ["0", "1", "2"]
    assert ticks.tick() == "No new commits in events."
    write(tmp_path, 3, 4)
    assert ticks.tick() == [("3", "4")]
    assert ticks.tick() == "No new commits in events."


def test_backlog_is_worked_off_range_by_range(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=4, max_versions_per_run=2)
    assert [ticks.tick() for _ in range(4)] == [[("0", "1")], [("2", "3")], [("4", "4")], "No new commits in events."]


def test_tick_without_commits_does_not_query_materialized_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(tmp_path, last=1)
    ticks.tick()
    monkeypatch.setattr(ticks.instance, "get_materialized_partitions", None)
    assert ticks.tick() == "No new commits in events."


def test_tick_that_requests_a_run_records_no_observation(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=4, versions="latest", runs_succeed=False)
    assert ticks.tick() == [("4", "4")]
    assert not ticks.instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=5).records


@pytest.mark.parametrize("is_copied", [False, True])
def test_new_commit_of_a_lost_store_requests_the_lost_versions_too(tmp_path: Path, is_copied: bool) -> None:
    ticks = Ticks(tmp_path, last=1)
    ticks.tick()
    shutil.rmtree(ticks.storage)
    for commit in (tmp_path / "_delta_log").iterdir() if is_copied else ():
        os.utime(commit, (0, 0))
    write(tmp_path, 2, 2)
    assert ticks.tick() == [("0", "2")]


@pytest.mark.slow
@pytest.mark.parametrize("is_idle", [False, True])
def test_older_copy_of_the_store_gets_the_versions_that_it_lacks(tmp_path: Path, is_idle: bool) -> None:
    ticks = Ticks(tmp_path / "t")
    for first, last in ((0, 1), (2, 4)):
        write(tmp_path / "t", first, last)
        assert ticks.tick() == [(str(first), str(last))]
        ticks.store_versions(range(first, last + 1))
        if first == 0:
            shutil.copytree(ticks.storage, tmp_path / "copy")
    shutil.rmtree(ticks.storage)
    shutil.copytree(tmp_path / "copy", ticks.storage)
    if is_idle:
        forget_looks()
    else:
        write(tmp_path / "t", 5, 5)
    assert ticks.tick() == [("2", "4" if is_idle else "5")]


def test_unreadable_cursor_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ticks = Ticks(tmp_path, last=4)
    of_table = '{"generation": "table-id", "version": 3, "key_of_a_later_release": 1}'
    ticks.cursor = json.dumps({"events": of_table})
    assert ticks.tick() == [("0", "4")]
    assert ticks.tick() == "No new commits in events."
    assert "The cursor of table events cannot be read, and is ignored" in caplog.text


@pytest.mark.slow
def test_recreated_table_is_followed_from_its_first_version(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=4)
    ticks.tick()
    shutil.rmtree(tmp_path / "_delta_log")
    write(tmp_path, 0, 2, table_id="another")
    assert ticks.tick() == [("0", "2")]
    assert ticks.partitions == ["0", "1", "2"]
    assert ticks.tick() == "No new commits in events."


@pytest.mark.slow
@pytest.mark.parametrize("last", [2, 4, 6])
def test_restored_table_is_followed_again_whether_shorter_or_longer(tmp_path: Path, last: int) -> None:
    ticks = Ticks(tmp_path, last=4)
    ticks.tick()
    for version in (3, 4):
        ticks.commit(version).unlink()
    if last > 2:
        write_log(tmp_path, {version: [add(f"other {version}.parquet")] for version in range(3, last + 1)})
    assert ticks.tick() == [("0", str(last))]
    assert ticks.partitions == [str(version) for version in range(last + 1)]
    assert ticks.tick() == "No new commits in events."


def test_tick_reports_commits_that_were_stored_and_are_gone(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=4)
    ticks.store_versions(range(5))
    ticks.tick()
    for version in (3, 4):
        ticks.commit(version).unlink()
    ticks.tick()
    assert "Versions 3 to 4 are gone from the log" in health(ticks.instance)


FAILED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@pytest.mark.parametrize("status", FAILED)
def test_versions_of_a_failed_run_are_requested_with_the_next_commit_and_not_before(
    tmp_path: Path, status: dg.DagsterRunStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = Ticks(tmp_path, last=2, runs_succeed=False)
    assert ticks.tick() == [("0", "2")]
    run_id = ended_run(ticks.instance, 0, 2, status)
    now = time.time()
    for later in (0, 3_600, 80_000):
        monkeypatch.setattr(time, "time", lambda at=now + later: at)
        assert ticks.tick() == (
            f"Run {run_id} of events failed or was canceled. The next commit, the schedule or the job "
            "`refresh_all_tables` materializes what is missing."
        )
    write(tmp_path, 3, 3)
    assert ticks.tick() == [("0", "3")]
    assert ticks.tick() == ticks.tick()


@pytest.mark.parametrize("status", FAILED)
def test_failed_run_of_a_backlog_waits_for_a_commit(tmp_path: Path, status: dg.DagsterRunStatus) -> None:
    ticks = Ticks(tmp_path, last=9, runs_succeed=False, max_versions_per_run=3)
    assert ticks.tick() == [("0", "2")]
    run_id = ended_run(ticks.instance, 0, 2, status)
    for _ in range(2):
        assert f"Run {run_id} of events failed or was canceled. The next commit," in ticks.tick()
    write(tmp_path, 10, 10)
    os.utime(ticks.commit(10))
    assert ticks.tick() == [("0", "2")]


@pytest.mark.slow
def test_page_shows_the_failed_range_although_the_other_range_of_its_tick_succeeded_later(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=6, runs_succeed=False)
    ticks.store_versions([3, 4])
    materialize(ticks.instance, [3, 4])
    assert ticks.tick() == [("0", "2"), ("5", "6")]
    run_id = failed_run(ticks.instance, 0, 2)
    assert run_id in ticks.tick()
    assert "The last run failed" in health(ticks.instance)
    ticks.store_versions([5, 6])
    materialize(ticks.instance, [5, 6])
    ended_run(ticks.instance, 5, 6, dg.DagsterRunStatus.SUCCESS)
    ticks.instance.report_runless_asset_event(dg.AssetObservation(["events", "delta_log"]))  # of the other range
    assert run_id in ticks.tick()
    assert "The last run failed" in health(ticks.instance)


def test_versions_of_a_canceled_run_are_reported_missing(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=2, runs_succeed=False)
    ticks.tick()
    ended_run(ticks.instance, 0, 2, dg.DagsterRunStatus.CANCELED)
    ticks.tick()
    assert "version 0 is missing, because the run was canceled" in health(ticks.instance)


def test_failure_that_is_over_is_queried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(tmp_path, last=2, runs_succeed=False)
    ticks.tick()
    failed_run(ticks.instance, 0, 2)
    ticks.store_versions(range(3))
    materialize(ticks.instance, range(3))
    ended_run(ticks.instance, 0, 2, dg.DagsterRunStatus.SUCCESS)
    assert ticks.tick() == "No new commits in events."
    monkeypatch.setattr(ticks.instance, "get_materialized_partitions", None)
    assert ticks.tick() == "No new commits in events."


def test_requests_have_the_tags_of_run_retries_for_dead_processes(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path / "t", last=3, runs_succeed=False)
    ticks.tick()
    with local_instance(tmp_path) as ticks.instance:
        (request,) = ticks.ask_schedule()
    for tags in (ticks.tags, request.tags):
        assert tags["dagster/max_retries"] == "2"
        assert tags["dagster/retry_on_asset_or_op_failure"] == "false"


@pytest.mark.slow
@pytest.mark.parametrize("listens", [False, True], ids=["closed port", "silent server"])
def test_unreachable_s3_is_reported_in_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listens: bool) -> None:
    pauses = list[float]()

    async def paused(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(retries, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(asyncio, "sleep", paused)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if listens:
            server.listen()
        ticks = Ticks(
            tmp_path,
            url="s3://lake/events",
            storage_options={
                "key": "testing",
                "secret": "testing",
                "endpoint_url": f"http://127.0.0.1:{server.getsockname()[1]}",
                "config_kwargs": {"read_timeout": 0.01},
            },
        )
        start = time.monotonic()
        with pytest.raises(StorageError, match="endpoint URL"):
            ticks.tick()
    assert time.monotonic() - start + sum(pauses) < 20


@pytest.mark.slow
def test_schedule_keeps_a_version_of_the_sensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(tmp_path)
    ticks.instance = local_instance(tmp_path)
    write(tmp_path, 0, 3)
    ticks.tick()
    ticks.store_versions(range(4))

    def slow_poll(*polled: Any, **options: Any) -> Any:
        found = read_status(*polled, **options)
        monkeypatch.undo()
        write(tmp_path, 4, 4)
        assert ticks.tick() == [("4", "4")]
        return found

    monkeypatch.setattr(observe, "read_status", slow_poll)
    ticks.ask_schedule()
    assert ticks.partitions == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("asked", ["tick", "schedule"])
def test_versions_of_a_silent_run_are_requested(asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(tmp_path / "t", last=3, runs_succeed=False)
    with local_instance(tmp_path) as ticks.instance:
        assert ticks.tick() == [("0", "3")]
        run = ticks.instance.create_run_for_job(idle_job, status=dg.DagsterRunStatus.STARTED, tags=ticks.tags)
        waits = f"Run {run.run_id} of events is in progress."
        assert ticks.tick() == f"{waits} The next run materializes the new commits."
        assert ticks.ask_schedule() == dg.SkipReason(waits)
        began = time.time()
        monkeypatch.setattr(time, "time", lambda: began + 605)
        if asked == "tick":
            assert ticks.tick() == [("0", "3")]
        else:
            (request,) = ticks.ask_schedule()
            assert (request.tags[START], request.tags[END]) == ("0", "3")
        assert [each.status for each in ticks.instance.get_runs()] == [dg.DagsterRunStatus.STARTED]


@pytest.mark.parametrize("last", [3, 9])
def test_versions_of_a_silent_run_are_requested_once_also_in_a_backlog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    ticks = Ticks(tmp_path / "t", last=last, runs_succeed=False, max_versions_per_run=4)
    with local_instance(tmp_path) as ticks.instance:
        now = time.time()
        for _ in range(2):
            assert ticks.tick() == [("0", "3")]
            run = ticks.instance.create_run_for_job(idle_job, status=dg.DagsterRunStatus.STARTED, tags=ticks.tags)
            now += 605
            monkeypatch.setattr(time, "time", lambda now=now: now)
        for _ in range(2):
            assert ticks.tick() == (
                f"Run {run.run_id} of events has written no event for ten minutes, and may be dead. The next commit, "
                "the schedule or the job `refresh_all_tables` materializes what is missing."
            )
        assert isinstance(ticks.ask_schedule(), list)
        write(tmp_path / "t", last + 1, last + 1)
        os.utime(ticks.commit(last + 1), (now, now))
        assert ticks.tick() == [("0", "3")] if last == 9 else [("0", "4")]


def test_schedule_reports_damage_before_it_fails(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path / "gone")
    with local_instance(tmp_path) as ticks.instance:
        with pytest.raises(BrokenTableError):
            ticks.ask_schedule()
        assert "No Delta table" in health(ticks.instance)


def test_sensor_without_a_cursor_does_not_repeat_an_observation(tmp_path: Path) -> None:
    ticks = Ticks(tmp_path, last=3)
    ticks.tick()
    ticks.store_versions(range(4))
    ticks.cursor = None
    assert ticks.tick() == "All versions of events are materialized."
    assert len(ticks.instance.fetch_observations(dg.AssetKey(["events", "delta_log"]), limit=5).records) == 1
