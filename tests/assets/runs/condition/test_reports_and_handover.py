"""The log that a refresh passes to its run, and the checks that a failed run left open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from deltasnap_assets.checks.check import AnyCheck, Verdict, not_evaluated
from deltasnap_assets.checks.registry import CONDITION_CHECKS
from deltasnap_assets.runs.condition.check_events import _is_unevaluated, check_evaluation, report_checks
from deltasnap_assets.runs.condition.fault_texts import condition_tag, failed_run_problem
from deltasnap_assets.runs.memory import ListedLog, handing_over, listed_logs_of
from deltasnap_core import Problem, ProblemKind, TableLog, Where
from tests.assets.followed_table import EVENTS
from tests.assets.jobs import idle_job
from tests.builders import metadata, protocol, write_log


def test_listed_log_is_available_to_its_run_until_the_run_ends(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()]})
    listed = ListedLog(listing=TableLog.for_path(tmp_path).list(), common=None)
    with handing_over("run", "events", listed):
        assert listed_logs_of("run") == {"events": listed}
        assert listed_logs_of("other") == {}
        with handing_over("other", "events", None):
            assert listed_logs_of("other") == {}
    assert listed_logs_of("run") == {}


def test_log_is_forgotten_if_its_run_fails() -> None:
    listed: Any = object()
    with pytest.raises(OSError, match="broken"), handing_over("run", "events", listed):
        raise OSError("broken")
    assert listed_logs_of("run") == {}


def empty_commit(version: int) -> Problem:
    return Problem.of(ProblemKind.EMPTY_COMMIT, Where.of(None, version), table="t")


def test_faults_and_the_failed_run_identify_a_condition() -> None:
    run, one, two = failed_run_problem("a", "x"), empty_commit(1), empty_commit(2)
    tags = [condition_tag(*problems) for problems in ([one], [two], [one, run], [run], [failed_run_problem("b", "x")])]
    assert len({*tags}) == 5
    assert {len(tag or "") for tag in tags} == {40}
    assert condition_tag() is None
    assert condition_tag(failed_run_problem("a", "y"), one) == tags[2]
    assert condition_tag(Problem(kind=ProblemKind.CORRUPT_COMMIT, where=Where(file="\ud800"))) not in (None, *tags)


def planned_run(instance: dg.DagsterInstance, *evaluated: str) -> str:
    """Record a failed run that planned to evaluate two checks. Return its id."""
    specs = [dg.AssetCheckSpec(name, asset="events") for name in ("one", "two")]

    @dg.asset(check_specs=specs)
    def events() -> Any:
        for name in evaluated:
            yield dg.AssetCheckResult(check_name=name, passed=True)
        raise OSError("broken")

    return dg.materialize([events], instance=instance, raise_on_error=False).run_id


def status_of(instance: dg.DagsterInstance, *path: str) -> list[str]:
    key = dg.AssetCheckKey(dg.AssetKey([*path[:-1]]), path[-1])
    history = instance.event_log_storage.get_asset_check_execution_history(key, limit=10)
    return [record.status.value for record in history]


def test_checks_that_a_failed_run_did_not_evaluate_are_reported_as_skipped() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        run_id = planned_run(instance, "one")
        before = status_of(instance, "events", "two")
        report_checks(instance, EVENTS, {}, failed_run_problem(run_id, "broken"))
        assert status_of(instance, "events", "one") == ["SUCCEEDED"]
        assert len(status_of(instance, "events", "two")) == len(before) + 1 == 2
        again = status_of(instance, "events", "two")
        report_checks(instance, EVENTS, {}, failed_run_problem(run_id, "broken"))
        assert status_of(instance, "events", "two") == again


def test_checks_of_a_condition_are_recorded_with_their_verdict_or_as_skipped() -> None:
    first, second, *_ = CONDITION_CHECKS
    verdicts: dict[AnyCheck, Verdict] = {
        first: Verdict(passed=False, description="bad", numbers={"n": 1}),
        second: not_evaluated("no log"),
    }
    with dg.DagsterInstance.ephemeral() as instance:
        report_checks(instance, EVENTS, verdicts, None)
        assert status_of(instance, "events", first.asset, first.name) == ["FAILED"]
        assert status_of(instance, "events", second.asset, second.name) == ["PLANNED"]


def test_evaluation_of_a_check_has_its_asset_severity_numbers_and_advice() -> None:
    check = CONDITION_CHECKS[0]
    found = check_evaluation(EVENTS, check, Verdict(passed=False, description="bad \x1b", numbers={"n": 1}))
    assert (found.asset_key.path, found.check_name, found.passed) == (["events", check.asset], check.name, False)
    assert found.severity.value.lower().startswith(
        check.severity_of(Verdict(passed=False, description="", numbers={}))[:4]
    )
    assert (found.description or "").startswith("bad \\x1b")
    assert found.metadata["n"].value == 1


def test_check_of_an_earlier_run_is_not_one_that_the_run_left_open() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        run_id = planned_run(instance)
        planned: Any = type("Planned", (), {"asset_key": dg.AssetKey("events"), "check_name": "one"})
        assert _is_unevaluated(instance, planned, run_id)
        assert not _is_unevaluated(instance, planned, instance.create_run_for_job(idle_job).run_id)
