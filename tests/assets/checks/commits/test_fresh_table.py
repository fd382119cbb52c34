from __future__ import annotations

import pytest

from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.registry import FRESH_TABLE
from deltasnap_core.support import CLOCK_SKEW_MS
from tests.assets.checks.known import KnownTableFacts

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("times", "hours", "now", "passed"),
    [
        ([0], None, 24, True),
        ([0], None, 25, False),
        ([0, 10, 11], None, 42, False),
        ([0, 10, 11], None, 35, True),
        ([9, 0, 10], None, 37, True),
        ([9, 0, 10], None, 38, False),
        ([0, 100, 101], None, 400, True),
        ([0, 100], 2, 102, True),
        ([0, 100], 2, 103, False),
    ],
)
def test_table_is_stale_after_three_pauses_or_a_limit(
    times: list[int], hours: float | None, now: int, passed: bool
) -> None:
    facts = KnownTableFacts(commit_times_ms=[time * HOUR for time in times], now_ms=now * HOUR)
    assert FRESH_TABLE.judge(facts, CheckSettings(fresh_within_hours=hours)).passed is passed


def test_age_is_reported_in_hundredths_of_hours() -> None:
    facts = KnownTableFacts(commit_times_ms=[0], now_ms=HOUR + 444_000)
    verdict = FRESH_TABLE.judge(facts, CheckSettings(fresh_within_hours=1.5))
    assert verdict.numbers == {"hours_since_last_commit": 1.12, "hours_expected": 1.5}


@pytest.mark.parametrize("hours", [None, 1])
def test_commit_from_the_future_is_not_fresh(hours: float | None) -> None:
    facts = KnownTableFacts(commit_times_ms=[0, 9_000 * HOUR], now_ms=HOUR)
    verdict = FRESH_TABLE.judge(facts, CheckSettings(fresh_within_hours=hours))
    assert not verdict.passed
    assert verdict.description == "The time of the last commit is 374 days in the future."
    assert "clock" in verdict.advice


def test_small_clock_difference_is_not_a_problem() -> None:
    for ahead, passed in ((CLOCK_SKEW_MS, True), (CLOCK_SKEW_MS + 1, False)):
        facts = KnownTableFacts(commit_times_ms=[0, HOUR], now_ms=HOUR - ahead)
        verdict = FRESH_TABLE.judge(facts, CheckSettings())
        assert verdict.passed is passed
        assert not passed or str(verdict.numbers["hours_since_last_commit"]) == "0.0"


def test_log_without_a_commit_has_no_age() -> None:
    assert not FRESH_TABLE.judge(KnownTableFacts(commit_times_ms=[]), CheckSettings()).is_evaluated


@pytest.mark.parametrize("first", [-(1 << 62), -(1 << 63)])
def test_the_patience_after_an_absurd_time_is_at_most_that_of_the_configuration(first: int) -> None:
    facts = KnownTableFacts(commit_times_ms=[first, HOUR], now_ms=2 * HOUR)
    verdict = FRESH_TABLE.judge(facts, CheckSettings())
    assert (verdict.passed, verdict.numbers["hours_expected"]) == (True, 1_000_000)
