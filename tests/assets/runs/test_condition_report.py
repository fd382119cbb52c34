from __future__ import annotations

import sys
from pathlib import Path

import dagster as dg
from dagster._core.events import EngineEventData
from dagster._utils.error import serializable_error_info_from_exc_info

from deltasnap_assets.runs.condition.fault_texts import FailedRun, fault_entries, is_explained, plain_text
from deltasnap_assets.runs.table_runs import failure_reason, reason_of
from deltasnap_assets.settings.yaml_source import ConfigError, ConfigProblem
from deltasnap_core import TableLog
from tests.assets.jobs import idle_job
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
    failed = FailedRun(run_id="a", reason="a check")
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


def test_page_counts_the_commits_that_are_missing(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 3: [add("a")]})
    rows = str(entries_of(tmp_path)["cannot_be_loaded"]).splitlines()
    assert rows[2] == "| 1 to 3 | the commits of versions 1 to 2 are missing |"


def test_reason_of_an_unsupported_feature_is_a_sentence(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(3, 7, readerFeatures=["madeUp"], writerFeatures=["madeUp"]), metadata()]})
    why = str(entries_of(tmp_path)["cannot_be_loaded"]).splitlines()[2].split("|")[2]
    assert "madeUp" in why
    assert "deltasnap" in why


def test_failure_is_explained_only_by_a_fault_with_its_sentence_or_reason(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")]})
    (log / f"{1:020}.json").write_text("{nope\n", encoding="utf-8")
    condition = TableLog.for_path(str(tmp_path)).condition(read_pages=False)
    (fault,) = condition.faults
    assert is_explained(condition, f"CorruptLogError: {fault.text}")
    assert is_explained(condition, f"In another file: {fault.reason}")
    assert not is_explained(condition, "The disk is full.")
    assert not is_explained(None, fault.text)
