"""Durations: each unit in milliseconds."""

from __future__ import annotations

import pytest

from deltasnap_core.protocol.properties.intervals import parse_interval_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1 week", 604_800_000),
        ("1 day", 86_400_000),
        ("1 hour", 3_600_000),
        ("1 minute", 60_000),
        ("1 second", 1_000),
        ("1 millisecond", 1),
        ("1000000 microseconds", 1_000),
        ("1000000000 nanoseconds", 1_000),
        ("1 microsecond", 0),
        ("500 microseconds 500 microseconds", 1),
        ("1 second -1 second", 0),
        (".5 seconds", 500),
        ("2. seconds", 2_000),
        ("2147483647 days", 2_147_483_647 * 86_400_000),
    ],
)
def test_interval_is_rounded_down_to_milliseconds(text: str, milliseconds: int) -> None:
    assert parse_interval_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    [
        "1 second -2 seconds",
        "-1 microsecond",
        ". seconds",
        "1.5 milliseconds",
        "x 1 day",
        "2147483648 days",
        "306783379 weeks",
        "9223372036854775808 microseconds",
    ],
)
def test_invalid_duration_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        parse_interval_ms(text)
