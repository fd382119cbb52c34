"""The condition of a table: its page, its checks, and the log that a refresh passes to its run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._utils.error import serializable_error_info_from_exc_info

from deltasnap_assets.checks.check import AnyCheck, Verdict, not_evaluated
from deltasnap_assets.checks.registry import CONDITION_CHECKS
from deltasnap_assets.runs.condition.check_events import _is_unevaluated, check_evaluation, report_checks
from deltasnap_assets.runs.condition.fault_texts import (
    condition_tag,
    failed_run_problem,
    fault_entries,
    fault_lines,
    plain_text,
    problems_of,
    unexplained,
)
from deltasnap_assets.runs.condition.poll_findings import RUN
from deltasnap_assets.runs.failure_reason import failure_reason, reason_of
from deltasnap_assets.runs.memory import ListedLog, handing_over, listed_logs_of
from deltasnap_assets.runs.planning.known_table import last_observation
from deltasnap_assets.runs.planning.names import table_key
from deltasnap_assets.settings.yaml_source import ConfigError, ConfigProblem
from deltasnap_core import Problem, ProblemKind, TableLog, Where
from tests.assets.checks.known import NO_TABLE, condition, fault, versions
from tests.assets.followed_table import EVENTS
from tests.assets.jobs import idle_job
from tests.assets.runs.condition.poll_records_builders import Table
from tests.builders import add, metadata, protocol, write_log


def entries_of(path: Path) -> dict[str, object]:
    table = TableLog.for_path(str(path), {})
    reported = fault_entries(table.condition(table.list(), read_pages=False), None, 0)
    return {name: entry.value for name, entry in reported.items()}


def test_page_lists_unloadable_versions_with_reasons(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    (log / f"{1:020}.json").write_text("\n{nope\n", encoding="utf-8")
    reported = entries_of(tmp_path)
    rows = str(reported["cannot_be_loaded"]).splitlines()
    assert rows[:2] == ["| versions | why |", "|-|-|"]
    assert rows[2].startswith(f"| 1 to 2 | {1:020}.json, line 2: expected a line of JSON: ")
    assert (len(rows), reported["can_be_loaded"]) == (3, "0")
    assert reported["numbers_of"] == "version 0, the last good one"


def test_markup_in_a_text_is_shown_unchanged() -> None:
    assert plain_text("a*b `c` [d](http://e) <f>|g #h ~i~ \\j") == (
        r"a\*b \`c\` \[d\](http\://e) \<f\>\|g \#h \~i\~ \\j"
    )


def test_page_of_a_failed_run_does_not_call_the_latest_version_the_last_good_one(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")]})
    condition = TableLog.for_path(str(tmp_path)).condition(read_pages=False)
    failed = failed_run_problem("a", "a check")
    assert "numbers_of" not in fault_entries(condition, failed, 1)
    assert fault_entries(condition, failed, 0)["numbers_of"].value == "version 0, the last good one"


def test_reason_of_a_run_that_a_check_blocked_is_its_sentence_with_its_advice() -> None:
    @dg.asset_check(asset="events", blocking=True)
    def agrees() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=False, description="The log differs.\n\nWhat to do: Trust the log.")

    @dg.asset
    def events() -> None: ...

    result = dg.materialize([events, agrees], raise_on_error=False)
    assert reason_of(result.all_events) == "events: agrees: The log differs. What to do: Trust the log."


def test_reason_of_a_failed_step_is_its_own_error_and_not_the_end_of_its_run() -> None:
    @dg.asset
    def events() -> None:
        raise ValueError("the disk is full")

    result = dg.materialize([events], raise_on_error=False)
    assert reason_of(result.all_events) == "ValueError: the disk is full"


def test_reason_of_a_run_that_could_not_start_is_the_error_of_the_engine(tmp_path: Path) -> None:
    problems = (ConfigProblem(reason="missing", line=4, key="tables[1].path"), ConfigProblem(reason="empty", line=5))
    try:
        raise dg.DagsterInvariantViolationError("Could not load the definitions") from ConfigError(
            file="deltasnap.yaml", problems=problems
        )
    except dg.DagsterInvariantViolationError:
        failed = EngineEventData.engine_error(serializable_error_info_from_exc_info(sys.exc_info()))
    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(idle_job)
        instance.report_engine_event("Starting", run, EngineEventData.in_process(1))
        instance.report_engine_event("The process ended", run, failed)
        instance.report_run_failed(run)
        reason = failure_reason(instance, run.run_id)
    assert reason == "deltasnap.yaml:4: tables[1].path: missing; deltasnap.yaml:5: empty"


def test_page_of_a_broken_table_has_its_faults_and_the_numbers_of_its_last_good_version(tmp_path: Path) -> None:
    table = Table(tmp_path)
    tags = {"dagster/data_version": "0", "deltasnap/generation": "table-id"}
    numbers: dict[str, Any] = {"latest_version": 0, "health": "OK", "num_rows": 7}
    table.instance.report_runless_asset_event(dg.AssetObservation(table_key(EVENTS), metadata=numbers, tags=tags))
    commit = table.log / f"{1:020}.json"
    content = commit.read_bytes()
    commit.write_bytes(b"{nope\n")
    failed = failed_run_problem("r1", "The disk is full.")
    table.report(failed)
    page = last_observation(table.instance, EVENTS)
    assert page is not None
    (of_run, problem) = table.poll.problems
    why = (
        f"{1:020}.json, line 1: expected a line of JSON: Expecting property name enclosed in double quotes: character 2"
    )
    text = f"Version 1 cannot be read: {why}. Versions 1 to 2 cannot be loaded."
    advice = problem.advice.replace("`", r"\`")  # the page is Markdown
    assert {name: entry.value for name, entry in page.metadata.items()} == {
        "health": f"{text} {advice}\n\nThe last run failed: The disk is full.",
        "failed_run": "r1",
        "cannot_be_loaded": f"| versions | why |\n|-|-|\n| 1 to 2 | {why} |",
        "can_be_loaded": "0",
        "numbers_of": "version 0, the last good one",
        "checks_not_evaluated": f"- readable_protocol: not evaluated: {text}",
        "dagster/uri": str(tmp_path / "events"),
        "latest_version": 0,
        "num_rows": 7,
    }
    assert page.description == f"{text} {advice}"
    assert page.tags == {**tags, "deltasnap/condition": condition_tag(problem, failed)}
    assert (of_run.check, of_run.severity, of_run.text) == (RUN, "warning", "The last run failed: The disk is full.")
    assert verdicts(table) == {
        "contiguous_log": (False, dg.AssetCheckSeverity.ERROR, {"missing_versions": 2}),
        "readable_checkpoint": (True, dg.AssetCheckSeverity.ERROR, {"damaged_checkpoints": 0}),
        "readable_protocol": None,
    }
    commit.write_bytes(content)
    table.report()
    page = last_observation(table.instance, EVENTS)
    assert page is not None
    assert {name: entry.value for name, entry in page.metadata.items()} == {
        "health": "The log no longer has faults: every version can be loaded. The next run evaluates the other checks.",
        "dagster/uri": str(tmp_path / "events"),
        "latest_version": 0,
        "num_rows": 7,
    }
    assert page.tags == tags
    found = verdicts(table)
    assert {name: each and each[0] for name, each in found.items()} == dict.fromkeys(found, True)


def verdicts(table: Table) -> dict[str, tuple[bool, dg.AssetCheckSeverity, dict[str, object]] | None]:
    """Return the last result of each check of the log; None: it was planned, but not evaluated."""
    found: dict[str, tuple[bool, dg.AssetCheckSeverity, dict[str, object]] | None] = {}
    for check in CONDITION_CHECKS:
        key = dg.AssetCheckKey(dg.AssetKey(["events", check.asset]), check.name)
        (record,) = table.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
        assert record.event is not None
        assert record.event.dagster_event is not None
        result: Any = record.event.dagster_event.event_specific_data
        if isinstance(result, dg.AssetCheckEvaluation):
            numbers: dict[str, object] = {name: entry.value for name, entry in result.metadata.items()}
            found[check.name] = (result.passed, result.severity, numbers)
        else:
            found[check.name] = None
    return found


KNOWN = {
    "a missing commit": (
        fault(ProblemKind.MISSING_COMMIT, at=versions(3, 3), versions=versions(3, 5)),
        "| 3 to 5 | the commit of version 3 is missing |",
    ),
    "a feature": (
        fault(ProblemKind.UNSUPPORTED_PROTOCOL, reason="madeUp", versions=versions(4, 5)),
        "| 4 to 5 | Problem unsupported_protocol. |",
    ),
    "a file": (
        replace(
            fault(ProblemKind.CORRUPT_COMMIT, reason="no [JSON]", versions=versions(3, 5)),
            where=Where.of("s3://lake/_delta_log/3.json", 3),
        ),
        r"| 3 to 5 | 3.json: no \[JSON\] |",
    ),
    "without a reason": (
        fault(ProblemKind.CORRUPT_COMMIT, versions=versions(3, 5)),
        "| 3 to 5 | Problem corrupt_commit. |",
    ),
}


@pytest.mark.parametrize("case", KNOWN)
def test_versions_that_cannot_be_loaded_have_a_reason(case: str) -> None:
    known, row = KNOWN[case]
    entries = fault_entries(condition(known, loadable=versions(0, 2)), None, 4)
    assert str(entries["cannot_be_loaded"].value).splitlines()[2:] == [row]
    assert entries["can_be_loaded"].value == "0 to 2"
    assert entries["numbers_of"].value == "version 4, stored before the damage"


def test_log_that_cannot_be_listed_has_no_versions() -> None:
    entries = fault_entries(NO_TABLE, None, None)
    assert {name: entry.value for name, entry in entries.items()} == {
        "cannot_be_loaded": "| versions | why |\n|-|-|\n| all | Problem no_table. |"
    }


def test_page_counts_the_commits_that_are_missing(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 3: [add("a")]})
    rows = str(entries_of(tmp_path)["cannot_be_loaded"]).splitlines()
    assert rows[2] == "| 1 to 3 | the commits of versions 1 to 2 are missing |"


def test_failed_run_is_a_sentence_because_advice_follows_it() -> None:
    failed = failed_run_problem("r1", "ValueError: the disk is full")
    (problem,) = problems_of(None, failed)[RUN]
    assert problem.text == fault_lines(None, failed)[0] == "The last run failed: ValueError: the disk is full."


def test_reason_of_an_unsupported_feature_is_a_sentence(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(3, 7, readerFeatures=["madeUp"], writerFeatures=["madeUp"]), metadata()]})
    why = str(entries_of(tmp_path)["cannot_be_loaded"]).splitlines()[2].split("|")[2]
    assert "madeUp" in why
    assert "deltasnap" in why


@pytest.mark.parametrize(
    ("faults", "missing", "is_explained"),
    [
        ((), [3], False),
        ((fault(ProblemKind.CORRUPT_COMMIT, versions=versions(3, 5)),), [1, 2, 5], True),
        ((fault(ProblemKind.CORRUPT_COMMIT, versions=versions(3, 5)),), [1, 2, 6], False),
        ((fault(ProblemKind.CORRUPT_COMMIT, versions=versions(3, 5)),), [], False),
        ((fault(ProblemKind.BROKEN_HINT),), [3], False),
        ((fault(ProblemKind.ACCESS_DENIED),), [], True),
    ],
)
def test_failure_is_explained_by_a_fault_of_one_of_its_versions(
    faults: tuple[Problem, ...], missing: list[int], is_explained: bool
) -> None:
    failed = failed_run_problem("r1", "any", missing)
    assert unexplained(condition(*faults), failed) == (() if is_explained else (failed,))
    assert unexplained(None, failed) == (failed,)


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
