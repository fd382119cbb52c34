"""The last run of a table, and whether it failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.execution.plan.objects import StepFailureData
from dagster_shared.error import SerializableErrorInfo

from deltasnap_assets.runs import table_runs
from deltasnap_assets.runs.condition.fault_texts import failed_run_problem
from deltasnap_assets.runs.due import is_failure_over
from deltasnap_assets.runs.failure_reason import reason_of
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.table_runs import (
    MissedRun,
    TableRuns,
    ends_failure,
    failed_run,
    has_active_run,
    tables_failed,
)
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TABLE_TAG, TableSettings
from deltasnap_assets.tables.checks.maintenance import checkpoint_job, prune_job
from deltasnap_core import TableCondition
from tests.assets.followed_table import EVENTS, materialize
from tests.assets.jobs import idle_job, unfinished_run

TEN = " ".join(f"t{each}: broken" for each in range(10))
ENGINE = dg.DagsterEventType.ENGINE_EVENT
OTHER, FINE, CLICKS = (TableSettings(name=name, path=f"/data/{name}") for name in ("other", "fine", "clicks"))
FAILURE, SUCCESS = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


def ended(instance: dg.DagsterInstance, table: str, status: dg.DagsterRunStatus) -> str:
    return instance.create_run_for_job(idle_job, status=status, tags=run_tags(table, 0, 3)).run_id


def runs_of(instance: dg.DagsterInstance, table: TableSettings = EVENTS) -> TableRuns:
    return TableRuns.of(instance, [EVENTS, CLICKS, OTHER, FINE])[table.name]


def with_partitions(count: int) -> dg.DagsterInstance:
    """Return an instance with the first versions of the table `events`."""
    instance = dg.DagsterInstance.ephemeral()
    instance.add_dynamic_partitions("events_versions", [str(version) for version in range(count)])
    return instance


def from_its_page(instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> None:
    """A run of an asset of the table `events`, started in Dagster's UI: it has no tag of ours."""

    @dg.asset(key=["events", "all_files"], partitions_def=dg.StaticPartitionsDefinition(["3"]))
    def all_files() -> None:
        if status is FAILURE:
            raise ValueError

    dg.materialize([all_files], instance=instance, partition_key="3", raise_on_error=False)


def test_failed_run_is_remembered_until_a_run_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = with_partitions(4)
    run_id, later = ended(instance, "events", FAILURE), time.time() + 3 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    failed = failed_run(instance, EVENTS)
    assert failed is not None
    assert failed.where.name == run_id
    materialize(instance, range(4))
    ended(instance, "events", SUCCESS)
    assert failed_run(instance, EVENTS) is None


def test_run_of_other_versions_does_not_end_a_failure_that_left_versions_missing() -> None:
    instance = with_partitions(9)
    run_id = ended(instance, "events", FAILURE)
    other = instance.create_run_for_job(idle_job, status=SUCCESS, tags=run_tags("events", 5, 8))
    materialize(instance, range(5, 9))
    failed = failed_run(instance, EVENTS)
    assert failed is not None
    assert (failed.where.name, failed.where.versions[0]) == (run_id, 0)
    assert not ends_failure(instance, EVENTS, other)
    materialize(instance, range(3))
    last = instance.create_run_for_job(idle_job, tags=run_tags("events", 3, 3))
    assert ends_failure(instance, EVENTS, last)
    instance.delete_dynamic_partition("events_versions", "3")  # the log no longer has this version
    assert failed_run(instance, EVENTS) is None


@pytest.mark.parametrize("job_of", [prune_job, checkpoint_job])
def test_job_of_maintenance_neither_fails_nor_heals_a_table(job_of: Callable[[Settings], dg.JobDefinition]) -> None:
    settings = Settings(tables=(TableSettings(name="events", path="/events"),))
    job = job_of(settings)
    instance, tags = dg.DagsterInstance.ephemeral(), {"dagster/partition": "events", TABLE_TAG: "events"}
    instance.create_run_for_job(job, status=FAILURE, tags=tags)
    assert failed_run(instance, EVENTS) is None
    assert runs_of(instance).failed is None
    run_id = ended(instance, "events", FAILURE)
    instance.create_run_for_job(job, status=SUCCESS, tags=tags)
    failed = failed_run(instance, EVENTS)
    assert failed is not None
    assert failed.where.name == run_id
    assert runs_of(instance).failed == run_id


def test_run_that_failed_after_its_versions_were_stored_is_forgotten_in_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = dg.DagsterInstance.ephemeral()
    materialize(instance, range(4))
    ended(instance, "events", FAILURE)
    assert failed_run(instance, EVENTS) is not None
    later = time.time() + 86_401
    monkeypatch.setattr(time, "time", lambda: later)
    assert failed_run(instance, EVENTS) is None


def test_canceled_run_without_missing_versions_neither_fails_a_table_nor_ends_its_failure() -> None:
    instance = dg.DagsterInstance.ephemeral()
    materialize(instance, range(4))
    ended(instance, "events", dg.DagsterRunStatus.CANCELED)
    assert failed_run(instance, EVENTS) is None
    run_id = ended(instance, "events", FAILURE)
    ended(instance, "events", dg.DagsterRunStatus.CANCELED)
    failed = failed_run(instance, EVENTS)
    assert failed is not None
    assert failed.where.name == run_id


def test_failure_is_over_once_the_whole_log_is_read_and_no_longer_has_its_versions() -> None:
    instance = with_partitions(4)
    ended(instance, "events", FAILURE)
    failed = failed_run(instance, EVENTS)
    assert failed is not None
    assert failed.where.versions[0] == 0
    read = TableCondition(table="events", latest=2, pages_read=True)
    later = failed_run_problem("r1", "any", [3, 4])
    assert [is_failure_over(replace(read, latest=latest), later) for latest in (2, 3)] == [True, False]
    assert not is_failure_over(replace(read, pages_read=False), later)
    assert not is_failure_over(read, failed_run_problem("r1", "any"))


@pytest.mark.slow
def test_runs_of_other_tables_do_not_hide_that_a_later_run_succeeded() -> None:
    instance = dg.DagsterInstance.ephemeral()
    for status in (FAILURE, SUCCESS):
        ended(instance, "events", status)
    for _ in range(table_runs._MAX_LATER_RUNS):
        ended(instance, "other", SUCCESS)
    assert failed_run(instance, EVENTS) is None


def failed_on_its_page(instance: dg.DagsterInstance) -> str:
    """Run an asset of the table `events`, which fails, as Dagster's UI does. Return the id of the run."""

    @dg.asset(key=["events", "all_files"], partitions_def=dg.StaticPartitionsDefinition(["3"]))
    def all_files() -> None:
        raise ValueError

    job = dg.Definitions(assets=[all_files]).resolve_implicit_global_asset_job_def()
    only: Any = {"partition_key": "3", "asset_selection": [all_files.key]}
    return job.execute_in_process(instance=instance, raise_on_error=False, **only).run_id


def test_last_failure_of_each_table_counts_however_its_run_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, tables = dg.DagsterInstance.ephemeral(), (EVENTS, OTHER, FINE)

    def failed() -> list[str | None]:
        return [runs_of(instance, name).failed for name in tables]

    for _ in range(2):
        tagged, other = ended(instance, "events", FAILURE), ended(instance, "other", dg.DagsterRunStatus.CANCELED)
        assert failed() == [tagged, other, None]
        on_its_page = failed_on_its_page(instance)
        assert failed() == [on_its_page, other, None]
    instance.create_run_for_job(idle_job, status=FAILURE, tags={TABLE_TAG: "events"})  # without versions
    ended(instance, "fine", SUCCESS)
    assert failed() == [on_its_page, other, None]
    seconds_later(86_401, monkeypatch)
    assert failed() == [None, None, None]


@pytest.mark.parametrize("status", [SUCCESS, FAILURE])
def test_run_from_the_page_of_an_asset_counts(status: dg.DagsterRunStatus) -> None:
    instance = dg.DagsterInstance.ephemeral()
    ended(instance, "events", FAILURE if status is SUCCESS else SUCCESS)
    from_its_page(instance, status)
    assert (failed_run(instance, EVENTS) is not None) == (status is FAILURE)


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
    assert (failed_run(instance, EVENTS) is not None) == (status is FAILURE)


@pytest.mark.parametrize(
    ("number", "expected"), [(1, "1 table failed. t0: broken"), (11, f"11 tables failed. {TEN} And 1 more.")]
)
def test_message_about_failed_tables_names_ten_of_them(number: int, expected: str) -> None:
    assert str(tables_failed({f"t{each}": "broken" for each in range(number)})) == expected


def evaluated(name: str, *, blocking: bool = True, passed: bool = False, is_error: bool = True) -> dg.DagsterEvent:
    severity = dg.AssetCheckSeverity.ERROR if is_error else dg.AssetCheckSeverity.WARN
    data = dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(["events", "all_files"]),
        check_name=name,
        passed=passed,
        metadata={},
        severity=severity,
        blocking=blocking,
        description=f"{name} failed.\n\nWhat to do: Repair it.",
    )
    return event_of(dg.DagsterEventType.ASSET_CHECK_EVALUATION, data)


def event_of(kind: dg.DagsterEventType, data: Any) -> dg.DagsterEvent:
    return dg.DagsterEvent(event_type_value=kind.value, job_name="events_snapshots", event_specific_data=data)


def failed_with(*names_and_texts: str, kind: dg.DagsterEventType = dg.DagsterEventType.STEP_FAILURE) -> dg.DagsterEvent:
    error = None
    for text in names_and_texts:
        name = text.partition(":")[0].rpartition(".")[2]
        error = SerializableErrorInfo(message=text, stack=[], cls_name=name, cause=error)
    of_step: Any = StepFailureData
    data = EngineEventData(error=error) if kind is ENGINE else of_step(error=error, user_failure_data=None)
    return event_of(kind, data)


BLOCKED = "dagster._core.errors.DagsterAssetCheckFailedError: 1 check failed"
REASONS: dict[str, tuple[list[dg.DagsterEvent], str | None]] = {
    "no event": ([], None),
    "an error of ours": (
        [
            failed_with(
                "deltasnap_core.errors.CorruptLogError: It is lost.\nRestore it.", "x.DagsterExecutionStepError: x"
            )
        ],
        "It is lost. Restore it.",
    ),
    "an error of another library": ([failed_with("botocore.errors.ClientError: denied\n")], "ClientError: denied"),
    "the first of several": ([failed_with("A: 1"), failed_with("B: 2")], "A: 1"),
    "an error without a text": ([failed_with("builtins.MemoryError\n")], "MemoryError"),
    "an interruption": (
        [failed_with("dagster._core.errors.DagsterExecutionInterruptedError\n")],
        "its process was interrupted",
    ),
    "an error of Dagster alone": ([failed_with("dagster.DagsterError: no")], "DagsterError: no"),
    "a failure without an error": ([event_of(dg.DagsterEventType.RUN_FAILURE, None)], None),
    "the start of the process": ([failed_with("A: 1", kind=ENGINE), failed_with("B: 2", kind=ENGINE)], "A: 1"),
    "a step after the engine": ([failed_with("A: 1", kind=ENGINE), failed_with("B: 2")], "B: 2"),
    "blocking checks": (
        [
            evaluated("one"),
            evaluated("one"),
            evaluated("warns", is_error=False),
            evaluated("passes", passed=True),
            evaluated("informs", blocking=False),
            evaluated("two"),
            failed_with(BLOCKED),
        ],
        "events/all_files: one: one failed. What to do: Repair it. "
        "events/all_files: two: two failed. What to do: Repair it.",
    ),
    "a check that does not block, then an error": ([evaluated("one", blocking=False), failed_with("A: 1")], "A: 1"),
    "no check that blocks": ([failed_with(BLOCKED)], "DagsterAssetCheckFailedError: 1 check failed"),
}


@pytest.mark.parametrize("case", REASONS)
def test_reason_of_a_failed_run_is_its_first_own_error(case: str) -> None:
    events, expected = REASONS[case]
    assert reason_of(events) == expected


STARTED, QUEUED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.QUEUED
MAY_BE_DEAD = [dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, STARTED, dg.DagsterRunStatus.CANCELING]


def unfinished(instance: dg.DagsterInstance, status: dg.DagsterRunStatus, **tags: str) -> dg.DagsterRun:
    """Return a run of the versions 0 to 3 of the table `events`."""
    return unfinished_run(instance, status, {**run_tags("events", 0, 3), **tags})


def seconds_later(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)


@pytest.mark.parametrize("status", [*MAY_BE_DEAD, QUEUED])
def test_unfinished_run_is_waited_for_and_stays(status: dg.DagsterRunStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = with_partitions(4)
    run = unfinished(instance, status)
    assert (runs_of(instance).active, runs_of(instance, OTHER).active) == (run.run_id, None)
    seconds_later(605, monkeypatch)
    found = runs_of(instance)
    silent = [record.dagster_run.run_id for record in found.silent]
    assert (found.active, silent) == ((run.run_id, []) if status is QUEUED else (None, [run.run_id]))
    assert [each.status for each in instance.get_runs()] == [status]


@pytest.mark.parametrize("status", MAY_BE_DEAD)
def test_run_that_writes_events_is_waited_for(status: dg.DagsterRunStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = with_partitions(4)
    run = unfinished(instance, status)
    for _ in range(3):
        seconds_later(595, monkeypatch)
        instance.report_engine_event("It runs.", run)
        assert runs_of(instance).active == run.run_id
    seconds_later(595, monkeypatch)
    assert runs_of(instance).active == run.run_id
    seconds_later(10, monkeypatch)
    assert runs_of(instance).active is None


def test_last_event_is_not_read_of_a_run_that_just_started(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = dg.DagsterInstance.ephemeral()
    run = unfinished(instance, STARTED)
    monkeypatch.setattr(instance, "get_records_for_run", None)
    assert runs_of(instance).active == run.run_id


def missed_run(instance: dg.DagsterInstance) -> tuple[str, list[int], bool] | None:
    """Return the id of the run that left versions missing, these, and whether it is the last attempt."""
    missed = MissedRun.of(instance, EVENTS, runs_of(instance).silent)
    return None if missed is None else (missed.run_id, [*missed.missing], missed.is_last_attempt)


def test_silent_run_is_repeated_once_while_its_versions_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = with_partitions(5)
    run = unfinished(instance, STARTED)
    assert missed_run(instance) is None
    seconds_later(605, monkeypatch)
    assert missed_run(instance) == (run.run_id, [0, 1, 2, 3], False)
    assert failed_run(instance, EVENTS) is None  # nothing reports it as failed
    repeated = ended(instance, "events", FAILURE)
    assert missed_run(instance) == (repeated, [0, 1, 2, 3], True)
    materialize(instance, range(4))
    assert missed_run(instance) is None


@pytest.mark.parametrize(("last", "is_last_attempt"), [(3, True), (4, False)])
def test_silent_run_that_repeats_another_one_is_repeated_only_for_later_versions(
    last: int, is_last_attempt: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = with_partitions(5)
    unfinished(instance, STARTED)
    run = unfinished(instance, STARTED, **run_tags("events", 0, last))
    seconds_later(605, monkeypatch)
    assert missed_run(instance) == (run.run_id, [*range(last + 1)], is_last_attempt)


def test_run_of_a_job_is_active_unless_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = dg.DagsterInstance.ephemeral()
    assert not has_active_run(instance, idle_job.name)
    unfinished(instance, STARTED)
    assert has_active_run(instance, idle_job.name)
    assert not has_active_run(instance, "other")
    seconds_later(605, monkeypatch)
    assert not has_active_run(instance, idle_job.name)
    unfinished(instance, QUEUED)
    seconds_later(605, monkeypatch)
    assert has_active_run(instance, idle_job.name)


def test_run_of_all_assets_is_a_run_of_each_table() -> None:
    instance = dg.DagsterInstance.ephemeral()
    job = dg.Definitions([dg.AssetSpec("a")]).resolve_implicit_global_asset_job_def()
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    instance.create_run_for_job(idle_job, status=dg.DagsterRunStatus.STARTED)
    assert run.asset_selection is None
    assert {runs_of(instance, name).active for name in (EVENTS, CLICKS)} == {run.run_id}
