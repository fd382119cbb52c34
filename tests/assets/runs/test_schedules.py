"""The schedule of a table: which runs it requests, and why it requests none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.names import job_name, requested_run_tags, run_tags
from deltasnap_assets.runs.schedules import refresh_schedule
from deltasnap_core.support import LastPoll
from tests.assets.followed_table import FollowedTable, materialize
from tests.assets.jobs import idle_job
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
