"""The condition of a table from its last poll: each boundary, and each sentence."""

from __future__ import annotations

from typing import Any

import pytest

from deltasnap_core import Problem, ProblemKind
from deltasnap_core.store.fleet.table_level import TableStatus, is_new, table_status
from deltasnap_core.support import TEMPLATES, LastPoll, TableLevel

NOW = 1_700_000_000_000
MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WRITER = TEMPLATES[ProblemKind.STALE].advice


def problem(severity: Any, text: str, advice: str = "") -> Problem:
    return Problem.of_check(check=text[:3], severity=severity, text=text, advice=advice)


def status(last_commit_ms: int | None = None, **values: Any) -> TableStatus:
    return table_status(LastPoll(**{"polled_at_ms": NOW, "checked_version": 3, **values}), last_commit_ms, NOW)


def shown(found: TableStatus) -> tuple[TableLevel, str, str, str]:
    """The columns of the fleet."""
    return found.level, found.reason, ", ".join(found.checks), found.advice


def test_each_text_and_each_advice_of_problems_is_given_once() -> None:
    found = status(
        problems=(
            problem("warning", "One.", "Do it."),
            problem("warning", "Two."),
            problem("warning", "Three.", "Do it."),
            problem("warning", "Two.", "Do that."),
        )
    )
    assert shown(found) == (TableLevel.WARNED, "One. Two. Three.", "One, Two, Thr", "Do it. Do that.")


def test_only_errors_are_named_if_there_are_any() -> None:
    found = status(problems=(problem("warning", "Slow."), problem("error", "Lost.", "Restore it.")))
    assert shown(found) == (TableLevel.BROKEN, "Lost.", "Los", "Restore it.")


def test_damage_stays_known_when_the_poll_is_old() -> None:
    found = status(polled_at_ms=NOW - DAY - 1, problems=(problem("error", "Lost."),))
    assert found.level is TableLevel.BROKEN
    assert found.reason.startswith("Lost. deltasnap last read the log of this table ")


@pytest.mark.parametrize(
    ("age_hours", "patience_hours", "expected"),
    [
        (0.02, 0.01, "72 seconds old, at most 36 seconds"),
        (0.75, 0.5, "45 minutes old, at most 30 minutes"),
        (2, 1, "2 hours old, at most 60 minutes"),
        (168, 167, "7 days old, at most 167 hours"),
        (400, 168, "16 days old, at most 7"),
    ],
)
def test_ages_of_a_stale_table_have_a_unit_that_shows_the_difference_to_the_limit(
    age_hours: float, patience_hours: float, expected: str
) -> None:
    patience = int(patience_hours * HOUR)
    found = status(NOW - int(age_hours * HOUR), stale_after_ms=patience)
    assert found.level is TableLevel.STALE
    assert expected in found.reason


LEVELS: dict[str, tuple[dict[str, Any], int | None, TableLevel]] = {
    "healthy": ({}, None, TableLevel.HEALTHY),
    "not checked": ({"checked_version": None}, None, TableLevel.UNKNOWN),
    "just read": ({"polled_at_ms": NOW - DAY}, None, TableLevel.HEALTHY),
    "read too long ago": ({"polled_at_ms": NOW - DAY - 1}, None, TableLevel.UNKNOWN),
    "another clock": ({"polled_at_ms": NOW + 5 * MINUTE}, None, TableLevel.HEALTHY),
    "a wrong clock": ({"polled_at_ms": NOW + 5 * MINUTE + 1}, None, TableLevel.UNKNOWN),
    "just examined": ({"examined_at_ms": NOW - 2 * DAY}, None, TableLevel.HEALTHY),
    "examined too long ago": ({"examined_at_ms": NOW - 2 * DAY - 1}, None, TableLevel.UNKNOWN),
    "just waiting": ({"unchecked_since_ms": NOW - DAY}, None, TableLevel.HEALTHY),
    "waiting too long": ({"unchecked_since_ms": NOW - DAY - 1}, None, TableLevel.UNKNOWN),
    "fresh": ({"stale_after_ms": HOUR}, NOW - HOUR, TableLevel.HEALTHY),
    "stale": ({"stale_after_ms": HOUR}, NOW - HOUR - 1, TableLevel.STALE),
    "of an unknown age": ({"stale_after_ms": HOUR}, None, TableLevel.HEALTHY),
    "without a rule": ({}, 0, TableLevel.HEALTHY),
    "a little in the future": ({"stale_after_ms": HOUR}, NOW + 5 * MINUTE, TableLevel.HEALTHY),
    "in the future": ({"stale_after_ms": HOUR}, NOW + 5 * MINUTE + 1, TableLevel.WARNED),
}


@pytest.mark.parametrize("case", LEVELS)
def test_level_follows_from_the_ages_of_the_last_poll(case: str) -> None:
    values, last_commit_ms, level = LEVELS[case]
    assert status(last_commit_ms, **values).level is level


UNKNOWN, START = TableLevel.UNKNOWN, "Refresh the table, or start its sensor."
OLD = "The last commit is 2 hours old, at most 60 minutes expected."
UNCHECKED = "No run has checked this table for 25 hours, and it has new versions."
WARNING = problem("warning", "Slow.", "Look.")
STATUSES: list[tuple[dict[str, Any], int, tuple[TableLevel, str, str, str]]] = [
    (
        {"polled_at_ms": NOW - 25 * HOUR, "problems": (WARNING,)},
        NOW,
        (UNKNOWN, "deltasnap last read the log of this table 25 hours ago.", "", START),
    ),
    (
        {"polled_at_ms": NOW + 2 * HOUR},
        NOW,
        (UNKNOWN, "The time of the last poll of this table is 2 hours in the future: a clock was wrong.", "", START),
    ),
    (
        {"examined_at_ms": NOW - 49 * HOUR},
        NOW,
        (UNKNOWN, "deltasnap last checked the log of this table for damage 49 hours ago.", "", START),
    ),
    ({"checked_version": None}, NOW, (UNKNOWN, "No run has checked this table yet.", "", "Refresh the table.")),
    ({"unchecked_since_ms": NOW - 25 * HOUR}, NOW, (UNKNOWN, UNCHECKED, "", "Refresh the table.")),
    (
        {"unchecked_since_ms": NOW - 25 * HOUR, "problems": (WARNING,)},
        NOW,
        (UNKNOWN, f"{UNCHECKED} Slow.", "Slo", "Refresh the table. Look."),
    ),
    ({"stale_after_ms": HOUR}, NOW - 2 * HOUR, (TableLevel.STALE, OLD, "fresh_table", WRITER)),
    (
        {"stale_after_ms": HOUR, "problems": (WARNING,)},
        NOW - 2 * HOUR,
        (TableLevel.WARNED, f"Slow. {OLD}", "Slo, fresh_table", f"Look. {WRITER}"),
    ),
    (
        {"stale_after_ms": HOUR},
        NOW + HOUR,
        (
            TableLevel.WARNED,
            "The time of the last commit is 60 minutes in the future.",
            "fresh_table",
            "Correct the clock of the writer.",
        ),
    ),
    ({"stale_after_ms": HOUR}, NOW, (TableLevel.HEALTHY, "", "", "")),
]


@pytest.mark.parametrize(("values", "last_commit_ms", "expected"), STATUSES)
def test_each_status_has_its_reason_check_and_advice(
    values: dict[str, Any], last_commit_ms: int, expected: tuple[TableLevel, str, str, str]
) -> None:
    assert shown(status(last_commit_ms, **values)) == expected


def test_table_that_was_never_polled_is_unknown() -> None:
    found = table_status(None, NOW, NOW)
    assert shown(found) == (UNKNOWN, "deltasnap has not read the log of this table yet.", "", START)


def test_table_is_new_until_it_is_checked_or_unchecked_for_a_day() -> None:
    def new(**values: Any) -> bool:
        return is_new(LastPoll(**{"polled_at_ms": NOW, **values}), NOW)

    assert is_new(None, NOW)
    assert new()
    assert not new(checked_version=0)
    assert not new(problems=(problem("warning", "Slow."),))
    assert [new(polled_at_ms=NOW - age) for age in (DAY, DAY + 1)] == [True, False]
    assert [new(unchecked_since_ms=NOW - age) for age in (DAY, DAY + 1)] == [True, False]


def test_levels_rank_from_the_worst_to_healthy() -> None:
    assert [TableLevel(name).rank for name in ("broken", "unknown", "warned", "stale", "healthy")] == [0, 1, 2, 3, 4]
