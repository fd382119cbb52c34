from __future__ import annotations

import pytest

from deltasnap_assets.quantities import bytes_text, counted, iso_time, span_text, time_text

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
