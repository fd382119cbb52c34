"""Runs under `dagster dev` that go on, are executed again, or are retried. deltasnap leaves all of them alone."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import dagster as dg
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
pytest.importorskip("deltalake")

from deltasnap_assets.runs.planning.names import RANGE_END_TAG, RANGE_START_TAG, run_tags  # noqa: E402
from deltasnap_assets.settings.table_settings import ASSET_NAMES  # noqa: E402
from tests.assets.deployed.dagster_dev import INSTANCE, DagsterDev  # noqa: E402

OURS = [f"events/{name}" for name in ASSET_NAMES]
MATERIALIZED = {name: {"MATERIALIZED"} for name in ASSET_NAMES}
PROJECT = """
import time
from pathlib import Path

import dagster as dg
from deltasnap_assets import build_definitions, load_settings

versions = dg.DynamicPartitionsDefinition(name="events_versions")

@dg.asset(deps=[["events", "computed_state"]], partitions_def=versions)
def slow_model():
    while not Path("go").exists():
        time.sleep(0.2)

@dg.asset(deps=[["events", "computed_state"]], partitions_def=versions)
def fragile_model():
    assert Path("go").exists()

defs = dg.Definitions.merge(build_definitions(load_settings()), dg.Definitions([slow_model, fragile_model]))
"""
"""With the default executor: each step has a process of its own."""
RETRIES = """
run_retries: {enabled: true}
run_monitoring: {enabled: true, poll_interval_seconds: 2}
"""


def requested_versions(dev: DagsterDev) -> list[tuple[str, str]]:
    return [(run.tags[RANGE_START_TAG], run.tags[RANGE_END_TAG]) for run in dev.requested()]


@pytest.mark.parametrize("ours", [OURS, []], ids=["with our assets", "without our assets"])
def test_run_with_a_slow_step_after_ours_succeeds(tmp_path: Path, ours: list[str]) -> None:
    dev = DagsterDev(tmp_path, project=PROJECT)
    dev.commit(2)
    with dev.running():
        dev.first_refresh()
        run_id = dev.launch(*ours, "slow_model", tags={"dagster/partition": "1"})
        dev.wait_for(lambda: any("slow_model" in text and "Started" in text for text in dev.texts(run_id)))
        ticks = dev.ticks()
        dev.wait_for(lambda: dev.ticks() >= ticks + 3)
        assert dev.run(run_id).status is dg.DagsterRunStatus.STARTED, dev.texts(run_id)[-3:]
        assert requested_versions(dev) == [("0", "1")]
        (tmp_path / "go").touch()
        assert dev.ended(run_id).is_success, dev.texts(run_id)[-3:]
    assert dev.statuses(2) == MATERIALIZED


def test_new_commit_during_a_slow_step_is_requested_after_the_run(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, project=PROJECT)
    dev.commit(2)
    with dev.running():
        dev.first_refresh()
        run_id = dev.launch(*OURS, "slow_model", tags={"dagster/partition": "1"})
        dev.wait_for(lambda: any("slow_model" in text and "Started" in text for text in dev.texts(run_id)))
        dev.commit()
        ticks = dev.ticks()
        dev.wait_for(lambda: dev.ticks() >= ticks + 3)
        assert requested_versions(dev) == [("0", "1")]
        (tmp_path / "go").touch()
        assert dev.ended(run_id).is_success, dev.texts(run_id)[-3:]
        dev.wait_for(lambda: len(dev.requested()) == 2)
        assert requested_versions(dev) == [("0", "1"), ("2", "2")]
        assert dev.ended(dev.requested()[-1].run_id).is_success
    assert dev.statuses(3) == MATERIALIZED


def test_run_is_executed_again_with_all_steps(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path)
    dev.commit(3)
    with dev.running():
        first = dev.first_refresh()
        for _ in range(2):
            again = dev.ended(dev.reexecute(first.run_id, "ALL_STEPS"))
            assert again.is_success, dev.texts(again.run_id)
    assert dev.statuses(3) == MATERIALIZED


def test_run_is_executed_again_from_a_failed_step(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, project=PROJECT)
    dev.commit(3)
    with dev.running():
        dev.first_refresh()
        failed = dev.ended(dev.launch(*OURS, "fragile_model", tags={"dagster/partition": "2"}))
        assert failed.status is dg.DagsterRunStatus.FAILURE
        (tmp_path / "go").touch()
        again = dev.ended(dev.reexecute(failed.run_id, "FROM_FAILURE"))
        assert again.is_success, dev.texts(again.run_id)
        assert again.step_keys_to_execute == ["fragile_model"]
    assert dev.statuses(3) == MATERIALIZED


def test_run_whose_process_is_killed_is_retried_by_dagster(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path, instance_yaml=INSTANCE + RETRIES)
    dev.commit(3)
    with dev.running():
        dev.first_refresh()
        killed = dev.launch(*OURS, tags=run_tags("events", 1, 2) | {"dagster/max_retries": "2"})
        os.kill(dev.process_of(killed), signal.SIGKILL)
        assert dev.ended(killed).status is dg.DagsterRunStatus.FAILURE  # Dagster's code server notices the kill
        of_parent = dg.RunsFilter(tags={"dagster/parent_run_id": killed})
        retry = dev.wait_for(lambda: next(iter(dev.instance.get_runs(of_parent)), None))
        assert dev.ended(retry.run_id).is_success, dev.texts(retry.run_id)
    assert dev.statuses(3) == MATERIALIZED


def test_backfill_is_executed_again(tmp_path: Path) -> None:
    dev = DagsterDev(tmp_path)
    dev.commit(3)
    with dev.running():
        dev.first_refresh()
        backfill = dev.backfill([0, 1, 2])
        assert [run.status for run in dev.runs_of_backfill(backfill)] == [dg.DagsterRunStatus.SUCCESS]
        again = dev.repeat_backfill(backfill)
        assert [run.status for run in dev.runs_of_backfill(again)] == [dg.DagsterRunStatus.SUCCESS]
    assert dev.statuses(3) == MATERIALIZED
