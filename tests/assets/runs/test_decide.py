"""What is decided about a table that was seen: a table of `seen -> steps`, from plain values."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deltasnap_assets.quantities import DAY_MS, HOUR_MS
from deltasnap_assets.runs.condition.fault_texts import failed_run_problem
from deltasnap_assets.runs.condition.poll_findings import ALL_CHECKS, LOG, RUN, PollFindings
from deltasnap_assets.runs.decide import (
    BROKEN_MS,
    LOOK_MS,
    Do,
    Follow,
    Looked,
    Request,
    Say,
    Step,
    TableState,
    decide,
    state_of,
)
from deltasnap_assets.runs.due import (
    EXAMINED_AGAIN_MS,
    SHORT_LOG,
    inputs_of_checks,
    is_checkpoint_sound,
    is_examination_due,
    reads_of_tick,
)
from deltasnap_assets.runs.memory import Look
from deltasnap_assets.runs.observe import Asked, Page, Seen
from deltasnap_assets.runs.planning.names import run_tags
from deltasnap_assets.runs.planning.plan import Known, Plan, Stored
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.runs.table_runs import MissedRun, TableRuns
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import Since, TableSettings
from deltasnap_core import LogCursor, LogStatus, ProblemKind, TableCondition, VersionRanges
from deltasnap_core.support import CommonVersion, LastPoll, LogRelation, ManifestName
from tests.assets.checks.known import condition, counted, fault
from tests.assets.runs.condition.poll_records_builders import WARNING, Table, noted
from tests.builders import add, metadata, protocol
from tests.checkpoint_files import write_checkpoint

NOW = 100 * DAY_MS
TABLE = TableSettings(name="events", path="/lake/events")
ONE_AT_ONCE = TABLE.model_copy(update={"max_versions_per_run": 1})
LATE = TABLE.model_copy(update={"versions": Since(since=5)})
VERSIONS = (0, 1, 2, 3)
FOLLOWED = LogCursor(table_id="g", version=3)
STATUS = LogStatus(table_id="g", latest=3, versions=VERSIONS)
DONE = Known(versions=VERSIONS, done=frozenset(VERSIONS), table_id="g")
DOCUMENT = LastPoll(
    polled_at_ms=NOW, examined_at_ms=NOW, latest_version=3, checked_version=3, examined_checkpoint="3.checkpoint"
)
NEWS = LogStatus(table_id="g", latest=4, versions=(4,))
FAILED = failed_run_problem("run-1", "No space left.", [2, 3])
DAMAGE = condition(fault(ProblemKind.CORRUPT_COMMIT, versions=VersionRanges(((2, 3),))), latest=3)


def stored(*versions: int, lost: VersionRanges | None = None) -> Stored:
    common = CommonVersion(
        relation=LogRelation.SAME,
        version=max(versions),
        names=tuple(ManifestName(generation="000001-g", version=version) for version in versions),
        latest_in_log=3,
        table_id="g",
        lost=lost or VersionRanges(),
    )
    return Stored(common=common, versions=frozenset(versions))


def seen(asked: Asked = Asked.TICK, *, fields: Mapping[str, Any] | None = None, **parts: Any) -> Seen:
    """Return a table of four versions that is complete, unless these fields or parts differ."""
    values: dict[str, Any] = {"table": TABLE, "asked": asked, "cursor": FOLLOWED, **(fields or {})}
    found = Seen(settings=Settings(tables=(TABLE,)), instance=cast(Any, None), **values)
    known: dict[str, Any] = {
        "news": None,
        "page": Page(),
        "known": DONE,
        "document": DOCUMENT,
        "log": (STATUS, stored(*VERSIONS)),
        "failed": None,
        "missed": None,
        "unshared": None,
        "look": None,
    }
    return found.given(**{**known, **parts})


def steps_of(table: Seen, now_ms: int = NOW) -> list[str]:
    """Return the steps, without those that only record what a poll saw, as short texts."""
    return [text_of(step) for step in decide(table, now_ms) if not isinstance(step, PollFindings)]


def text_of(step: Step) -> str:
    match step:
        case Say(text):
            return f"say: {text}"
        case Plan():
            return f"partitions: drop {[*step.drop]}, add {[*step.add]}"
        case Request(first, last):
            return f"request {first} to {last}"
        case Follow(version):
            return f"follow {version}"
        case Looked(fault):
            return "looked" if fault is None else f"looked: {fault}"
        case TableCondition():
            return "report"
        case Do():
            return step.value
    raise AssertionError(step)


def record_of(first: int, last: int, ended: int = 1) -> Any:
    """Return the record of a run of versions. ended: in s since the epoch."""
    run = SimpleNamespace(run_id="run-1", tags=run_tags("events", first, last))
    return SimpleNamespace(dagster_run=run, update_timestamp=datetime.fromtimestamp(ended, UTC))


def missed(first: int, last: int, *, ended: int = NOW, is_last_attempt: bool = True) -> MissedRun:
    """Return a run of the versions first to last that left them missing."""
    return MissedRun(
        record=record_of(first, last, ended), missing=range(first, last + 1), is_last_attempt=is_last_attempt
    )


NOTHING = ["looked", "say: No new commits in events."]
ALL_DONE = "say: All versions of events are materialized."
KEPT = "partitions: drop [], add []"
WAITS = (
    "say: Run run-1 of events failed or was canceled. The next commit, the schedule or the job `refresh_all_tables` "
    "materializes what is missing."
)
SILENT = TableRuns(silent=[record_of(0, 3)])
MISSING = Known(versions=VERSIONS, done=frozenset({0, 1}), table_id="g")
LOG_OF_TWO = (STATUS, stored(0, 1))
"""The log of four versions, two of which are stored."""
LOG_OF_FIVE = (LogStatus(table_id="g", latest=4, versions=(0, 1, 2, 3, 4)), stored(0, 1))
FAULT = "Version 2 is lost."
LOADABLE = Known(versions=(0, 1), done=frozenset({0, 1}), table_id="g")
STILL_BROKEN = [
    KEPT,
    "follow None",
    f"looked: {DAMAGE.text}",
    "report",
    f"say: All loadable versions of events are materialized. {DAMAGE.text}",
]
BROKEN_LOG = (LogStatus(table_id="g", latest=3, versions=(0, 1), condition=DAMAGE), stored(0, 1))
HOUR_AGO = Look(at_ms=NOW - LOOK_MS)
OLD_CHECKS = replace(DOCUMENT, checked_inputs="0" * 32)
UNEXAMINED = replace(DOCUMENT, examined_at_ms=NOW - EXAMINED_AGAIN_MS)


def listed(num_commits: int) -> tuple[LogStatus, Stored]:
    """Return the log of four versions, with a listing of so many commits."""
    listing: Any = SimpleNamespace(newest_checkpoint=None, commits=range(num_commits))
    return replace(STATUS, listing=listing), stored(*VERSIONS)


UNSHARED = "Run run-1 of events succeeded, but its versions are not in the store."

CASES: dict[str, tuple[Seen, list[str]]] = {
    "tick: nothing is new": (seen(), NOTHING),
    "tick: nothing was read since the last tick": (seen(look=Look(at_ms=NOW - 1), document=None), NOTHING[1:]),
    "tick: a run is in progress": (
        seen(fields={"runs": TableRuns(active="run-1")}),
        ["say: Run run-1 of events is in progress. The next run materializes the new commits."],
    ),
    "schedule: a run is in progress": (
        seen(Asked.SCHEDULE, fields={"runs": TableRuns(active="run-1")}),
        ["say: Run run-1 of events is in progress."],
    ),
    "tick: new commits": (
        seen(news=NEWS, log=(NEWS, None)),
        ["partitions: drop [], add [4]", "request 4 to 4", "follow 4"],
    ),
    "tick: new commits after a failed run": (
        seen(news=NEWS, log=LOG_OF_FIVE, known=MISSING, missed=missed(2, 3)),
        ["partitions: drop [], add [4]", "request 2 to 4", "follow 4"],
    ),
    "tick: a table that was never followed": (
        seen(fields={"cursor": None}, known=Known()),
        ["partitions: drop [], add [0, 1, 2, 3]", "request 0 to 3", "follow 3"],
    ),
    "tick: a failed run that the page does not show": (
        seen(fields={"runs": TableRuns(failed="run-1")}, failed=FAILED),
        ["examine"],
    ),
    "tick: a failed run that the page shows": (
        seen(fields={"runs": TableRuns(failed="run-1")}, failed=FAILED, page=Page(failed_run="run-1")),
        ["looked", WAITS],
    ),
    "tick: a run that may be dead": (
        seen(
            fields={"runs": SILENT},
            missed=missed(2, 3, is_last_attempt=False), known=MISSING, log=LOG_OF_TWO,
        ),
        [KEPT, "request 2 to 3", "follow 3"],
    ),
    "tick: a run that may be dead, and was repeated": (
        seen(fields={"runs": SILENT}, missed=missed(2, 3), known=MISSING),
        ["looked", WAITS.replace("failed or was canceled", "has written no event for ten minutes, and may be dead")],
    ),
    "tick: versions of a failed run, an hour later": (
        seen(missed=missed(0, 3), known=MISSING, log=LOG_OF_TWO, look=HOUR_AGO), ["looked", WAITS],
    ),
    "tick: a backlog waits after a failed run": (
        seen(fields={"table": ONE_AT_ONCE}, news=NEWS, log=LOG_OF_FIVE, known=MISSING, missed=missed(2, 3)),
        ["looked", WAITS],
    ),
    "tick: the latest version is not wanted yet": (
        seen(fields={"table": LATE, "cursor": None}, known=Known()),
        ["partitions: drop [], add []", "follow None", "looked", f"say: {LATE.why_none_wanted(3)}"],
    ),
    "tick: a table that is broken waits": (
        seen(look=Look(at_ms=NOW, fault=FAULT)), [f"say: events is broken: {FAULT} Next poll in 60 s."],
    ),
    "tick: a table that is still broken": (
        seen(look=Look(at_ms=NOW - BROKEN_MS, fault=FAULT), log=BROKEN_LOG, known=LOADABLE), STILL_BROKEN,
    ),
    "tick: a table that was repaired": (
        seen(look=Look(at_ms=NOW - BROKEN_MS, fault=FAULT), known=MISSING, log=LOG_OF_TWO),
        [KEPT, "request 2 to 3", "follow 3"],
    ),
    "tick: another process found the table broken": (
        seen(page=Page(is_unloadable=True, has_fault=True), log=BROKEN_LOG, known=LOADABLE), STILL_BROKEN,
    ),
    "tick: the store was lost": (
        seen(document=None, log=(STATUS, stored(3))),
        [KEPT, "request 0 to 2", "follow 2"],
    ),
    "tick: an examination is due": (seen(document=UNEXAMINED), ["examine", *NOTHING]),
    "tick: other settings of the checks": (seen(document=OLD_CHECKS), NOTHING),
    "tick: runs store their versions elsewhere": (seen(unshared=UNSHARED), ["looked", f"say: {UNSHARED}"]),
    "schedule: nothing is new": (seen(Asked.SCHEDULE), [KEPT, "report freshness", ALL_DONE]),
    "schedule: versions are missing": (
        seen(Asked.SCHEDULE, known=MISSING, log=LOG_OF_TWO, failed=FAILED), [KEPT, "request 2 to 3"],
    ),
    "schedule: runs store their versions elsewhere": (
        seen(Asked.SCHEDULE, log=(STATUS, stored(0)), unshared=UNSHARED),
        [KEPT, "report freshness", f"say: {UNSHARED}"],
    ),
    "schedule: the last run failed": (
        seen(Asked.SCHEDULE, failed=failed_run_problem("run-1", "x")),
        [KEPT, "examine", "report freshness", "request 3 to 3", ALL_DONE],
    ),
    "schedule: the page shows a fault": (
        seen(Asked.SCHEDULE, page=Page(has_fault=True)), [KEPT, "examine", "report freshness", ALL_DONE],
    ),
    "schedule: an examination is due": (
        seen(Asked.SCHEDULE, document=UNEXAMINED), [KEPT, "examine", "report freshness", ALL_DONE],
    ),
    "schedule: a fault of the log": (
        seen(Asked.SCHEDULE, fields={"examined": DAMAGE}), [KEPT, "report freshness", f"say: {DAMAGE.text}"],
    ),
    "schedule: commits were lost": (
        seen(Asked.SCHEDULE, log=(STATUS, stored(*VERSIONS, lost=VersionRanges(((4, 5),))))),
        [KEPT, "examine", "report freshness", ALL_DONE],
    ),
    "user: nothing is new": (seen(Asked.USER), [KEPT, ALL_DONE]),
    "user: a short log": (seen(Asked.USER, log=listed(2)), [KEPT, "examine", ALL_DONE]),
    "user: a long log": (seen(Asked.USER, log=listed(SHORT_LOG + 1)), [KEPT, ALL_DONE]),
    "user: versions are missing": (seen(Asked.USER, known=MISSING, log=LOG_OF_TWO), [KEPT, "request 2 to 3"]),
    "user: after all runs": (seen(Asked.USER, fields={"is_complete": True}), []),
    "user: after all runs, and one failed": (
        seen(Asked.USER, fields={"is_complete": True, "failure": FAILED}, failed=FAILED), ["examine"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_steps_follow_from_what_was_seen(case: str) -> None:
    table, expected = CASES[case]
    assert steps_of(table) == expected


STATES: dict[str, tuple[Seen, TableState]] = {
    "never followed": (seen(fields={"cursor": None}), TableState.NEW),
    "lost": (seen(document=None), TableState.NEW),
    "no new commits": (seen(), TableState.FOLLOWING),
    "new commits": (seen(news=NEWS), TableState.BEHIND),
    "read an hour ago": (seen(look=HOUR_AGO), TableState.BEHIND),
    "a run that may be dead": (
        seen(fields={"runs": SILENT}, missed=missed(0, 3, is_last_attempt=False)), TableState.RETRYING,
    ),
    "a fault": (seen(look=Look(at_ms=NOW, fault=FAULT)), TableState.BROKEN),
    "a fault on the page": (seen(page=Page(is_unloadable=True)), TableState.BROKEN),
    "a fault on the page, which was read": (
        seen(page=Page(is_unloadable=True), look=Look(at_ms=NOW - 1)), TableState.FOLLOWING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STATES)
def test_state_of_a_table_follows_from_what_was_seen(case: str) -> None:
    table, expected = STATES[case]
    assert state_of(table, NOW) is expected


@pytest.mark.parametrize(("committed_ms", "is_repeated"), [(5_001, True), (5_000, False), (None, False)])
def test_versions_of_a_failed_run_are_requested_for_a_newer_commit(committed_ms: int | None, is_repeated: bool) -> None:
    commits: Any = {} if committed_ms is None else {3: SimpleNamespace(modification_time=committed_ms)}
    status = LogStatus(table_id="g", latest=3, versions=VERSIONS, commits=commits)
    table = seen(missed=missed(2, 3, ended=5), known=MISSING, log=(status, stored(0, 1)), look=HOUR_AGO)
    assert ("request 2 to 3" in steps_of(table)) is is_repeated


@pytest.mark.parametrize(
    ("unloadable", "is_repeated"), [((0, 0), False), ((1, 1), True), ((2, 9), True), ((3, 3), False)]
)
def test_versions_that_failed_beside_a_lost_one_are_requested(unloadable: tuple[int, int], is_repeated: bool) -> None:
    damage = condition(fault(ProblemKind.CORRUPT_COMMIT, versions=VersionRanges((unloadable,))))
    status = LogStatus(table_id="g", latest=3, versions=(1, 2), condition=damage)
    known = Known(versions=(1, 2), table_id="g")
    table = seen(missed=missed(1, 2, ended=5), known=known, log=(status, stored(0)), look=HOUR_AGO)
    assert any(text.startswith("request") for text in steps_of(table)) is is_repeated


def test_failed_run_of_a_refresh_counts_before_earlier_ones() -> None:
    settings = Settings(tables=(TABLE,))
    table = Seen(settings=settings, table=TABLE, instance=cast(Any, None), asked=Asked.USER, failure=FAILED)
    assert table.failed is FAILED


INPUTS = inputs_of_checks(TABLE, "3.checkpoint")
DUE: dict[str, tuple[dict[str, Any], bool]] = {
    "checked": ({}, False),
    "checked before the newest version": ({"checked_version": 2}, True),
    "checked at a version that was rolled back": ({"checked_version": 4}, True),
    "never checked": ({"checked_version": None}, True),
    "checked with other settings": ({"checked_inputs": "0" * 32}, True),
    "checked before the last checkpoint": ({"checked_inputs": inputs_of_checks(TABLE, "2.checkpoint")}, True),
    "checked by an earlier release": ({"checked_inputs": None}, False),
    "facts of an earlier version": ({"polled_at_ms": HOUR_MS, "counted_files": counted(version=2).to_json()}, True),
    "facts of this hour": ({"polled_at_ms": HOUR_MS - 1, "counted_files": counted(version=2).to_json()}, False),
    "facts of the version": ({"polled_at_ms": HOUR_MS, "counted_files": counted(version=3).to_json()}, False),
    "facts of another release": ({"polled_at_ms": HOUR_MS, "counted_files": {"version": 2}}, False),
    "an error": ({"problems": (noted(severity="error"),)}, True),
    "a warning": ({"problems": (WARNING,)}, False),
    "an error of the log": ({"problems": (noted(LOG, "error"),)}, False),
}


@pytest.mark.parametrize("case", DUE)
def test_refresh_evaluates_checks_again_after_an_error_or_with_other_inputs(case: str) -> None:
    changed, is_due = DUE[case]
    poll = replace(DOCUMENT, **{"checked_inputs": INPUTS, **changed})
    listing: Any = SimpleNamespace(newest_checkpoint="3.checkpoint", commits=range(SHORT_LOG + 1))
    table = seen(Asked.USER, document=poll, log=(replace(STATUS, listing=listing), stored(*VERSIONS)))
    assert ("request 3 to 3" in steps_of(table)) is is_due
    assert "request 3 to 3" in steps_of(seen(Asked.USER, document=None))


@pytest.mark.parametrize(
    ("has_failed", "errors", "expected"),
    [
        (False, (), False), (True, (), True), (True, (RUN,), True), (False, (RUN,), False),
        (False, (ALL_CHECKS,), True), (True, (RUN, "small_files"), False),
    ],
)  # fmt: skip
def test_schedule_evaluates_checks_again_after_a_failed_run_unless_one_found_an_error(
    has_failed: bool, errors: tuple[str, ...], expected: bool
) -> None:
    poll = replace(DOCUMENT, problems=tuple(noted(check, "error") for check in errors))
    failed = failed_run_problem("run-1", "x") if has_failed else None
    assert ("request 3 to 3" in steps_of(seen(Asked.SCHEDULE, document=poll, failed=failed))) is expected


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


@pytest.mark.parametrize(("severity", "expected"), [("warning", [False, False, True]), ("error", [True] * 3)])
def test_log_with_warnings_is_read_hourly_and_one_with_errors_each_time(severity: Any, expected: list[bool]) -> None:
    problem = noted(LOG, severity)
    poll = LastPoll(polled_at_ms=0, examined_at_ms=0, problems=(problem,))
    assert [is_examination_due(poll, minutes * 60_000) for minutes in (0, 59, 60)] == expected


def test_damage_makes_a_checkpoint_unread_again(table: Table) -> None:
    actions = [protocol(), metadata(), add("0"), add("1")]
    (checkpoint,) = write_checkpoint(table.log, 1, "classic", actions)
    table.report()
    newest = log_of(table.table).list().newest_checkpoint
    assert is_checkpoint_sound(table.poll, newest)
    os.truncate(checkpoint, checkpoint.stat().st_size - 9)
    damaged = log_of(table.table).list().newest_checkpoint
    assert not is_checkpoint_sound(table.poll, damaged)
    table.report()
    assert not is_checkpoint_sound(table.poll, damaged)


@pytest.mark.parametrize(("examined_at_ms", "first"), [(None, 0), (0, 4)])
def test_only_an_examination_reads_commits_before_stored_versions(examined_at_ms: int | None, first: int) -> None:
    common = CommonVersion(version=3, latest_in_log=3, relation=LogRelation.SAME)
    stored = Stored(common=common, versions=frozenset({2, 3}))
    assert reads_of_tick(LastPoll(polled_at_ms=0, examined_at_ms=examined_at_ms), 0, stored).first == first
