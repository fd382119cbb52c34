"""The condition of a table from its last poll: each boundary, and each sentence."""

from __future__ import annotations

from typing import Any

import pytest

from deltasnap_core import LastPoll, StaleRule, TableLevel, TableProblem
from deltasnap_core.store.fleet.table_level import (
    CLOCK_SKEW_MS,
    MAX_EXAMINATION_AGE_MS,
    MAX_POLL_AGE_MS,
    TableStatus,
    table_status,
)

NOW = 1_700_000_000_000
RULE = StaleRule(check="fresh_table", patience_ms=3_600_000, advice="Ask the writer.")


def problem(severity: Any, text: str, advice: str = "") -> TableProblem:
    return TableProblem(check=text[:3], severity=severity, text=text, advice=advice)


def status(last_commit_ms: int | None = None, **values: Any) -> TableStatus:
    return table_status(LastPoll(**{"polled_at_ms": NOW, "checked_version": 3, **values}), last_commit_ms, NOW)


def test_each_text_and_each_advice_of_problems_is_given_once() -> None:
    found = status(
        problems=(
            problem("warning", "One.", "Do it."),
            problem("warning", "Two."),
            problem("warning", "Three.", "Do it."),
            problem("warning", "Two.", "Do that."),
        )
    )
    assert found == TableStatus(
        level=TableLevel.WARNED, reason="One. Two. Three.", check="One", advice="Do it. Do that."
    )


def test_only_errors_are_named_if_there_are_any() -> None:
    found = status(problems=(problem("warning", "Slow."), problem("error", "Lost.", "Restore it.")))
    assert found == TableStatus(level=TableLevel.BROKEN, reason="Lost.", check="Los", advice="Restore it.")


def test_damage_stays_known_when_the_poll_is_old() -> None:
    found = status(polled_at_ms=NOW - MAX_POLL_AGE_MS - 1, problems=(problem("error", "Lost."),))
    assert found.level is TableLevel.BROKEN
    assert found.reason.startswith("Lost. deltasnap last read the log of this table ")


@pytest.mark.parametrize(
    ("age_hours", "patience_hours", "expected"),
    [
        (2, 1, "2 hours old, at most 1 hour"),
        (168, 167, "7 days old, at most 167 hours"),
        (400, 168, "16 days old, at most 7"),
    ],
)
def test_ages_of_a_stale_table_are_days_from_a_week_on(age_hours: int, patience_hours: int, expected: str) -> None:
    hour = 3_600_000
    found = status(NOW - age_hours * hour, stale_rule=StaleRule(check="fresh", patience_ms=patience_hours * hour))
    assert found.level is TableLevel.STALE
    assert expected in found.reason


LEVELS: dict[str, tuple[dict[str, Any], int | None, TableLevel]] = {
    "healthy": ({}, None, TableLevel.HEALTHY),
    "not checked": ({"checked_version": None}, None, TableLevel.UNKNOWN),
    "just read": ({"polled_at_ms": NOW - MAX_POLL_AGE_MS}, None, TableLevel.HEALTHY),
    "read too long ago": ({"polled_at_ms": NOW - MAX_POLL_AGE_MS - 1}, None, TableLevel.UNKNOWN),
    "another clock": ({"polled_at_ms": NOW + CLOCK_SKEW_MS}, None, TableLevel.HEALTHY),
    "a wrong clock": ({"polled_at_ms": NOW + CLOCK_SKEW_MS + 1}, None, TableLevel.UNKNOWN),
    "just examined": ({"examined_at_ms": NOW - MAX_EXAMINATION_AGE_MS}, None, TableLevel.HEALTHY),
    "examined too long ago": ({"examined_at_ms": NOW - MAX_EXAMINATION_AGE_MS - 1}, None, TableLevel.UNKNOWN),
    "just waiting": ({"unchecked_since_ms": NOW - MAX_POLL_AGE_MS}, None, TableLevel.HEALTHY),
    "waiting too long": ({"unchecked_since_ms": NOW - MAX_POLL_AGE_MS - 1}, None, TableLevel.UNKNOWN),
    "fresh": ({"stale_rule": RULE}, NOW - 3_600_000, TableLevel.HEALTHY),
    "stale": ({"stale_rule": RULE}, NOW - 3_600_001, TableLevel.STALE),
    "of an unknown age": ({"stale_rule": RULE}, None, TableLevel.HEALTHY),
    "without a rule": ({}, 0, TableLevel.HEALTHY),
    "a little in the future": ({"stale_rule": RULE}, NOW + CLOCK_SKEW_MS, TableLevel.HEALTHY),
    "in the future": ({"stale_rule": RULE}, NOW + CLOCK_SKEW_MS + 1, TableLevel.WARNED),
}


@pytest.mark.parametrize("case", LEVELS)
def test_level_follows_from_the_ages_of_the_last_poll(case: str) -> None:
    values, last_commit_ms, level = LEVELS[case]
    assert status(last_commit_ms, **values).level is level


def test_stale_table_has_the_check_and_the_advice_of_its_rule() -> None:
    found = status(NOW - 2 * 3_600_000, stale_rule=RULE)
    assert (found.check, found.advice) == ("fresh_table", "Ask the writer.")
    assert found.reason.startswith("The last commit is ")
    assert status(NOW + 86_400_000, stale_rule=RULE).check == "fresh_table"
