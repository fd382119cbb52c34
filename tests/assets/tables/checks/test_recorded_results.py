"""The record of a run's checks in the store."""

from __future__ import annotations

import os
from typing import Any

import pytest

from deltasnap_assets.checks.check import AnyCheck, Verdict
from deltasnap_assets.checks.registry import CHECKPOINT_LAG, EXPIRED_TOMBSTONES
from deltasnap_assets.runs.condition.poll_findings import VERSIONS, PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.tables.checks.recorded_results import record_table_checks
from deltasnap_assets.tables.run_conditions import RunConditions
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import Problem
from deltasnap_core.errors import StorageError
from deltasnap_core.support import LastPoll
from tests.assets.jobs import idle_job
from tests.assets.tables.checks.checks_alone_builders import LAST, Table, original, table
from tests.builders import mtime_of

__all__ = ["original", "table"]

WARNED = CHECKPOINT_LAG, Verdict(passed=False, description="Late.", advice="Write one.")
PROBLEM = Problem.of_check(check="checkpoint_lag", severity="warning", text="Late.", advice="Write one.")


def recorded(
    table: Table, *verdicts: tuple[AnyCheck, Verdict], ended: tuple[str, ...] = (), are_all: bool = False
) -> LastPoll:
    no_session: Any = None
    run = table.instance.create_run_for_job(idle_job)
    snapshots = RunSnapshots(table.settings, no_session)
    record_table_checks(snapshots, table.table, dict(verdicts), run, ended=ended, are_all=are_all, ends_failure=True)
    return table.poll


def test_results_are_those_of_the_newest_stored_version(table: Table) -> None:
    vacuum = EXPIRED_TOMBSTONES, Verdict(passed=True, description="Few.", numbers={"expired_bytes": 7})
    table.write(LAST + 1, LAST + 1)
    found = recorded(table, WARNED)
    assert (found.latest_version, found.checked_version, found.facts_version) == (LAST + 1, None, None)
    found = recorded(table, vacuum, are_all=True)
    assert (found.checked_version, found.facts_version, found.vacuum_bytes) == (LAST, LAST, 7)
    assert found.time_travel_bytes == 0  # no file was removed


def test_last_commit_has_its_stored_time_and_before_that_the_time_of_its_file(table: Table) -> None:
    os.utime(table.commit(LAST), (1, 1))
    assert recorded(table).last_commit_ms == mtime_of(LAST)
    table.write(LAST + 1, LAST + 1)
    assert recorded(table).last_commit_ms == mtime_of(LAST + 1)


def test_log_without_versions_has_no_last_commit(table: Table) -> None:
    for commit in (table.log).glob("*.json"):
        commit.unlink()
    found = recorded(table)
    assert (found.latest_version, found.last_commit_ms) == (None, None)


def test_problem_of_a_check_that_was_not_evaluated_ends_if_nothing_is_wrong(table: Table) -> None:
    assert recorded(table, WARNED).problems == (PROBLEM,)
    assert recorded(table).problems == (PROBLEM,)
    assert recorded(table, ended=("checkpoint_lag",)).problems == ()


def test_run_without_versions_does_not_end_the_problem_that_none_is_selected(table: Table) -> None:
    none = Problem.of_check(check=VERSIONS, severity="warning", text="None is selected.")
    record(table.store, table.table, PollFindings(problems={VERSIONS: (none,)}))
    assert recorded(table).problems == (none,)


def test_condition_that_cannot_be_read_is_an_error_until_the_next_run(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageError(path="s3://lake/events", reason="denied\x1b[1m")

    with monkeypatch.context() as denied:
        denied.setattr(RunConditions, "of", refuse)
        found = recorded(table, WARNED)
    assert {(each.check, each.severity) for each in found.problems} == {
        ("checkpoint_lag", "warning"),
        ("checks", "error"),
    }
    (error,) = (each for each in found.problems if each.severity == "error")
    assert "denied" in error.text
    assert "\x1b" not in error.text
    assert recorded(table).problems == (PROBLEM,)
