"""Events that show that the run of a long step is alive."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets import build_definitions
from deltasnap_assets.runs import run_progress
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.run_progress import PROGRESS_SECONDS, progress_logged
from deltasnap_assets.runs.table_runs import SILENT_SECONDS
from deltasnap_assets.settings.table_settings import ASSET_NAMES
from tests.assets.followed_table import FollowedTable
from tests.assets.jobs import idle_job
from tests.driver_bases import use_driver_bases
from tests.fast_dagster import local_instance

STARTED = dg.DagsterRunStatus.STARTED


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with local_instance(tmp_path) as found:
        yield found


def progress(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    """Return what each event about progress names."""
    events = instance.all_logs(run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
    named = (event.message.partition(": running for ") for event in events)
    return [work for work, is_progress, _ in named if is_progress]


def test_event_is_written_again_and_again_until_the_step_ends(instance: dg.DagsterInstance) -> None:
    run = instance.create_run_for_job(idle_job, status=STARTED)
    with progress_logged(instance, run, "events/all_files", every_seconds=0.01):
        deadline = time.monotonic() + 30
        while len(progress(instance, run.run_id)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
    found = progress(instance, run.run_id)
    assert found == ["events/all_files"] * len(found)
    assert len(found) >= 3
    time.sleep(0.1)
    assert progress(instance, run.run_id) == found


def test_event_that_fails_does_not_end_the_others(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, calls, third = instance.create_run_for_job(idle_job, status=STARTED), list[str](), threading.Event()

    def report(message: str, *_: object) -> None:
        calls.append(message)
        if len(calls) == 3:
            third.set()
        raise OSError("database is locked")

    monkeypatch.setattr(instance, "report_engine_event", report)
    with progress_logged(instance, run, "events/all_files", every_seconds=0.001):
        assert third.wait(30)


def test_ephemeral_instance_gets_no_event_from_a_second_thread() -> None:
    instance = dg.DagsterInstance.ephemeral()
    run = instance.create_run_for_job(idle_job, status=STARTED)
    threads = threading.active_count()
    with progress_logged(instance, run, "events/all_files", every_seconds=0.001):
        assert threading.active_count() == threads
        time.sleep(0.05)
    assert progress(instance, run.run_id) == []


def test_several_events_are_written_before_a_run_counts_as_silent() -> None:
    assert PROGRESS_SECONDS * 4 < SILENT_SECONDS


def write_at_once(instance: dg.DagsterInstance, run: dg.DagsterRun, work: str, *_: object) -> None:
    instance.report_engine_event(f"{work}: running for 0 s.", run)


@pytest.mark.slow
def test_steps_of_a_table_write_progress(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    table = FollowedTable(tmp_path / "t")
    table.write(0, 1)
    instance.add_dynamic_partitions("events_versions", ["0", "1"])
    job = build_definitions(table.settings).resolve_job_def("events_snapshots")
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    with pytest.MonkeyPatch.context() as patched:
        use_driver_bases(patched)
        patched.setattr(run_progress, "_write", write_at_once)
        result = job.execute_in_process(instance=instance, tags=run_tags("events", 0, 1), run_config=quiet)
    assert result.success
    assert set(progress(instance, result.run_id)) == {
        *(f"events/{name}" for name in ASSET_NAMES),
        "checks of events",
        "checks of the versions of events",
    }
