from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

from deltasnap_assets.exact_values import json_line, json_rows, value_text
from deltasnap_core import DeltaSnapError

NOON = datetime(2024, 2, 29, 12, 0, 0, 123456, UTC)
VARIANT = pa.struct([("value", pa.binary()), pa.field("metadata", pa.binary(), metadata={b"variant": b"true"})])
FIVE = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}


def of(value: Any, data_type: Any) -> Any:
    """The JSON value of one value in a column of that type."""
    ((found,),) = json_rows(pa.table({"x": pa.array([value], data_type)}))
    return found


CASES: dict[str, tuple[Any, Any, Any]] = {
    "null": (None, pa.int64(), None),
    "void": (None, pa.null(), None),
    "boolean": (True, pa.bool_(), True),
    "long": (2**63 - 1, pa.int64(), 9223372036854775807),
    "float": (0.1, pa.float32(), 0.1),
    "double": (0.1 + 0.2, pa.float64(), 0.30000000000000004),
    "nan": (float("nan"), pa.float64(), "NaN"),
    "infinity": (float("-inf"), pa.float32(), "-Infinity"),
    "decimal": (Decimal("12.3400"), pa.decimal128(38, 4), "12.3400"),
    "small decimal": (Decimal("1E-18"), pa.decimal128(38, 18), "0.000000000000000001"),
    "string": ("a\x1b[31m", pa.string(), "a\x1b[31m"),
    "binary": (b"\x00\xff", pa.binary(), "AP8="),
    "date": (date(2024, 2, 29), pa.date32(), "2024-02-29"),
    "timestamp": (NOON, pa.timestamp("us", "UTC"), "2024-02-29T12:00:00.123456Z"),
    "timestamp of another zone": (NOON, pa.timestamp("us", "Europe/Berlin"), "2024-02-29T12:00:00.123456Z"),
    "whole second": (NOON.replace(microsecond=0), pa.timestamp("us", "UTC"), "2024-02-29T12:00:00Z"),
    "without zone": (datetime(1969, 12, 31, 23, 59, 59, 1), pa.timestamp("us"), "1969-12-31T23:59:59.000001"),
    "milliseconds": (NOON.replace(microsecond=120_000), pa.timestamp("ms"), "2024-02-29T12:00:00.120"),
    "seconds": (NOON.replace(microsecond=0, hour=23, minute=59, second=58), pa.timestamp("s"), "2024-02-29T23:59:58"),
    "nanoseconds": (1, pa.timestamp("ns", "UTC"), "1970-01-01T00:00:00.000000001Z"),
    "year before 0": (-719_528 - 365, pa.date32(), "-0001-01-01"),
    "year 0": (-719_528, pa.date32(), "0000-01-01"),
    "year 10000": (2_932_897, pa.date32(), "+10000-01-01"),
    "large string": ("x", pa.large_string(), "x"),
    "large binary": (b"\x00\xff", pa.large_binary(), "AP8="),
    "array of times": ([NOON], pa.list_(pa.timestamp("us", "UTC")), ["2024-02-29T12:00:00.123456Z"]),
    "map of large strings": ([("k", 1)], pa.map_(pa.large_string(), pa.int64()), {"k": 1}),
    "map of days": ([(date(2024, 2, 29), 1)], pa.map_(pa.date32(), pa.int64()), [{"key": "2024-02-29", "value": 1}]),
    "positive infinity": (float("inf"), pa.float64(), "Infinity"),
    "struct": ({"a": NOON, "b": None}, pa.struct([("a", pa.timestamp("us", "UTC")), ("b", pa.int32())]),
               {"a": "2024-02-29T12:00:00.123456Z", "b": None}),
    "array": ([1, None], pa.list_(pa.int64()), [1, None]),
    "map": ([("k", date(2024, 2, 29))], pa.map_(pa.string(), pa.date32()), {"k": "2024-02-29"}),
    "map with a key twice": ([("k", 1), ("k", None)], pa.map_(pa.string(), pa.int64()),
                             [{"key": "k", "value": 1}, {"key": "k", "value": None}]),
    "map of numbers": ([(1, b"\x00")], pa.map_(pa.int64(), pa.binary()), [{"key": 1, "value": "AA=="}]),
    "variant": (FIVE, VARIANT, "5"),
    "variants": ([FIVE, None], pa.list_(VARIANT), ["5", None]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_value_keeps_everything(case: str) -> None:
    value, data_type, expected = CASES[case]
    assert of(value, data_type) == expected


@given(st.integers(-290_000 * 365, 290_000 * 365))
@example(2_932_896)  # the last day of 9999
@example(2_932_897)
def test_day_outside_the_range_of_python_is_a_gregorian_date(days: int) -> None:
    (found,) = next(json_rows(pa.table({"x": pa.array([days], pa.date32())})))
    year, month, day = found.rsplit("-", 2)
    cycles = (int(year) - 2000) // 400
    assert date(int(year) - 400 * cycles, int(month), int(day)) == date(1970, 1, 1) + timedelta(days - 146_097 * cycles)
    assert len(year) == 4 if 0 <= int(year) <= 9999 else year[0] in "+-"


@given(st.text())
def test_json_of_a_text_is_one_line_of_that_text_without_controls(text: str) -> None:
    written = json_line({text: [text]})
    assert json.loads(written) == {text: [text]}
    assert written.splitlines() == [written]
    assert "\x7f" not in written
    assert "\x9b" not in written


def test_json_of_letters_is_not_escaped() -> None:
    assert json_line(["Zoë", "雪"]) == '["Zoë", "雪"]'


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_float_reads_back_as_the_same_float(value: float) -> None:
    assert pa.array([of(value, pa.float32())], pa.float32()).to_pylist() == [value]


def test_text_of_null_is_none_and_nested_values_are_json() -> None:
    assert [value_text(value) for value in (None, "", True, 1.5, {"a": None})] == [
        None,
        "",
        "true",
        "1.5",
        '{"a": null}',
    ]


def test_type_without_an_exact_text_is_an_error_that_names_the_column() -> None:
    with pytest.raises(DeltaSnapError, match="Column x of type duration"):
        of(timedelta(1), pa.duration("us"))


def test_rows_without_columns_are_counted() -> None:
    rows = pa.table({"x": [1, 2]}).select([])
    assert list(json_rows(rows)) == [(), ()]
