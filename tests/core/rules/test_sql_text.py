"""SQL that means the same in every session."""

from __future__ import annotations

import re

import pytest

from deltasnap_core.rules.texts.sql_text import exact_sum_sql, later_sql, quoted, sql_type, string_sql, timestamp_sql


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
        *("tinyint", "smallint", "int", "bigint", "timestamp_ltz", "string", "decimal(5,2)"),
    ]


def test_times_are_those_of_the_years_1_to_9999() -> None:
    first, last = re.findall(r"-?\d+(?=L)", timestamp_sql("ms"))
    assert (int(first), int(last)) == (-62_135_596_800_000, 253_402_300_799_999)
    assert timestamp_sql("t.ms") == f"timestamp_millis(if(t.ms between {first}L and {last}L, t.ms, null))"


def test_sums_beyond_64_bits_are_exact_or_the_last_time() -> None:
    assert later_sql("ms", 5) == "coalesce(try_add(ms, 5L), 9223372036854775807L)"
    assert exact_sum_sql("size") == "coalesce(sum(cast(size as decimal(38, 0))), 0)"
