"""Texts of a log as values, type by type, and SQL that means the same in every session."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

from deltasnap_core.rules.texts.sql_text import exact_sum_sql, later_sql, quoted, sql_type, string_sql, timestamp_sql
from deltasnap_core.rules.texts.typed_texts import typed_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALID = {
    "integer": {"12": "12", "-7": "-7", "01": "1", " 12": "12", "12\n": "12"},
    "short": {"-32768": "-32768"},
    "long": {"9223372036854775807": "9223372036854775807"},
    "float": {"0.1": "0.1"},
    "double": {"1": "1.0", "+.5": "0.5", "NaN": "NaN"},
    "decimal(10,2)": {"1.5": "1.50", "-1.500": "-1.50", "12": "12.00", "12.34": "12.34", "7.": "7.00"},
    "decimal(5)": {"-8": "-8", "8.0": "8"},
    "boolean": {"true": "true", "False": "false"},
    "date": {"2024-01-31": "2024-01-31", "+10000-01-01": "+10000-01-01", "-0001-12-31": "-0001-12-31"},
    "timestamp": {
        "2024-01-01 12:30:00": "2024-01-01 12:30:00",
        "2024-01-01 12:30:00.000000": "2024-01-01 12:30:00",
        "2024-01-01 12:30:00.123456": "2024-01-01 12:30:00.123456",
        "2024-01-01T12:30:00.5Z": "2024-01-01 12:30:00.5",
        "2024-01-01T00:00:00.000+01:00": "2023-12-31 23:00:00",
        "2024-01-01 12:30:00 UTC": "2024-01-01 12:30:00",
        "2024-01-01": "2024-01-01 00:00:00",
        "+10000-01-01 00:00:00": "+10000-01-01 00:00:00",
    },
    "timestamp_ntz": {
        "2024-01-01 12:30:00.5": "2024-01-01 12:30:00.5", "2024-01-01T12:30:00.000Z": "2024-01-01 12:30:00",
    },
}  # fmt: skip

EXPONENTS = {
    "float": {"1.0E10": "1.0E10"},
    "double": {"1.0E10": "1.0E10", "-1e-7": "-1.0E-7", "Infinity": "Infinity", "-inf": "-Infinity"},
    "decimal(10,2)": {"1E-2": "0.01", "1.2E+3": "1200.00"},
    "decimal(20,18)": {"0E-18": "0.000000000000000000"},
}
"""Sail reads or prints these otherwise."""

INVALID = {
    "byte": ["128"],
    "short": ["32768", "1.5"],
    "integer": ["", "1.5", "1e2", "0x1", "1_000", "٣"],
    "double": ["1f", "1d", "1.0D", "0x1p3", " 1", "infinite", "."],
    "decimal(10,2)": ["123.456", "0.001", "123456789", "1E-3", "1.234E+0", "1f", "NaN"],
    "decimal(5)": ["8.5", "123456"],
    "boolean": ["yes", "t", "1", "y", " true"],
    "date": ["2024", "2024-01", "2024-02-30", "20240101", "2024-01-01 00:00:00", "2024-01-01x", "today"],
    "timestamp": ["12:30", "T12:30Z", "2024", "2024-01", "now", "1704067200", "2024-01-01 25:00:00"],
    "timestamp_ntz": ["12:30", "2024", "2024-01-01 00:00:00+01:00"],
}


@pytest.mark.parametrize("forms", [VALID, pytest.param(EXPONENTS, marks=pytest.mark.spark)])
def test_texts_that_writers_write_are_values(spark: SparkSession, forms: dict[str, dict[str, str]]) -> None:
    found = values(spark, {data_type: [*texts] for data_type, texts in forms.items()})
    assert found == {data_type: [*texts.values()] for data_type, texts in forms.items()}


def test_other_texts_that_a_cast_accepts_are_null(spark: SparkSession) -> None:
    assert values(spark, INVALID) == {data_type: [None] * len(texts) for data_type, texts in INVALID.items()}


@pytest.mark.parametrize("data_type", ["string", "binary", "collated", "struct", "variant", "unknown"])
def test_only_numbers_booleans_and_times_are_converted(data_type: str) -> None:
    assert typed_sql("text", data_type) is None


def values(spark: SparkSession, texts: Mapping[str, Sequence[str]]) -> dict[str, list[str | None]]:
    """Return the values of the texts of each type, from one query."""
    rows = [(number, kind, text) for kind, found in texts.items() for number, text in enumerate(found)]
    frame = spark.createDataFrame(rows, "number int, kind string, text string")
    branches = " ".join(f"when '{kind}' then cast({typed_sql('text', kind)} as string)" for kind in texts)
    by_place = {
        (row.kind, row.number): row.value
        for row in frame.selectExpr("*", f"case kind {branches} end as value").collect()
    }
    return {kind: [by_place[kind, number] for number in range(len(found))] for kind, found in texts.items()}


@pytest.mark.parametrize("text", ["", "a'b", 'c"d\\', "é\n\t", "x' or 1 = 1 --"])
def test_string_is_given_by_its_bytes(text: str) -> None:
    found = re.fullmatch(r"cast\(X'([0-9a-f]*)' as string\)", string_sql(text))
    assert found is not None
    assert bytes.fromhex(found[1]).decode() == text


def test_name_is_quoted_with_its_quotes_doubled() -> None:
    assert [quoted(name) for name in ("a", "a`b", "a.b c")] == ["`a`", "`a``b`", "`a.b c`"]


def test_types_have_the_names_of_sql() -> None:
    kinds = ("byte", "short", "integer", "long", "timestamp", "string", "decimal(5,2)")
    assert [sql_type(kind) for kind in kinds] == [
        *("tinyint", "smallint", "int", "bigint", "timestamp_ltz", "string", "decimal(5,2)")
    ]


def test_times_are_those_of_the_years_1_to_9999() -> None:
    first, last = re.findall(r"-?\d+(?=L)", timestamp_sql("ms"))
    assert (int(first), int(last)) == (-62_135_596_800_000, 253_402_300_799_999)
    assert timestamp_sql("t.ms") == f"timestamp_millis(if(t.ms between {first}L and {last}L, t.ms, null))"


def test_sums_beyond_64_bits_are_exact_or_the_last_time() -> None:
    assert later_sql("ms", 5) == "coalesce(try_add(ms, 5L), 9223372036854775807L)"
    assert exact_sum_sql("size") == "coalesce(sum(cast(size as decimal(38, 0))), 0)"
