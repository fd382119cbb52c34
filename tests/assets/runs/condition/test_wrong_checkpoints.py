"""Checkpoints that can be read, but contradict the commits that the store follows."""

from __future__ import annotations

import dagster as dg
import pytest

from deltasnap_assets.command import doctor
from deltasnap_assets.runs.condition.condition_report import report_condition
from deltasnap_assets.runs.condition.log_conditions import condition_now
from deltasnap_assets.runs.condition.poll_findings import LOG
from deltasnap_assets.runs.planning.known_table import last_observation
from deltasnap_assets.runs.stores import store_of
from deltasnap_core import ProblemKind, SnapshotStore
from deltasnap_core.errors import CorruptStoreError
from tests.assets.followed_table import EVENTS
from tests.assets.tables.checks.checks_alone_builders import LAST, Table, original, table
from tests.builders import add, metadata, protocol, remove
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint
from tests.thorough import one_in

__all__ = ["original", "table"]

AT = 4
EXPECTED = "The checkpoint of version 4 contradicts the stored version: "


def put_checkpoint(table: Table, num_files: int, version: int = AT, style: CheckpointStyle = "classic") -> None:
    actions = [protocol(), metadata(), *(add(f"{each}.parquet") for each in range(num_files))]
    write_checkpoint(table.log, version, style, [*actions, remove("x"), remove("y")])


def report(table: Table) -> None:
    condition = condition_now(table.settings, table.table)
    report_condition(table.instance, table.settings, table.table, condition)


@pytest.mark.parametrize("style", one_in(3, STYLES))
def test_checkpoint_with_other_files_than_the_stored_version_is_on_the_page_in_its_check_and_in_the_fleet(
    table: Table, style: CheckpointStyle
) -> None:
    put_checkpoint(table, 3, style=style)
    report(table)
    page = last_observation(table.instance, EVENTS)
    assert page is not None
    assert EXPECTED in str(page.metadata["health"].value)
    assert " has 3 files, the stored version has 5." in str(page.metadata["health"].value)
    (row,) = store_of(table.settings).fleet(["events"]).to_pylist()
    assert (row["condition"], EXPECTED in row["reason"]) == ("warned", True)
    result = table.check("readable_checkpoint")
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert str(result.description).startswith(EXPECTED)


@pytest.mark.parametrize("style", one_in(3, STYLES))
def test_checkpoint_with_the_files_of_the_stored_version_is_sound(table: Table, style: CheckpointStyle) -> None:
    put_checkpoint(table, AT + 1, style=style)
    assert condition_now(table.settings, table.table).without(ProblemKind.WRONG_CHECKSUM).faults == ()
    name = min(path.name for path in table.log.glob("*.checkpoint*"))
    described = [str(table.check("readable_checkpoint").description) for _ in range(2)]
    assert described == [
        f"Every page of {name} is readable.",
        f"Every page of {name} was readable, and has not changed since then.",
    ]


@pytest.mark.slow
def test_wrong_checkpoint_fails_each_run_until_it_is_replaced(table: Table) -> None:
    put_checkpoint(table, AT)
    results = [table.check("readable_checkpoint") for _ in range(2)]
    put_checkpoint(table, LAST + 1, version=LAST)
    results.append(table.check("readable_checkpoint"))
    assert [result.passed for result in results] == [False, False, True]
    assert not [problem for problem in table.poll.problems if problem.check == LOG]


def test_doctor_shows_a_recorded_wrong_checkpoint_until_it_is_replaced(table: Table) -> None:
    put_checkpoint(table, 3)
    report(table)
    finding = doctor._table(table.settings, table.table)
    assert (finding.mark, EXPECTED in finding.message) == ("warning", True)
    assert finding.condition is not None
    assert finding.condition.faults_of(ProblemKind.WRONG_CHECKPOINT)
    put_checkpoint(table, LAST + 1, version=LAST)
    assert EXPECTED not in doctor._table(table.settings, table.table).message


def test_doctor_shows_recorded_lost_versions_until_a_commit_is_added(table: Table) -> None:
    table.commit(LAST).unlink()
    condition = condition_now(table.settings, table.table)
    assert condition.faults_of(ProblemKind.LOST_VERSIONS)
    report_condition(table.instance, table.settings, table.table, condition)
    assert condition.text in doctor._table(table.settings, table.table).message
    table.write(LAST, LAST)
    assert doctor._table(table.settings, table.table).mark == "ok"


def test_checkpoint_of_a_version_that_is_not_stored_is_not_compared(table: Table) -> None:
    table.write(LAST + 1, LAST + 1)
    put_checkpoint(table, 1, version=LAST + 1)
    assert table.check("readable_checkpoint").passed


def test_damaged_store_does_not_hide_the_faults_of_the_log(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> None:
        raise CorruptStoreError(path="manifest", reason="expected JSON")

    put_checkpoint(table, 3)
    (table.log / "_last_checkpoint").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(SnapshotStore, "computed_state", damaged)
    found = condition_now(table.settings, table.table).without(ProblemKind.WRONG_CHECKSUM)
    assert [fault.kind for fault in found.faults] == [ProblemKind.BROKEN_HINT]
