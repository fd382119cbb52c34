from __future__ import annotations

import pytest

from deltasnap_assets.quantities import bytes_text, counted, iso_time, percents, span_text, time_text

HOUR = 3_600_000


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (-5, "0 seconds"),
        (999, "0 seconds"),
        (1000, "1 second"),
        (119_999, "119 seconds"),
        (120_000, "2 minutes"),
        (2 * HOUR - 1, "119 minutes"),
        (2 * HOUR, "2 hours"),
        (48 * HOUR - 1, "47 hours"),
        (48 * HOUR, "2 days"),
        (72 * HOUR - 1, "2 days"),
    ],
)
def test_span_is_shown_in_the_largest_unit_that_fits_twice(milliseconds: int, text: str) -> None:
    assert span_text(milliseconds) == text


@pytest.mark.parametrize(
    ("ratio", "limit", "expected"),
    [
        (0.5, 0.5, ("50%", "50%")),
        (0.514, 0.5, ("51%", "50%")),
        (0.501, 0.5, ("50.1%", "50.0%")),
        (0.8999, 0.9, ("89.99%", "90.00%")),
        (0.121, 0.125, ("12.1%", "12.5%")),
        (0.5 + 1e-9, 0.5, ("50.000%", "50.000%")),
    ],
)
def test_ratio_that_exceeds_its_limit_does_not_look_equal_to_it(
    ratio: float, limit: float, expected: tuple[str, str]
) -> None:
    assert percents(ratio, limit) == expected


def test_times_are_shown_to_the_second() -> None:
    assert (iso_time(1_700_000_000_999), time_text(1_700_000_000_999)) == (
        "2023-11-14T22:13:20+00:00",
        "2023-11-14 22:13:20 UTC",
    )
    assert (iso_time(1 << 62), time_text(1 << 62)) == (f"{1 << 62} ms",) * 2


def test_counts_have_the_plural_of_their_word() -> None:
    assert [counted(number, "file") for number in (0, 1, 2_048)] == ["0 files", "1 file", "2,048 files"]
    assert [counted(number, "process", "processes") for number in (1, 2)] == ["1 process", "2 processes"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1 MiB"),
        (1 << 50, "1 PiB"),
        (1 << 61, "2048 PiB"),
    ],
)
def test_size_has_at_most_one_decimal(size: int, text: str) -> None:
    assert bytes_text(size) == text
