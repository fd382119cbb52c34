from __future__ import annotations

from deltasnap_assets.quantities import span_text

HOUR = 3_600_000


def test_spans_are_shown_in_their_largest_unit() -> None:
    assert [span_text(ms) for ms in (-5, 999, 1000, 119_999, 2 * HOUR, 49 * HOUR)] == [
        "0 seconds",
        "0 seconds",
        "1 second",
        "119 seconds",
        "2 hours",
        "2 days",
    ]
