"""The ticks of a schedule, and the polls of a table whose log is damaged: an error once, then a problem."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.names import CONDITION_TAG, job_name, requested_run_tags, run_tags, table_key
from deltasnap_assets.runs.schedules import refresh_schedule
from deltasnap_core import DeltaSnapError
from deltasnap_core.errors import UnsupportedStoreError
from deltasnap_core.support import LastPoll
from tests.assets.followed_table import EVENTS, FollowedTable, health, materialize
from tests.assets.jobs import idle_job
from tests.assets.runs.sensors_builders import Ticks, failed_run
from tests.fast_dagster import local_instance


class Scheduled(FollowedTable):
    """A table of four versions, and its schedule."""

    def __init__(self, folder: Path, instance: dg.DagsterInstance) -> None:
        super().__init__(folder / "t")
        self.write(0, 3)
        self.instance = instance
        self.schedule = refresh_schedule(self.settings, self.table, "@daily")

    @property
    def checked(self) -> list[bool]:
        """The results of the check `fresh_table`."""
        key = dg.AssetCheckKey(dg.AssetKey(["events", "delta_log"]), "fresh_table")
        records = self.instance.event_log_storage.get_asset_check_execution_history(key, limit=2)
        return [each.evaluation.passed for each in records if each.evaluation is not None]


@pytest.fixture
def scheduled(tmp_path: Path) -> Iterator[Scheduled]:
    with local_instance(tmp_path / "instance") as instance:
        yield Scheduled(tmp_path, instance)


def test_missing_versions_are_requested_in_order_and_sorted(scheduled: Scheduled) -> None:
    scheduled.instance.add_dynamic_partitions("events_versions", ["2", "0"])
    requests = scheduled.ask_schedule()
    assert [request.tags for request in requests] == [
        requested_run_tags("events", 0, 1),
        requested_run_tags("events", 2, 2),
        requested_run_tags("events", 3, 3),
    ]
    assert list(scheduled.instance.get_dynamic_partitions("events_versions")) == ["0", "1", "2", "3"]
    assert scheduled.checked == []


def test_table_with_a_run_in_progress_waits(scheduled: Scheduled) -> None:
    started = dg.DagsterRunStatus.STARTED
    run = scheduled.instance.create_run_for_job(idle_job, status=started, tags=run_tags("events", 0, 1))
    assert scheduled.ask_schedule() == dg.SkipReason(f"Run {run.run_id} of events is in progress.")
    assert list(scheduled.instance.get_dynamic_partitions("events_versions")) == []


def test_tick_without_a_new_version_says_so_and_records_that_the_table_is_stale(scheduled: Scheduled) -> None:
    scheduled.store_versions(range(4), computed=True)
    materialize(scheduled.instance, range(4))
    scheduled.store.polls.write("events", LastPoll(polled_at_ms=1, checked_version=3))
    assert scheduled.ask_schedule() == dg.SkipReason("All versions of events are materialized.")
    assert scheduled.checked == [False]  # the commits are old


def test_tick_without_a_new_version_names_the_damage_of_a_stored_commit(scheduled: Scheduled) -> None:
    scheduled.store_versions(range(4))
    materialize(scheduled.instance, range(4))
    scheduled.store.polls.write("events", LastPoll(polled_at_ms=1, checked_version=3))
    scheduled.damage(1)
    assert "Version 1 cannot be read" in str(scheduled.ask_schedule().skip_message)


def test_schedule_starts_with_the_daemon_and_runs_the_job_of_the_table(scheduled: Scheduled) -> None:
    found = scheduled.schedule
    assert (found.name, found.job_name, found.cron_schedule) == ("events_refresh", job_name("events"), "@daily")
    assert found.default_status is dg.DefaultScheduleStatus.RUNNING


def test_table_that_stays_broken_is_a_problem_after_each_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = FollowedTable(tmp_path / "events")
    broken.write(0, 2)
    broken.damage(0)
    with pytest.raises(DeltaSnapError, match="line 1"):
        broken.poll_log()
    now = time.time()
    for seconds, message in ((0, "events is broken: "), (61, "events is still broken: "), (90, "events is broken: ")):
        monkeypatch.setattr(time, "time", lambda at=now + seconds: at)
        again = broken.poll_log()
        assert (again.is_problem, again.requests) == (True, ())
        assert again.message.startswith(message)


def test_error_of_the_store_is_raised_each_time_though_the_log_has_a_warning(tmp_path: Path) -> None:
    followed = FollowedTable(tmp_path / "events")
    followed.write(0, 2)
    followed.store_versions(range(3))
    (followed.log / "_last_checkpoint").write_text("nope")
    for manifest in followed.storage.glob("**/manifests/*"):
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    for _ in range(2):
        with pytest.raises(UnsupportedStoreError):
            followed.poll_log()
    assert "_last_checkpoint" in health(followed.instance)


def test_faults_are_reported_again_when_all_loadable_versions_are_materialized(tmp_path: Path) -> None:
    broken = FollowedTable(tmp_path / "events")
    broken.write(0, 5)
    broken.checkpoint(5)
    broken.damage(4)
    loadable, instance = [0, 1, 2, 3, 5], broken.instance
    broken.store_versions(loadable)
    materialize(instance, loadable)
    instance.report_runless_asset_event(
        dg.AssetObservation(table_key(EVENTS), tags={CONDITION_TAG: "an-earlier-fault"})
    )
    polled = broken.poll_log()
    assert (polled.requests, polled.is_problem) == ((), True)
    assert polled.message.startswith("All loadable versions of events are materialized. ")
    assert f"{4:020d}.json" in polled.message
    assert f"{4:020d}.json" in health(instance)


def test_failed_versions_of_a_broken_table_wait_for_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = Ticks(tmp_path / "events", last=4, runs_succeed=False)
    ticks.damage(4)
    os.utime(ticks.commit(4), (1, 1))  # before the failure
    assert ticks.tick() == [("0", "3")]
    run_id, now = failed_run(ticks.instance, 0, 3), time.time()
    for minutes in (0, 30, 60):
        monkeypatch.setattr(time, "time", lambda at=now + minutes * 60: at)
        reported = ticks.tick()
        assert f"Run {run_id} of events failed or was canceled." in reported
        assert f"{4:020d}.json" in reported
    monkeypatch.setattr(time, "time", lambda: now + 7_200)
    ticks.write(5, 5)
    ticks.checkpoint(5)
    os.utime(ticks.commit(5), (now, now + 60))
    assert ticks.tick() == [("0", "3"), ("5", "5")]
