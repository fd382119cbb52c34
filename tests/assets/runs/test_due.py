"""When a log is read for faults and checks are evaluated again follows from what was seen and recorded."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_assets.quantities import HOUR_MS
from deltasnap_assets.runs.condition.poll_findings import ALL_CHECKS, LOG, RUN
from deltasnap_assets.runs.due import (
    EXAMINED_AGAIN_MS,
    Examination,
    are_checks_due,
    examination_without_run,
    has_new_checkpoint,
    inputs_of_checks,
    is_checkpoint_sound,
    is_examination_due,
    reads_of_tick,
)
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.config import TableSettings
from deltasnap_core import LogStatus, ProblemKind, VersionRanges
from deltasnap_core.support import CommonVersion, LastPoll, LogRelation
from tests.assets.checks.known import condition, counted, fault
from tests.assets.runs.condition.poll_records_builders import WARNING, Table, noted
from tests.builders import add, metadata, protocol
from tests.checkpoint_files import write_checkpoint

TABLE = TableSettings(name="events", path="/lake")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


DUE: dict[str, tuple[dict[str, Any], bool]] = {
    "checked": ({}, False),
    "checked before the newest version": ({"checked_version": 1}, True),
    "checked at a later version": ({"checked_version": 3}, False),
    "checked at a version that was rolled back": ({"checked_version": 4}, True),
    "never checked": ({"checked_version": None}, True),
    "checked with other settings": ({"checked_inputs": "0" * 32}, True),
    "checked by an earlier release": ({"checked_inputs": None}, False),
    "facts of an earlier version": ({"polled_at_ms": HOUR_MS, "counted_files": counted(version=1).to_json()}, True),
    "facts of this hour": ({"polled_at_ms": HOUR_MS - 1, "counted_files": counted(version=1).to_json()}, False),
    "facts of the version": ({"polled_at_ms": HOUR_MS, "counted_files": counted(version=2).to_json()}, False),
    "facts of another release": ({"polled_at_ms": HOUR_MS, "counted_files": {"version": 1}}, False),
    "an error": ({"problems": (noted(severity="error"),)}, True),
    "a warning": ({"problems": (WARNING,)}, False),
    "an error of the log": ({"problems": (noted(LOG, "error"),)}, False),
}


@pytest.mark.parametrize("case", DUE)
def test_checks_are_due_after_an_error_or_with_other_inputs(case: str) -> None:
    changed, is_due = DUE[case]
    inputs = inputs_of_checks(TABLE, "7.checkpoint.parquet")
    poll = LastPoll(**{"polled_at_ms": 1, "checked_version": 2, "checked_inputs": inputs, **changed})

    def are_due(poll: LastPoll | None, checkpoint: str | None = "7.checkpoint.parquet") -> bool:
        return are_checks_due(poll, TABLE, 2, 3, checkpoint, has_failed=False, is_requested=True)

    assert are_due(None)
    assert are_due(poll) == is_due
    assert are_due(poll, None) == (is_due or case != "checked by an earlier release")


@pytest.mark.parametrize(
    ("has_failed", "errors", "expected"),
    [
        (False, (), False), (True, (), True), (True, (RUN,), True), (False, (RUN,), False),
        (False, (ALL_CHECKS,), True), (True, (RUN, "small_files"), False),
    ],
)  # fmt: skip
def test_tick_evaluates_checks_again_after_a_failed_run_unless_one_found_an_error(
    has_failed: bool, errors: tuple[str, ...], expected: bool
) -> None:
    problems = tuple(noted(check, "error") for check in errors)
    poll = LastPoll(polled_at_ms=1, checked_version=2, problems=problems)
    assert are_checks_due(poll, TABLE, 2, 2, None, has_failed=has_failed, is_requested=False) is expected


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
    assert not has_new_checkpoint(table.poll, damaged)


EXAMINATIONS: dict[str, tuple[dict[str, Any], Examination | None]] = {
    "nothing is new": ({}, None),
    "the last run failed": ({"is_suspect": True}, Examination.WHOLE_LOG),
    "the poll found a fault": ({"condition": condition(fault(ProblemKind.EMPTY_COMMIT))}, Examination.WHOLE_LOG),
    "the log lost versions": ({"lost": VersionRanges(((3, 4),))}, Examination.WHOLE_LOG),
    "a user waits": ({"is_requested": True}, Examination.WHOLE_LOG),
    "a day ago": ({"examined_at_ms": -EXAMINED_AGAIN_MS}, Examination.WHOLE_LOG),
    "a new checkpoint": ({"examined_checkpoint": None}, Examination.NEW_CHECKPOINT),
}


@pytest.mark.parametrize("case", EXAMINATIONS)
def test_log_is_examined_without_a_run_only_for_a_reason(case: str) -> None:
    changed, expected = EXAMINATIONS[case]
    values: dict[str, Any] = {"examined_at_ms": 0, "examined_checkpoint": "7", "condition": None, **changed}
    poll = LastPoll(polled_at_ms=0, **{name: values[name] for name in ("examined_at_ms", "examined_checkpoint")})
    listing: Any = SimpleNamespace(newest_checkpoint="7", commits={})
    status = LogStatus(table_id="g", latest=2, versions=(0, 1, 2), listing=listing, condition=values["condition"])
    lost = values.get("lost", VersionRanges())
    common = CommonVersion(version=2, latest_in_log=2, relation=LogRelation.SAME, lost=lost)
    stored = Stored(common=common, versions=frozenset(range(3)))
    asked = {name: values.get(name, False) for name in ("is_suspect", "is_requested")}
    assert examination_without_run(poll, 0, status, stored, **asked) is expected


@pytest.mark.parametrize(("examined_at_ms", "first"), [(None, 0), (0, 4)])
def test_only_an_examination_reads_commits_before_the_first_stored_version(
    examined_at_ms: int | None, first: int
) -> None:
    common = CommonVersion(version=3, latest_in_log=3, relation=LogRelation.SAME)
    stored = Stored(common=common, versions=frozenset({2, 3}))
    assert reads_of_tick(LastPoll(polled_at_ms=0, examined_at_ms=examined_at_ms), 0, stored).first == first
