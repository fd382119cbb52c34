"""The polls of a table whose log is damaged: an error once, then a problem that is shown before other messages."""

from __future__ import annotations

import time
from pathlib import Path

import dagster as dg
import pytest

from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_assets.runs.table_polls import TablePolls
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError
from tests.assets.runs.test_sensors import write


def test_table_that_stays_broken_is_a_problem_while_it_waits_and_after_each_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableSettings(name="events", path=str(tmp_path / "events"))
    settings = Settings(storage=str(tmp_path / "store"), tables=(table,))
    write(tmp_path / "events", 0, 2)
    (tmp_path / "events" / "_delta_log" / f"{0:020d}.json").write_bytes(b"{no json")
    instance = dg.DagsterInstance.ephemeral()
    with pytest.raises(DeltaSnapError, match="line 1"):
        TablePolls.of(settings, [table], instance).poll(table, None)
    again = TablePolls.of(settings, [table], instance).poll(table, None)
    assert (again.is_problem, again.requests) == (True, ())
    assert again.message.startswith("events is still broken: ")
    waiting = TablePolls.of(settings, [table], instance).poll(table, again.cursor)
    assert (waiting.is_problem, waiting.cursor) == (True, again.cursor)
    assert waiting.message.startswith("events is broken: ")
    later = SensorState.from_text(again.cursor).next_poll + 1
    monkeypatch.setattr(time, "time", lambda: later)
    after = TablePolls.of(settings, [table], instance).poll(table, again.cursor)
    assert (after.is_problem, SensorState.from_text(after.cursor).polls) == (True, 2)
