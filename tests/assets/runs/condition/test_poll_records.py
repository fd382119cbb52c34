"""The result of a poll of a table is recorded in the store."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pytest

from deltasnap_assets.checks.check import AnyCheck, Verdict, failed_to_run
from deltasnap_assets.checks.registry import CONTIGUOUS_LOG, EXPIRED_TOMBSTONES, FRESH_TABLE, SMALL_FILES
from deltasnap_assets.runs import decide, due
from deltasnap_assets.runs.condition import poll_records
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.fault_texts import failed_run_problem, problems_of
from deltasnap_assets.runs.condition.poll_findings import LOG, RUN, PollFindings, found_by_checks, known_faults
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.planning.known_table import last_observation
from deltasnap_assets.runs.sensors import new_commits_sensor
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.table_settings import Since
from deltasnap_assets.texts import visible
from deltasnap_core import Problem, ProblemKind, VersionRanges, Where
from deltasnap_core.errors import StorageError
from deltasnap_core.log.condition.problem_kinds import TEMPLATES
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.fleet import last_polls
from deltasnap_core.support import LastPolls, system_clock
from tests.assets.followed_table import EVENTS, materialize
from tests.assets.jobs import idle_job, ticked
from tests.assets.runs.condition.poll_records_builders import WARNING, Table, noted

HOUR = 3_600_000


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def found_by(check: AnyCheck, *, passed: bool, is_error: bool = False, **numbers: float) -> PollFindings:
    """Return what the result of one check records."""
    verdict = Verdict(
        passed=passed,
        description="It is so.",
        advice="Change it.",
        severity="error" if is_error else "warning",
        numbers=numbers,
    )
    return found_by_checks({check: verdict})


def test_failed_check_is_a_problem_with_description_and_advice() -> None:
    problem = Problem.of_check(check="small_files", severity="warning", text="It is so.", advice="Change it.")
    assert found_by(SMALL_FILES, passed=False).problems == {"small_files": (problem,)}
    found = found_by(EXPIRED_TOMBSTONES, passed=True, expired_bytes=7)
    assert (found.problems, found.vacuum_bytes) == ({"expired_tombstones": ()}, 7)


def test_text_like_that_of_advice_is_part_of_the_description() -> None:
    verdict = Verdict(passed=False, description="a\n\nWhat to do: b", advice="Change it.")
    (problem,) = found_by_checks({SMALL_FILES: verdict}).problems["small_files"]
    assert (problem.text, problem.advice) == (visible("a\n\nWhat to do: b"), "Change it.")


def test_error_of_a_check_is_an_error_of_the_table() -> None:
    (problem,) = found_by(SMALL_FILES, passed=False, is_error=True).problems["small_files"]
    assert problem.severity == "error"


def test_freshness_is_recorded_as_a_rule() -> None:
    found = found_by(FRESH_TABLE, passed=True, hours_expected=26)
    assert found.problems == {"fresh_table": ()}
    assert found.stale_after_ms == 26 * HOUR


@pytest.mark.parametrize("check", [FRESH_TABLE, CONTIGUOUS_LOG])
def test_check_that_raised_an_error_is_a_problem(check: AnyCheck) -> None:
    (problem,) = found_by_checks({check: failed_to_run("IndexError: 5")}).problems[check.name]
    assert (problem.severity, problem.text) == ("error", "The check could not be evaluated: IndexError: 5")
    assert found_by(CONTIGUOUS_LOG, passed=False).problems == {}


def test_problems_remain_until_their_check_passes(table: Table) -> None:
    table.check()
    record(table.store, table.table, PollFindings(problems={"small_files": (WARNING,)}))
    record(table.store, table.table, PollFindings(problems={"other": ()}))
    assert (table.poll.problems, table.condition) == ((WARNING,), "warned")
    record(table.store, table.table, PollFindings(problems={"small_files": ()}))
    assert (table.poll.problems, table.condition) == ((), "healthy")


def test_poll_has_the_settings_of_the_table(table: Table) -> None:
    record(table.store, table.table, PollFindings(latest_version=2))
    assert (table.poll.owners, table.poll.path) == (("team:web",), table.table.path)
    assert table.poll.small_file_bytes == table.table.checks.small_file_bytes


def test_nothing_is_written_again_if_nothing_changed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    record(table.store, table.table, PollFindings(latest_version=2))
    before = table.poll
    assert record(table.store, table.table, PollFindings(latest_version=2)) == table.poll == before
    monkeypatch.setattr(due, "RECORDED_AGAIN_MS", 0)
    record(table.store, table.table, PollFindings(latest_version=2))
    assert table.poll.polled_at_ms >= before.polled_at_ms


@pytest.mark.parametrize(
    ("minutes", "found", "is_written"),
    [
        (59, {}, False),
        (60, {}, True),
        (-60, {}, True),
        (59, {"latest_version": 2}, False),
        (59, {"latest_version": 3}, True),
        (59, {"is_examined": True}, False),
        (1, {"examined_checkpoint": "7.checkpoint.parquet"}, True),
        (1, {"facts_version": 2}, True),
        (1, {"vacuum_bytes": 5}, True),
        (1, {"checked_inputs": "other"}, True),
        (1, {"stale_after_ms": 1}, True),
    ],
)
def test_poll_is_written_if_something_changed_or_after_an_hour(
    minutes: int, found: dict[str, Any], is_written: bool, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = system_clock()
    monkeypatch.setattr(poll_records, "system_clock", lambda: now)
    record(table.store, table.table, PollFindings(latest_version=2, is_examined=True))
    monkeypatch.setattr(poll_records, "system_clock", lambda: now + minutes * 60_000)
    record(table.store, table.table, PollFindings(**found))
    assert (table.poll.polled_at_ms != now) == is_written


def test_examination_is_recorded_if_the_last_one_is_an_hour_old(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    now = system_clock()
    for minutes, is_examined in ((0, True), (30, False), (59, True), (61, True)):
        monkeypatch.setattr(poll_records, "system_clock", lambda minutes=minutes: now + minutes * 60_000)
        latest = minutes if minutes == 30 else None  # a new commit: the poll is written without an examination
        record(table.store, table.table, PollFindings(latest_version=latest, is_examined=is_examined))
    assert table.poll.examined_at_ms == now + 61 * 60_000


def test_poll_keeps_what_was_not_examined_again(table: Table) -> None:
    first: dict[str, Any] = {
        "facts_version": 2,
        "vacuum_bytes": 5,
        "checked_inputs": "x",
        "examined_checkpoint": "7",
        "stale_after_ms": 1,
    }
    record(table.store, table.table, PollFindings(latest_version=2, last_commit_ms=9, checked_version=2, **first))
    before = table.poll
    assert before.points is not None
    record(table.store, table.table, PollFindings(problems={"other": (WARNING,)}))
    after = table.poll
    assert replace(after, problems=(), polled_at_ms=before.polled_at_ms) == before
    record(table.store, table.table, PollFindings(is_replaced=True))
    assert (table.poll.checked_version, table.poll.latest_version) == (None, 2)
    record(table.store, table.table, PollFindings(checked_version=1, last_commit_ms=8))
    again = table.poll
    assert (again.checked_version, again.last_commit_ms, again.stale_after_ms, again.facts_version) == (1, 8, None, 2)
    record(table.store, table.table, PollFindings(facts_version=3, vacuum_bytes=0))
    assert (table.poll.facts_version, table.poll.vacuum_bytes) == (3, 0)


def test_new_problems_come_before_those_that_are_kept(table: Table) -> None:
    old, new = noted("a"), noted("b")
    for problem in (old, new):
        record(table.store, table.table, PollFindings(problems={problem.check: (problem,)}))
    assert table.poll.problems == (new, old)
    error, warning = noted("c", "error"), Problem.of(ProblemKind.EMPTY_COMMIT, Where.of(None, 3), table="t")
    record(table.store, table.table, PollFindings(problems={"c": (error,), LOG: (warning,)}))
    assert known_faults(table.poll) == (warning,)
    assert known_faults(None) == ()


def test_number_of_a_check_may_be_absent() -> None:
    assert found_by(EXPIRED_TOMBSTONES, passed=True).vacuum_bytes is None
    assert found_by(EXPIRED_TOMBSTONES, passed=True, expired_bytes=2.9).vacuum_bytes == 2
    found = found_by(FRESH_TABLE, passed=False)
    assert (found.stale_after_ms, [each.severity for each in found.problems["fresh_table"]]) == (None, ["warning"])


def test_poll_of_another_process_is_kept_beside_checks_of_a_run(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    record(table.store, table.table, PollFindings(latest_version=2))
    points = LastPolls.points

    def meanwhile(polls: LastPolls, *arguments: Any) -> Any:
        record(table.store, table.table, PollFindings(latest_version=3, problems={"small_files": (WARNING,)}))
        return points(polls, *arguments)

    monkeypatch.setattr(LastPolls, "points", meanwhile)
    record(table.store, table.table, PollFindings(checked_version=2))
    assert (table.poll.latest_version, table.poll.checked_version, table.poll.problems) == (3, 2, (WARNING,))


@pytest.mark.slow
def test_problems_that_are_recorded_at_once_are_all_kept(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    write, problems = LastPolls.write, [noted(f"check_{number}") for number in range(5)]

    def write_late(*arguments: Any) -> None:
        time.sleep(0.1)
        write(*arguments)

    monkeypatch.setattr(LastPolls, "write", write_late)
    with ThreadPoolExecutor(len(problems)) as threads:
        for problem in problems:
            threads.submit(record, table.store, table.table, PollFindings(problems={problem.check: (problem,)}))
    assert sorted(problem.check for problem in table.poll.problems) == [problem.check for problem in problems]


@pytest.mark.slow
def test_process_that_died_while_recording_blocks_no_others(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_polls, "_DEAD_AFTER_SECONDS", 0.1)
    with monkeypatch.context() as killed:
        killed.setattr(WritableFiles, "delete", lambda *_: None)
        with table.store.polls.alone("events"):
            pass
    record(table.store, table.table, PollFindings(problems={"small_files": (WARNING,)}))
    record(table.store, table.table, PollFindings(latest_version=2))
    assert (table.poll.problems, table.poll.latest_version) == ((WARNING,), 2)


def test_recorded_poll_leaves_no_lock(table: Table) -> None:
    with table.store.polls.alone("events"):
        inside = list(table.log.parents[1].rglob("*.lock"))
    assert len(inside) == 1
    assert not inside[0].exists()


def test_poll_records_since_when_new_versions_are_unchecked(table: Table) -> None:
    record(table.store, table.table, PollFindings(latest_version=2))
    since = table.poll.unchecked_since_ms
    assert since is not None
    record(table.store, table.table, PollFindings(latest_version=3))
    assert table.poll.unchecked_since_ms == since
    record(table.store, table.table, PollFindings(checked_version=3))
    assert table.poll.unchecked_since_ms is None


def test_versions_that_are_not_wanted_do_not_wait_for_a_check(table: Table) -> None:
    late = table.table.model_copy(update={"versions": Since(since=3)})
    record(table.store, late, PollFindings(latest_version=2))
    assert table.poll.unchecked_since_ms is None
    record(table.store, late, PollFindings(latest_version=3))
    assert table.poll.unchecked_since_ms is not None


def test_time_of_a_commit_is_forgotten_with_its_version(table: Table) -> None:
    record(table.store, table.table, PollFindings(latest_version=2, last_commit_ms=5))
    record(table.store, table.table, PollFindings(latest_version=2))
    assert table.poll.last_commit_ms == 5
    record(table.store, table.table, PollFindings(latest_version=3))
    assert table.poll.last_commit_ms is None


def test_damaged_commit_of_a_stored_version_is_found_in_a_day(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.store_versions(range(3), computed=True)
    table.check()
    record(table.store, table.table, PollFindings(is_examined=True))
    materialize(table.instance, range(3))
    commit = table.commit(1)
    times, content = commit.stat(), commit.read_bytes()
    commit.write_bytes(content.replace(b'"add"', b'"\x00dd"'))
    os.utime(commit, ns=(times.st_atime_ns, times.st_mtime_ns))
    monkeypatch.setattr(due, "EXAMINED_AGAIN_MS", 0)
    table.poll_log()
    assert table.condition == "broken"


def test_only_reading_the_whole_log_shows_that_its_errors_are_gone(table: Table) -> None:
    error, found = noted(LOG, "error"), []
    table.check()
    record(table.store, table.table, PollFindings(problems={LOG: (error,)}, is_examined=True))
    for is_examined in (False, True):
        record(table.store, table.table, PollFindings(problems={LOG: ()}, is_examined=is_examined))
        found.append((table.poll.problems, due.is_examination_due(table.poll, system_clock())))
    assert found == [((error,), True), ((), False)]


@pytest.mark.parametrize("kind", [kind for kind in ProblemKind if TEMPLATES[kind].found_by == LOG])
def test_warning_found_in_a_commit_remains_until_the_whole_log_is_read(table: Table, kind: ProblemKind) -> None:
    warning = Problem.of(kind, severity="warning", text="It is so.", advice="Change it.", reason="")
    record(table.store, table.table, PollFindings(problems={LOG: (warning,)}, is_examined=True))
    found = []
    for of_log, is_examined in (((warning,), False), ((), False), ((), True)):
        record(table.store, table.table, PollFindings(problems={LOG: of_log}, is_examined=is_examined))
        found.append(table.poll.problems)
    assert found == [(warning,), (warning,) if kind.is_in_commits else (), ()]


def test_warning_of_another_release_remains_until_the_whole_log_is_read(table: Table) -> None:
    warning, found = noted(LOG), []
    record(table.store, table.table, PollFindings(problems={LOG: (warning,)}, is_examined=True))
    for is_examined in (False, True):
        record(table.store, table.table, PollFindings(problems={LOG: ()}, is_examined=is_examined))
        found.append(table.poll.problems)
    assert found == [(warning,), ()]


def test_known_fault_that_is_found_again_in_other_words_is_recorded_once(table: Table) -> None:
    at = Where(versions=VersionRanges.of([1]))
    earlier = Problem.of(ProblemKind.EMPTY_COMMIT, at, text="Empty.", advice="Restore it.")
    now, other = (
        Problem.of(ProblemKind.EMPTY_COMMIT, at, table="/t"),
        Problem.of(ProblemKind.REPEATED_ADD, at, table="/t"),
    )
    of_log = tuple(each for each in (now, other))
    record(table.store, table.table, PollFindings(problems={LOG: (earlier,)}, is_examined=True))
    record(table.store, table.table, PollFindings(problems={LOG: of_log}))
    assert table.poll.problems == of_log


def test_storage_failure_does_not_show_that_the_faults_of_a_log_are_gone(table: Table) -> None:
    commit = table.commit(1)
    content = commit.read_bytes()
    table.damage(1)
    table.report()
    before = last_observation(table.instance, EVENTS)
    commit.write_bytes(content)
    for condition in (None, log_of(table.table).condition(read_pages=False)):
        assert not report_condition(table.instance, table.settings, table.table, condition)
    assert last_observation(table.instance, EVENTS) == before


def test_table_without_a_recent_check_for_damage_is_unknown(table: Table) -> None:
    table.check()
    record(table.store, table.table, PollFindings(is_examined=True))
    old = replace(table.poll, examined_at_ms=table.poll.polled_at_ms - 49 * HOUR)
    table.store.polls.write("events", old)
    assert table.condition == "unknown"


def test_failed_runs_of_a_table_that_was_never_checked_are_a_warning(table: Table) -> None:
    table.report(failed_run_problem("run", "No space left."))
    assert table.condition == "warned"


def test_faults_of_the_log_are_recorded_and_cleared(table: Table) -> None:
    table.check()
    commit = table.commit(1)
    content = commit.read_bytes()
    table.damage(1)
    condition = log_of(table.table).condition()
    report_condition(table.instance, table.settings, table.table, condition)
    (problem,) = table.poll.problems
    assert (problem.check, problem.severity, problem.text) == (LOG, "error", condition.faults[0].text)
    assert (table.condition, table.poll.latest_version) == ("broken", 2)
    commit.write_bytes(content)
    table.report()
    assert (table.condition, table.poll.problems) == ("healthy", ())


def test_failed_run_is_a_warning_until_a_run_succeeds(table: Table) -> None:
    table.check()
    table.report(failed_run_problem("1", "The disk is full."))
    (problem,) = table.poll.problems
    assert (problem.check, problem.text, table.condition) == (RUN, "The last run failed: The disk is full.", "warned")
    table.report()
    assert table.condition == "healthy"


@pytest.mark.parametrize(("first_missing", "is_over"), [(3, True), (2, False)])
def test_failed_run_is_over_if_the_log_ends_before_it(first_missing: int, is_over: bool, table: Table) -> None:
    table.check()
    table.report(failed_run_problem("1", "The disk is full.", [first_missing]))
    assert table.condition == ("healthy" if is_over else "warned")


def test_failed_run_explained_by_a_fault_is_not_reported_twice(table: Table) -> None:
    table.damage(1)
    condition = log_of(table.table).condition()
    found = problems_of(condition, failed_run_problem("1", "any", [2]))
    assert (len(found[LOG]), found[RUN]) == (1, ())


def test_poll_without_new_commits_records_a_poll(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    sensor = new_commits_sensor(table.settings, table.table, [idle_job])
    first = ticked(sensor, table.instance)
    sensor(dg.build_sensor_context(instance=table.instance, cursor=first.cursor))
    (table.storage / "events" / "last_poll.json").unlink()
    sensor(dg.build_sensor_context(instance=table.instance, cursor=first.cursor))
    assert table.store.polls.read("events") is None  # it is not an hour ago
    monkeypatch.setattr(decide, "LOOK_MS", 0)
    sensor(dg.build_sensor_context(instance=table.instance, cursor=first.cursor))
    assert table.poll.latest_version == 2


def test_unwritable_store_is_a_warning(
    table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "deltasnap_core.storage.writable_files.WritableFiles.write",
        Mock(side_effect=StorageError(path="/store", reason="read-only")),
    )
    record(table.store, table.table, PollFindings(latest_version=2))
    assert "Could not record the condition of table events" in caplog.text


def test_configured_freshness_applies_without_a_run(table: Table) -> None:
    table.check()
    record(table.store, table.table, PollFindings(latest_version=2, last_commit_ms=system_clock() - 2 * HOUR))
    assert table.condition == "healthy"
    checks = table.table.checks.model_copy(update={"fresh_within_hours": 1.0})
    hourly = table.table.model_copy(update={"checks": checks})
    record(table.store, hourly, PollFindings())
    assert table.condition == "stale"
