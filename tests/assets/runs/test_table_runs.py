"""The last run of a table, and whether it failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.runs import table_runs
from deltasnap_assets.runs.condition.ended_failures import end_failure, is_over
from deltasnap_assets.runs.planning.names import ASSET_NAMES, run_tags
from deltasnap_assets.runs.table_runs import failed_run, failures, last_failed, unfinished_runs
from deltasnap_assets.settings.config import TABLE_TAG, Settings, TableSettings
from deltasnap_assets.tables.checks.maintenance import checkpoint_job, prune_job
from deltasnap_core import TableCondition
from tests.assets.jobs import idle_job

FAILURE, SUCCESS = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


def ended(instance: dg.DagsterInstance, table: str, status: dg.DagsterRunStatus) -> str:
    return instance.create_run_for_job(idle_job, status=status, tags=run_tags(table, 0, 3)).run_id


def from_its_page(instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> None:
    """A run of an asset of the table `events`, started in Dagster's UI: it has no tag of ours."""

    @dg.asset(key=["events", "all_files"], partitions_def=dg.StaticPartitionsDefinition(["3"]))
    def all_files() -> None:
        if status is FAILURE:
            raise ValueError

    dg.materialize([all_files], instance=instance, partition_key="3", raise_on_error=False)


def test_failed_run_is_remembered_until_a_run_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = dg.DagsterInstance.ephemeral()
    run_id, later = ended(instance, "events", FAILURE), time.time() + 3 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    failed = failed_run(instance, "events")
    assert failed is not None
    assert failed.run_id == run_id
    ended(instance, "events", SUCCESS)
    assert failed_run(instance, "events") is None


@pytest.mark.parametrize("job_of", [prune_job, checkpoint_job])
def test_job_of_maintenance_neither_fails_a_table_nor_ends_its_failure(
    job_of: Callable[[Settings, dict[str, Any]], dg.JobDefinition],
) -> None:
    settings = Settings(tables=(TableSettings(name="events", path="/events"),))
    job = job_of(settings, {"snapshots": dg.ResourceDefinition.none_resource()})
    instance, tags = dg.DagsterInstance.ephemeral(), {"dagster/partition": "events", TABLE_TAG: "events"}
    instance.create_run_for_job(job, status=FAILURE, tags=tags)
    assert failed_run(instance, "events") is None
    assert last_failed(instance, ["events"]) == {}
    run_id = ended(instance, "events", FAILURE)
    instance.create_run_for_job(job, status=SUCCESS, tags=tags)
    failed = failed_run(instance, "events")
    assert failed is not None
    assert failed.run_id == run_id
    assert last_failed(instance, ["events"]) == {"events": run_id}


def test_run_that_failed_after_its_versions_were_materialized_is_forgotten_after_a_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = dg.DagsterInstance.ephemeral()
    for version in range(4):
        for name in ASSET_NAMES:
            asset = dg.AssetKey(["events", name])
            instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=str(version)))
    ended(instance, "events", FAILURE)
    assert failed_run(instance, "events") is not None
    later = time.time() + 86_401
    monkeypatch.setattr(time, "time", lambda: later)
    assert failed_run(instance, "events") is None


def test_failure_is_over_once_the_whole_log_is_read_and_no_longer_has_its_versions() -> None:
    instance = dg.DagsterInstance.ephemeral()
    run_id = ended(instance, "events", FAILURE)
    failed = failed_run(instance, "events")
    assert failed is not None
    assert failed.first_missing == 0
    read = TableCondition(table="events", latest=2, pages_read=True)
    assert [is_over(replace(read, latest=latest), 3) for latest in (2, 3)] == [True, False]
    assert not is_over(replace(read, pages_read=False), 3)
    end_failure(instance, "events", run_id)
    assert failed_run(instance, "events") is None
    assert not last_failed(instance, ["events"])
    assert not failures(instance, ["events"])
    again = ended(instance, "events", FAILURE)
    assert last_failed(instance, ["events"]) == {"events": again}


def test_runs_of_other_tables_do_not_hide_that_a_later_run_succeeded() -> None:
    instance = dg.DagsterInstance.ephemeral()
    for status in (FAILURE, SUCCESS):
        ended(instance, "events", status)
    for _ in range(table_runs._MAX_LATER_RUNS):
        ended(instance, "other", SUCCESS)
    assert last_failed(instance, ["events"]) == {}


def test_table_that_fails_often_does_not_hide_the_failure_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_runs, "_MAX_FAILURES", 3)
    monkeypatch.setattr(table_runs, "_MAX_TABLES", 3)
    instance = dg.DagsterInstance.ephemeral()
    failed = {name: ended(instance, name, FAILURE) for name in ("first", "events", "third", "fourth")}
    for _ in range(9):
        failed["first"] = ended(instance, "first", FAILURE)
    assert last_failed(instance, list(failed)) == failed
    assert {name: failure.run_id for name, failure in failures(instance, list(failed)).items()} == failed


def test_failures_of_tables_do_not_hide_that_a_run_from_the_page_of_an_asset_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(table_runs, "_MAX_FAILURES", 3)
    instance = dg.DagsterInstance.ephemeral()

    @dg.asset(key=["events", "all_files"], partitions_def=dg.StaticPartitionsDefinition(["3"]))
    def all_files() -> None:
        raise ValueError

    job = dg.Definitions(assets=[all_files]).resolve_implicit_global_asset_job_def()
    only: Any = {"partition_key": "3", "asset_selection": [all_files.key]}
    run_id = job.execute_in_process(instance=instance, raise_on_error=False, **only).run_id
    others = [ended(instance, "other", FAILURE) for _ in range(5)]
    assert last_failed(instance, ["events", "other"]) == {"events": run_id, "other": others[-1]}


@pytest.mark.parametrize("status", [SUCCESS, FAILURE])
def test_run_from_the_page_of_an_asset_counts(status: dg.DagsterRunStatus) -> None:
    instance = dg.DagsterInstance.ephemeral()
    ended(instance, "events", FAILURE if status is SUCCESS else SUCCESS)
    from_its_page(instance, status)
    assert (failed_run(instance, "events") is not None) == (status is FAILURE)


@pytest.mark.parametrize("status", [SUCCESS, FAILURE])
def test_run_from_the_page_of_an_asset_counts_though_other_tables_had_many_later_runs(
    status: dg.DagsterRunStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_runs, "_MAX_FAILURES", 3)
    instance = dg.DagsterInstance.ephemeral()
    ended(instance, "events", FAILURE if status is SUCCESS else SUCCESS)
    from_its_page(instance, status)
    for _ in range(4):
        ended(instance, "other", SUCCESS)
    assert (failed_run(instance, "events") is not None) == (status is FAILURE)


def test_run_of_all_assets_is_a_run_of_each_table() -> None:
    instance = dg.DagsterInstance.ephemeral()
    job = dg.Definitions([dg.AssetSpec("a")]).resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    instance.create_run_for_job(idle_job, status=dg.DagsterRunStatus.STARTED)
    assert run.asset_selection is None
    assert unfinished_runs(instance, ["events", "clicks"]) == {"events": run.run_id, "clicks": run.run_id}
