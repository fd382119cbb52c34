"""What a process did last for a table is remembered by its time and its value."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from deltasnap_assets.runs.condition import reminders
from deltasnap_assets.runs.condition.reminders import Reminders
from deltasnap_assets.settings.config import Settings, TableSettings

EVENTS, CLICKS = (TableSettings(name=name, path="/lake") for name in ("events", "clicks"))
SETTINGS, OTHER = (Settings(storage=storage, tables=(EVENTS, CLICKS)) for storage in ("/store", "/other"))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which a test may change."""
    times = [1_000.0]
    monkeypatch.setattr(reminders, "time", SimpleNamespace(monotonic=lambda: times[0]))
    return times


def test_what_was_done_is_due_again_after_a_time_or_with_another_value(now: list[float]) -> None:
    done = Reminders()
    assert done.is_due("poll", SETTINGS, EVENTS, seconds=60, value=7)
    done.restart("poll", SETTINGS, EVENTS, 7)
    due = []
    for now[0] in (1_000.0, 1_059.9, 1_060.0):
        due.append(done.is_due("poll", SETTINGS, EVENTS, seconds=60, value=7))
    assert due == [False, False, True]
    assert not done.is_due("poll", SETTINGS, EVENTS, value=7)
    assert done.is_due("poll", SETTINGS, EVENTS, value=8)
    assert done.is_due("poll", SETTINGS, EVENTS)


def test_tables_stores_and_actions_are_remembered_separately(now: list[float]) -> None:
    done = Reminders()
    done.restart("poll", SETTINGS, EVENTS)
    assert not done.is_due("poll", SETTINGS, EVENTS)
    assert done.is_due("poll", SETTINGS, CLICKS)
    assert done.is_due("poll", OTHER, EVENTS)
    assert done.is_due("examination", SETTINGS, EVENTS)


@pytest.mark.parametrize(("waits_first", "expected"), [(False, [True, False, True]), (True, [False, False, True])])
def test_what_is_due_is_due_once(waits_first: bool, expected: list[bool], now: list[float]) -> None:
    done, found = Reminders(), []
    for now[0] in (1_000.0, 1_059.0, 1_060.0):
        found.append(done.restart_if_due("broken", SETTINGS, EVENTS, seconds=60, waits_first=waits_first))
    assert found == expected
    now[0] = 1_119.0
    assert not done.restart_if_due("broken", SETTINGS, EVENTS, seconds=60, waits_first=waits_first)
