"""Durations: each unit in milliseconds."""

from __future__ import annotations

import pytest

from deltasnap_core.protocol.properties.intervals import parse_interval_ms

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 1 week", 7 * DAY_MS),
        ("interval 168 hours", 7 * DAY_MS),
        ("30 days", 30 * DAY_MS),
        ("  INTERVAL  2 Weeks 1 day  ", 15 * DAY_MS),
        ("1 day -1 hours", 82_800_000),
        ("interval + 90 minutes", 5_400_000),
        ("interval 1.5 seconds", 1_500),
        ("interval 0 days", 0),
        ("1 hour", 3_600_000),
        ("1 minute", 60_000),
        ("1 second", 1_000),
        ("1 millisecond", 1),
        ("1000000 microseconds", 1_000),
        ("1000000000 nanoseconds", 1_000),
        ("1 microsecond", 0),
        ("1999 microseconds", 1),
        ("interval 1 second 1500000 microseconds", 2_500),
        ("1999999 nanoseconds", 1),
        ("500 microseconds 500 microseconds", 1),
        ("1 second -1 second", 0),
        (".5 seconds", 500),
        ("2. seconds", 2_000),
        ("2147483647 days", 2_147_483_647 * DAY_MS),
    ],
)
def test_interval_is_rounded_down_to_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_interval_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "", "interval", "week", "7", "1 month", "interval 1 year", "interval -1 days", "1.5 days", "1day", "1 day ago",
        "1 fortnight", "intervals 1 day", "1 second -2 seconds", "-1 microsecond", ". seconds", "1.5 milliseconds",
        "x 1 day", "2147483648 days", "306783379 weeks", "9223372036854775808 microseconds",
    ],
)  # fmt: skip
def test_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        parse_interval_ms(text)
