"""The pauses between polls of a broken table."""

from __future__ import annotations

import pytest

from deltasnap_assets.runs.planning import sensor_state
from deltasnap_assets.runs.planning.sensor_state import SensorState
from deltasnap_core import LogCursor

UNREADABLE = (
    "x",
    "[1]",
    "5",
    '{"generation": "table-id", "version": 3, "key_of_a_later_release": 1}',
    '{"fault": "f", "next_poll": "soon"}',
    '{"fault": "f", "polls": null}',
    '{"fault": "f", "cursor": "x"}',
    '{"fault": "f", "cursor": 5}',
    '{"fault": "f", "key_of_a_later_release": 1}',
)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr("deltasnap_assets.runs.planning.sensor_state.time.time", lambda: 1_000_000.0)
    return 1_000_000.0


def test_pauses_double_until_the_longest(now: float) -> None:
    followed, waits = SensorState(), []
    for _ in range(7):
        followed = followed.broken("Version 3 is lost.")
        waits.append(followed.next_poll - now)
    assert waits == [60, 120, 240, 480, 600, 600, 600]


def test_poll_is_due_if_the_clock_was_wrong_when_the_pause_began(now: float) -> None:
    followed = SensorState(fault="Version 3 is lost.", polls=1, next_poll=now + 365 * 86_400)
    assert followed.pause_left_ms(int(now * 1000)) == 0


def test_table_without_a_fault_has_no_pause() -> None:
    assert SensorState(cursor="x").pause_left_ms(0) == 0


def test_state_survives_the_cursor_of_a_sensor(now: float) -> None:
    cursor = LogCursor(table_id="table-id", version=3).to_text()
    followed = SensorState(cursor=cursor).broken("Version 3 is lost.")
    assert SensorState.from_text(followed.to_text()) == followed
    assert SensorState.from_text(cursor) == SensorState(cursor=cursor)
    assert followed.next_poll > now


def test_pause_remains_the_longest_after_weeks(now: float) -> None:
    followed = SensorState(fault="Version 3 is lost.", polls=5_000).broken("Version 3 is lost.")
    assert followed.pause_left_ms(int(now * 1000)) == sensor_state._MAX_PAUSE_SECONDS * 1000


@pytest.mark.parametrize("text", UNREADABLE)
def test_invalid_state_text_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # of JSON, of a cursor, or of a field
        SensorState.from_text(text)
