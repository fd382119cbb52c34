"""What is decided about a table that was seen: a table of `seen -> steps`, from plain values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from deltasnap_assets.quantities import DAY_MS, HOUR_MS
from deltasnap_assets.runs.condition.fault_texts import failed_run_problem
from deltasnap_assets.runs.decide import (
    LOOK_MS,
    Break,
    Examine,
    Follow,
    Looked,
    Record,
    Report,
    ReportFreshness,
    Request,
    Say,
    SetPartitions,
    Step,
    TableState,
    Wait,
    decide,
    state_of,
)
from deltasnap_assets.runs.due import digest_of_settings
from deltasnap_assets.runs.observe import Asked, Page, Seen, TableRuns
from deltasnap_assets.runs.planning.names import CHECKS_TAG, run_tags
from deltasnap_assets.runs.planning.plan import Known, Stored
from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_assets.runs.table_runs import SilentRun
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import LogCursor, LogStatus, ProblemKind, VersionRanges
from deltasnap_core.support import CommonVersion, LastPoll, LogPoll, LogRelation, ManifestName
from tests.assets.checks.known import condition, fault
from tests.assets.jobs import idle_job

NOW = 100 * DAY_MS
TABLE = TableSettings(name="events", path="/lake/events")
VERSIONS = (0, 1, 2, 3)
FOLLOWED = LogCursor(table_id="g", version=3)
STATUS = LogStatus(table_id="g", latest=3, versions=VERSIONS)
DONE = Known(versions=VERSIONS, done=frozenset(VERSIONS), table_id="g")
DOCUMENT = LastPoll(
    polled_at_ms=NOW, examined_at_ms=NOW, latest_version=3, checked_version=3, examined_checkpoint="3.checkpoint"
)
IDLE = LogPoll(status=None, checkpoint="3.checkpoint")
NEWS = LogPoll(status=LogStatus(table_id="g", latest=4, versions=(4,)), checkpoint=None)
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
    values: dict[str, Any] = {"asked": asked, "state": SensorState(cursor=FOLLOWED.to_text()), **(fields or {})}
    found = Seen(settings=Settings(tables=(TABLE,)), table=TABLE, instance=cast(Any, None), **values)
    known: dict[str, Any] = {
        "news": IDLE,
        "page": Page(),
        "known": DONE,
        "document": DOCUMENT,
        "log": (STATUS, stored(*VERSIONS)),
        "failed": None,
        "silent": None,
        "last_failed": None,
        "last_for_checks": None,
        "unshared": None,
        "looked_ms": None,
        "page_read_ms": NOW,
        "is_examined_now": False,
    }
    return found.given(**{**known, **parts})


def steps_of(table: Seen, now_ms: int = NOW) -> list[str]:
    """Return the steps, without those that only record what a poll saw, as short texts."""
    return [text_of(step) for step in decide(table, now_ms) if not isinstance(step, Record | Looked)]


def text_of(step: Step) -> str:
    match step:
        case Wait(text) | Say(text):
            return f"{type(step).__name__.lower()}: {text}"
        case SetPartitions(plan):
            return f"partitions: drop {[*plan.drop]}, add {[*plan.add]}"
        case Request(first, last, checks):
            return f"request {first} to {last}" + (" for the checks" if checks else "")
        case Follow(version):
            return f"follow {version}"
        case Examine(what, is_brief):
            return f"examine {what.value}" + ("" if is_brief else " now")
        case Break():
            return "break"
        case Report() | ReportFreshness():
            return type(step).__name__
    raise AssertionError(step)


def record_of(first: int, last: int, ended: int = 1) -> Any:
    """Return the record of a run of versions. ended: in s since the epoch."""
    run = SimpleNamespace(run_id="run-1", tags=run_tags("events", first, last))
    return SimpleNamespace(dagster_run=run, update_timestamp=datetime.fromtimestamp(ended, UTC))


def silent(*, was_repeated: bool) -> SilentRun:
    return SilentRun(record=record_of(0, 3), was_repeated=was_repeated)


NOTHING = "say: No new commits in events."
ALL_DONE = "say: All versions of events are materialized."
KEPT = "partitions: drop [], add []"
WAITS = (
    "say: Run run-1 of events failed or was canceled. The next commit, the schedule or the job `refresh_all_tables` "
    "materializes what is missing."
)
MISSING = Known(versions=VERSIONS, done=frozenset({0, 1}), table_id="g")
BROKEN = SensorState(cursor=FOLLOWED.to_text(), fault="Version 2 is lost.", polls=1, next_poll=NOW / 1000 + 60)
LOADABLE = Known(versions=(0, 1), done=frozenset({0, 1}), table_id="g")
STILL_BROKEN = [
    KEPT,
    "follow None",
    "Report",
    "break",
    f"say: All loadable versions of events are materialized. {DAMAGE.text}",
]
BROKEN_LOG = (LogStatus(table_id="g", latest=3, versions=(0, 1), condition=DAMAGE), stored(0, 1))
OLD_CHECKS = LastPoll(
    polled_at_ms=NOW,
    examined_at_ms=NOW,
    latest_version=3,
    checked_version=3,
    examined_checkpoint="3.checkpoint",
    checked_inputs="0" * 32,
)
CHECKED = dg.DagsterRun(
    job_name=idle_job.name, tags={CHECKS_TAG: digest_of_settings(TABLE)}, status=dg.DagsterRunStatus.SUCCESS
)
UNEXAMINED = LastPoll(polled_at_ms=NOW, latest_version=3, checked_version=3)

CASES: dict[str, tuple[Seen, list[str]]] = {
    "tick: nothing is new": (seen(), [NOTHING]),
    "tick: a run is in progress": (
        seen(fields={"runs": TableRuns(active="run-1")}),
        ["wait: Run run-1 of events is in progress. The next run materializes the new commits."],
    ),
    "schedule: a run is in progress": (
        seen(Asked.SCHEDULE, fields={"runs": TableRuns(active="run-1")}),
        ["wait: Run run-1 of events is in progress."],
    ),
    "tick: new commits": (
        seen(news=NEWS, log=(NEWS.status, None)),
        ["partitions: drop [], add [4]", "request 4 to 4", "follow 4"],
    ),
    "tick: a table that was never followed": (
        seen(fields={"state": SensorState()}, news=None, known=Known()),
        ["partitions: drop [], add [0, 1, 2, 3]", "request 0 to 3", "follow 3"],
    ),
    "tick: a failed run that the page does not show": (
        seen(fields={"runs": TableRuns(failed="run-1")}, failed=FAILED),
        ["examine whole log now"],
    ),
    "tick: a failed run that the page shows": (
        seen(fields={"runs": TableRuns(failed="run-1")}, failed=FAILED, page=Page(failed_run="run-1")),
        [WAITS],
    ),
    "tick: a run that may be dead": (
        seen(silent=silent(was_repeated=False), known=MISSING, log=(STATUS, stored(0, 1))),
        [KEPT, "request 2 to 3", "follow 3"],
    ),
    "tick: a run that may be dead, and was repeated": (
        seen(silent=silent(was_repeated=True), known=MISSING),
        [WAITS.replace("failed or was canceled", "has written no event for ten minutes, and may be dead")],
    ),
    "tick: versions of a failed run, an hour later": (
        seen(last_failed=record_of(0, 3, NOW), known=MISSING, log=(STATUS, stored(0, 1)), looked_ms=NOW - LOOK_MS),
        [WAITS],
    ),
    "tick: a table that is broken waits": (
        seen(fields={"state": BROKEN}, page=Page(is_unloadable=True, has_fault=True)),
        ["wait: events is broken: Version 2 is lost. Next poll in 60 s."],
    ),
    "tick: a table that is still broken": (
        seen(fields={"state": BROKEN}, log=BROKEN_LOG, known=LOADABLE), STILL_BROKEN,
    ),
    "tick: a table that was repaired": (
        seen(fields={"state": BROKEN}, known=MISSING, log=(STATUS, stored(0, 1))),
        [KEPT, "request 2 to 3", "follow 3"],
    ),
    "tick: another process found the table broken": (
        seen(page=Page(is_unloadable=True, has_fault=True), page_read_ms=None, log=BROKEN_LOG, known=LOADABLE),
        STILL_BROKEN,
    ),
    "tick: the store was lost": (
        seen(document=None, log=(STATUS, stored(3))),
        [KEPT, "request 0 to 2", "follow 2"],
    ),
    "tick: an examination is due": (seen(document=UNEXAMINED), ["examine whole log", NOTHING]),
    "tick: an examination is in progress": (
        seen(looked_ms=NOW, is_examined_now=True), ["examine whole log", NOTHING],
    ),
    "tick: a new checkpoint": (
        seen(news=LogPoll(status=None, checkpoint="3.new")), ["examine new checkpoint", NOTHING],
    ),
    "tick: nothing was read since the last tick": (seen(looked_ms=NOW, document=None), [NOTHING]),
    "tick: other settings of the checks": (seen(document=OLD_CHECKS), ["request 3 to 3 for the checks", NOTHING]),
    "tick: checks that were requested": (seen(document=OLD_CHECKS, last_for_checks=CHECKED), [NOTHING]),
    "schedule: nothing is new": (seen(Asked.SCHEDULE), [KEPT, "ReportFreshness", ALL_DONE]),
    "schedule: versions are missing": (
        seen(Asked.SCHEDULE, known=MISSING, log=(STATUS, stored(0, 1)), failed=FAILED), [KEPT, "request 2 to 3"],
    ),
    "schedule: the last run failed": (
        seen(Asked.SCHEDULE, failed=failed_run_problem("run-1", "x")),
        [KEPT, "examine whole log", "ReportFreshness", "request 3 to 3 for the checks", ALL_DONE],
    ),
    "schedule: a fault of the log": (
        seen(Asked.SCHEDULE, fields={"examined": DAMAGE}), [KEPT, "ReportFreshness", f"say: {DAMAGE.text}"],
    ),
    "schedule: other settings of the checks": (
        seen(Asked.SCHEDULE, document=OLD_CHECKS), [KEPT, "ReportFreshness", "request 3 to 3 for the checks", ALL_DONE],
    ),
    "schedule: checks that were requested": (
        seen(Asked.SCHEDULE, document=OLD_CHECKS, last_for_checks=CHECKED), [KEPT, "ReportFreshness", ALL_DONE],
    ),
    "schedule: commits were lost": (
        seen(Asked.SCHEDULE, log=(STATUS, stored(*VERSIONS, lost=VersionRanges(((4, 5),))))),
        [KEPT, "examine whole log", "ReportFreshness", ALL_DONE],
    ),
    "user: nothing is new": (seen(Asked.USER), [KEPT, ALL_DONE]),
    "user: versions are missing": (
        seen(Asked.USER, known=MISSING, log=(STATUS, stored(0, 1))), [KEPT, "request 2 to 3"],
    ),
    "user: other settings of the checks": (
        seen(Asked.USER, document=OLD_CHECKS, last_for_checks=CHECKED),
        [KEPT, "request 3 to 3 for the checks", ALL_DONE],
    ),
    "user: after all runs": (seen(Asked.USER, fields={"is_complete": True}), []),
    "user: after all runs, and one failed": (
        seen(Asked.USER, fields={"is_complete": True, "failure": FAILED}), ["examine whole log now"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_steps_follow_from_what_was_seen(case: str) -> None:
    table, expected = CASES[case]
    assert steps_of(table) == expected


STATES: dict[str, tuple[Seen, TableState]] = {
    "never followed": (seen(fields={"state": SensorState()}, news=None), TableState.NEW),
    "lost": (seen(document=None), TableState.NEW),
    "no new commits": (seen(), TableState.FOLLOWING),
    "new commits": (seen(news=NEWS), TableState.BEHIND),
    "read an hour ago": (seen(looked_ms=NOW - HOUR_MS), TableState.BEHIND),
    "a run that may be dead": (seen(silent=silent(was_repeated=False)), TableState.RETRYING),
    "a fault": (seen(fields={"state": BROKEN}), TableState.BROKEN),
    "a fault on the page": (seen(page=Page(is_unloadable=True), page_read_ms=None), TableState.BROKEN),
    "a fault on the page, which was read": (
        seen(page=Page(is_unloadable=True), page_read_ms=NOW - 1), TableState.FOLLOWING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", STATES)
def test_state_of_a_table_follows_from_what_was_seen(case: str) -> None:
    table, expected = STATES[case]
    assert state_of(table, NOW) is expected


@pytest.mark.parametrize(("committed_ms", "is_repeated"), [(5_001, True), (5_000, False), (None, False)])
def test_versions_of_a_failed_run_are_requested_again_for_a_newer_commit(
    committed_ms: int | None, is_repeated: bool
) -> None:
    commits: Any = {} if committed_ms is None else {3: SimpleNamespace(modification_time=committed_ms)}
    status = LogStatus(table_id="g", latest=3, versions=VERSIONS, commits=commits)
    table = seen(last_failed=record_of(2, 3, 5), known=MISSING, log=(status, stored(0, 1)), looked_ms=NOW - LOOK_MS)
    assert ("request 2 to 3" in steps_of(table)) is is_repeated


@pytest.mark.parametrize(
    ("unloadable", "is_repeated"), [((0, 0), False), ((1, 1), True), ((2, 9), True), ((3, 3), False)]
)
def test_versions_that_failed_beside_one_that_cannot_be_loaded_are_requested_again(
    unloadable: tuple[int, int], is_repeated: bool
) -> None:
    damage = condition(fault(ProblemKind.CORRUPT_COMMIT, versions=VersionRanges((unloadable,))))
    status = LogStatus(table_id="g", latest=3, versions=(1, 2), condition=damage)
    known = Known(versions=(1, 2), table_id="g")
    table = seen(last_failed=record_of(1, 2, 5), known=known, log=(status, stored(0)), looked_ms=NOW - LOOK_MS)
    assert any(text.startswith("request") for text in steps_of(table)) is is_repeated


def test_failed_run_of_a_refresh_counts_before_earlier_ones() -> None:
    settings = Settings(tables=(TABLE,))
    table = Seen(settings=settings, table=TABLE, instance=cast(Any, None), asked=Asked.USER, failure=FAILED)
    assert table.failed is FAILED
