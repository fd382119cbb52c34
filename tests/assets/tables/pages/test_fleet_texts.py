"""Facts about a table of a fleet as text, with the same words in the terminal and on Dagster's pages."""

from __future__ import annotations

from typing import Any

import pytest

from deltasnap_assets.tables.pages.fleet_texts import (
    age_text,
    count_text,
    growth_text,
    ratio_text,
    size_text,
    version_text,
)


def row(**values: Any) -> dict[str, Any]:
    unknown = ("age_ms", "age_ratio", "latest_version", "stored_version", "versions_behind")
    return {**dict.fromkeys(unknown), **values}


AGES: dict[str, tuple[dict[str, float], str]] = {
    "unknown": ({}, ""),
    "without a usual pause": ({"age_ms": 3_600_000}, "60 minutes"),
    "compared": ({"age_ms": 7_200_000, "age_ratio": 1234.56}, "2 hours (1,234.6 x usual)"),
}


@pytest.mark.parametrize("case", AGES)
def test_age_is_compared_with_the_usual_pause(case: str) -> None:
    values, expected = AGES[case]
    assert age_text(row(**values)) == expected


VERSIONS: dict[str, tuple[dict[str, int], str]] = {
    "unknown": ({}, ""),
    "only stored": ({"stored_version": 7}, "7"),
    "not stored": ({"latest_version": 7}, "7"),
    "current": ({"latest_version": 7, "stored_version": 7, "versions_behind": 0}, "7"),
    "behind": ({"latest_version": 1_234, "stored_version": 0, "versions_behind": 1_234}, "1234 (1,234 behind)"),
    "read long ago": ({"latest_version": 3, "stored_version": 7, "versions_behind": 0}, "7"),
}


@pytest.mark.parametrize("case", VERSIONS)
def test_version_is_the_newest_known_one(case: str) -> None:
    values, expected = VERSIONS[case]
    assert version_text(row(**values)) == expected


def test_numbers_have_their_unit_and_growth_its_sign() -> None:
    assert [growth_text(size) for size in (None, 0, 2048, -1)] == ["", "0 B", "+2 KiB", "-1 B"]
    assert [count_text(count) for count in (None, 0, 1_234)] == ["", "0", "1,234"]
    assert [ratio_text(ratio) for ratio in (None, 0.0, 0.256)] == ["", "0%", "26%"]
    assert [size_text(size) for size in (None, 0, 3 << 20)] == ["", "0 B", "3 MiB"]
