from __future__ import annotations

import pytest

from deltasnap_assets.checks.fresh_table import FreshTable, FreshTableLimits
from tests.assets.checks.known import KnownTableFacts

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("times", "hours", "now", "passed"),
    [
        ([0], None, 24, True),
        ([0], None, 25, False),
        ([0, 10, 11], None, 42, False),
        ([0, 10, 11], None, 35, True),
        ([0, 100, 101], None, 400, True),
        ([0, 100], 2, 102, True),
        ([0, 100], 2, 103, False),
    ],
)
def test_table_is_stale_after_three_pauses_or_the_configured_time(
    times: list[int], hours: float | None, now: int, passed: bool
) -> None:
    facts = KnownTableFacts(commit_times_ms=[time * HOUR for time in times], now_ms=now * HOUR)
    assert FreshTable().verdict(facts, FreshTableLimits(fresh_within_hours=hours)).passed is passed
