"""Which files may hold values in a range: nothing is left out that may, whatever statistics look like."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from deltasnap_core.log.value_ranges import ValueRange, may_hold

DAY = 24 * 60 * 60 * 1_000_000
NEW_YEAR_2026 = 1_767_225_600_000_000


def kept(stats: Sequence[str | None], *ranges: ValueRange) -> list[bool] | None:
    found = may_hold(pa.array(stats, pa.string()), ranges)
    return None if found is None else found.to_pylist()


def between(low: int | None, high: int | None, data_type: str = "long", *path: str) -> ValueRange:
    return ValueRange(path=path or ("a",), data_type=data_type, low=low, high=high)


def of(low: Any, high: Any) -> str:
    return json.dumps({"numRecords": 1, "minValues": {"a": low, "b": 1}, "maxValues": {"a": high}})


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (5, 9, [False, True, True, True, False]),
        (None, 4, [True, True, False, False, False]),
        (10, None, [False, False, False, True, True]),
        (9, 5, [False, False, True, False, False]),
        (None, None, [True] * 5),
    ],
)
def test_files_outside_of_a_range_are_left_out(low: int | None, high: int | None, found: list[bool]) -> None:
    stats = [of(1, 4), of(4, 5), of(5, 9), of(9, 10), of(10, 11)]
    assert kept(stats, between(low, high)) == found


def test_all_ranges_must_be_met() -> None:
    assert kept([of(1, 4), of(3, 9)], between(2, None), between(None, 2)) == [True, False]


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "{}",
        '{"numRecords":1}',
        of(None, None),
        json.dumps({"maxValues": {"a": 9}}),
        json.dumps({"minValues": {}}),
    ],
)
def test_file_that_does_not_say_is_kept(stats: str | None) -> None:
    assert kept([stats, of(1, 1)], between(5, 6)) == [True, False]


@pytest.mark.parametrize(
    "odd", ["no JSON", "", "{", of("7", "8"), of(7.5, 8), of(2**63, 2**63), "{}\n{}", "[]", "null"]
)
def test_statistics_of_an_unusual_form_are_not_judged(odd: str) -> None:
    assert kept([of(1, 1), odd], between(5, 6)) is None


def test_value_that_its_type_does_not_have_is_not_judged() -> None:
    assert kept([of(300, 300)], between(5, 6, "byte")) is None
    assert kept([of(100, 100)], between(5, 6, "byte")) == [False]


def test_field_of_a_struct_is_found() -> None:
    stats = json.dumps({"minValues": {"s": {"a": 1}}, "maxValues": {"s": {"a": 2}}})
    assert kept([stats], between(3, None, "long", "s", "a")) == [False]
    assert kept([stats], between(2, None, "long", "s", "a")) == [True]


@pytest.mark.parametrize(
    ("data_type", "texts"),
    [
        ("date", ["2026-01-01", "2026-01-09"]),
        ("timestamp", ["2026-01-01T00:00:00.000Z", "2026-01-09T00:00:00.000+00:00"]),
        ("timestamp_ntz", ["2026-01-01T00:00:00.000", "2026-01-09T00:00:00"]),
    ],
)
def test_times_are_compared_in_microseconds(data_type: str, texts: list[str]) -> None:
    stats = [of(text, text) for text in texts]
    assert kept(stats, between(NEW_YEAR_2026 + DAY, None, data_type)) == [False, True]
    assert kept(stats, between(None, NEW_YEAR_2026, data_type)) == [True, False]


@pytest.mark.parametrize(("data_type", "text"), [("timestamp", "2026-01-01 00:00:00"), ("date", "soon"), ("date", "1")])
def test_text_that_is_no_such_time_is_not_judged(data_type: str, text: str) -> None:
    assert kept([of(text, text)], between(0, 1, data_type)) is None
