"""Questions about a table are answered from its last recorded poll."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.runs.condition import poll_records, recorded_polls
from deltasnap_assets.runs.condition.poll_findings import LOG, PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.condition.recorded_polls import (
    are_checks_due,
    has_new_checkpoint,
    inputs_of_checks,
    is_checkpoint_sound,
    is_examination_due,
    look_for_new_checkpoint,
)
from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import LastPoll, LastPolls, StorageError, system_clock
from tests.assets.runs.test_poll_records import WARNING, Table
from tests.builders import add, metadata, protocol
from tests.checkpoint_files import write_checkpoint


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


DUE: dict[str, tuple[dict[str, Any], bool]] = {
    "checked": ({}, False),
    "checked before the newest version": ({"checked_version": 1}, True),
    "never checked": ({"checked_version": None}, True),
    "checked with other settings": ({"checked_inputs": "0" * 32}, True),
    "checked by an earlier release": ({"checked_inputs": None}, False),
    "an error": ({"problems": (replace(WARNING, severity="error"),)}, True),
    "a warning": ({"problems": (WARNING,)}, False),
    "an error of the log": ({"problems": (replace(WARNING, severity="error", check=LOG),)}, False),
}


@pytest.mark.parametrize("case", DUE)
def test_checks_are_due_after_an_error_or_with_other_inputs(case: str, table: Table) -> None:
    changed, is_due = DUE[case]
    inputs = inputs_of_checks(table.table, "7.checkpoint.parquet")
    poll = LastPoll(**{"polled_at_ms": 1, "checked_version": 2, "checked_inputs": inputs, **changed})

    def are_due(checkpoint: str | None) -> bool:
        return are_checks_due(table.store, table.table, 2, checkpoint, has_failed=False, is_requested=True)

    assert are_due("7.checkpoint.parquet")
    table.store.polls.write("events", poll)
    assert are_due("7.checkpoint.parquet") == is_due
    if case == "checked":
        assert are_due(None)


def test_log_with_warnings_is_read_hourly_and_one_with_errors_each_time(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = system_clock()
    for severity in ("warning", "error"):
        monkeypatch.setattr(poll_records, "system_clock", lambda: now)
        problem = replace(WARNING, check=LOG, severity=severity)
        record(table.store, table.table, PollFindings(problems={LOG: (problem,)}, is_examined=True))
        due = []
        for minutes in (0, 59, 60):
            monkeypatch.setattr(recorded_polls, "system_clock", lambda later=now + minutes * 60_000: later)
            due.append(is_examination_due(table.store, "events"))
        assert due == ([False, False, True] if severity == "warning" else [True, True, True])


def test_damage_makes_a_checkpoint_unread_again(table: Table) -> None:
    actions = [protocol(), metadata(), add("0"), add("1")]
    (checkpoint,) = write_checkpoint(table.log, 1, "classic", actions)
    table.report()
    newest = log_of(table.table).list().newest_checkpoint
    assert is_checkpoint_sound(table.store, "events", newest)
    os.truncate(checkpoint, checkpoint.stat().st_size - 9)
    damaged = log_of(table.table).list().newest_checkpoint
    assert not is_checkpoint_sound(table.store, "events", damaged)
    table.report()
    assert not is_checkpoint_sound(table.store, "events", damaged)
    assert not has_new_checkpoint(table.store, "events", damaged)


def test_table_whose_store_fails_is_not_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise StorageError(path="store", reason="timeout")

    table = TableSettings(name="events", path=str(tmp_path / "t"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    assert is_examination_due(store_of(settings), "events")
    with monkeypatch.context() as outage:
        outage.setattr(LastPolls, "read", fail)
        assert not is_examination_due(store_of(settings), "events")
        assert not look_for_new_checkpoint(settings, table, "4.checkpoint.parquet")
    assert not look_for_new_checkpoint(settings, table, None)
    assert look_for_new_checkpoint(settings, table, "4.checkpoint.parquet")
