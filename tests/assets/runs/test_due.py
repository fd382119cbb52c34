"""When a log is read for faults and checks are evaluated again follows from what was seen and recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from deltasnap_assets.runs.condition.poll_findings import LOG
from deltasnap_assets.runs.due import (
    is_checkpoint_sound,
    is_examination_due,
    reads_of_tick,
)
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core.support import CommonVersion, LastPoll, LogRelation
from tests.assets.runs.condition.poll_records_builders import Table, noted
from tests.builders import add, metadata, protocol
from tests.checkpoint_files import write_checkpoint

TABLE = TableSettings(name="events", path="/lake")


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
def test_only_an_examination_reads_commits_before_the_first_stored_version(
    examined_at_ms: int | None, first: int
) -> None:
    common = CommonVersion(version=3, latest_in_log=3, relation=LogRelation.SAME)
    stored = Stored(common=common, versions=frozenset({2, 3}))
    assert reads_of_tick(LastPoll(polled_at_ms=0, examined_at_ms=examined_at_ms), 0, stored).first == first
