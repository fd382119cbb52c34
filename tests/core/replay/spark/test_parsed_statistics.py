"""Which statistics are read from the struct of a checkpoint, and as what; without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from deltasnap_core.replay.spark.reading.parsed_statistics import as_texts, has_all, narrowed
from deltasnap_core.rules.texts.statistics_schema import StatisticPath

VALUES = pa.struct(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("int96", pa.timestamp("ns")),
        ("s", pa.struct([("b", pa.date32())])),
        ("items", pa.list_(pa.int64())),
    ]
)
STRUCT = pa.struct([("numRecords", pa.int64()), ("minValues", VALUES), ("nullCount", pa.struct([("id", pa.int64())]))])


def minimum(*names: str) -> StatisticPath:
    return ("minValues", *names)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("numRecords",), True),
        (minimum("id"), True),
        (minimum("s", "b"), True),
        (minimum("nope"), False),
        (minimum("s"), False),
        (minimum("items"), False),
        (minimum("id", "below"), False),
        (("maxValues", "id"), False),
    ],
)
def test_struct_is_read_if_it_has_a_value_at_each_path(path: StatisticPath, expected: bool) -> None:
    assert has_all(STRUCT, {path}) is expected
    assert has_all(STRUCT, {path, ("numRecords",)}) is expected


def test_checkpoint_without_the_struct_has_no_values() -> None:
    assert not has_all(None, {("numRecords",)})


def test_only_requested_values_are_read() -> None:
    paths = {("numRecords",), minimum("id"), minimum("at"), minimum("wall"), minimum("s", "b"), ("nullCount", "id")}
    assert narrowed(STRUCT, paths).simpleString() == (
        "struct<minValues:struct<at:timestamp,id:bigint,s:struct<b:date>,wall:timestamp_ntz>,"
        "nullCount:struct<id:bigint>,numRecords:bigint>"
    )
    assert narrowed(STRUCT, {minimum("s", "b")}).simpleString() == "struct<minValues:struct<s:struct<b:date>>>"


def test_int96_without_a_zone_in_arrow_is_a_timestamp() -> None:
    assert narrowed(STRUCT, {minimum("int96")}).simpleString() == "struct<minValues:struct<int96:timestamp>>"


def fields_of(struct: exp.Expression) -> dict[str, exp.Expression]:
    """Return the fields of `struct(... as ...)`."""
    return {field.this.name: field.expression for field in struct.expressions}


def test_values_become_texts_except_for_counts_and_keep_their_places() -> None:
    paths = {("numRecords",), minimum("id"), minimum("at"), minimum("s", "b"), ("nullCount", "id")}
    whole = sqlglot.parse_one(as_texts("c", narrowed(STRUCT, paths)), read="spark")
    assert isinstance(whole, exp.If)
    assert (whole.this.sql(), whole.args["true"].sql()) == ("c IS NULL", "NULL")
    found = fields_of(whole.args["false"])
    lowest = fields_of(found["minValues"])
    assert list(found) == ["minValues", "nullCount", "numRecords"]
    assert lowest["id"].sql("spark") == "CAST(c.`minValues`.`id` AS STRING)"
    assert fields_of(lowest["s"])["b"].sql("spark") == "CAST(c.`minValues`.`s`.`b` AS STRING)"
    assert fields_of(found["nullCount"])["id"].sql("spark") == "CAST(c.`nullCount`.`id` AS BIGINT)"
    assert found["numRecords"].sql("spark") == "CAST(c.`numRecords` AS BIGINT)"


def test_times_are_written_in_utc_with_microseconds() -> None:
    sql = as_texts("c", narrowed(STRUCT, {minimum("at")}))
    assert "to_csv(struct(c.`minValues`.`at`)" in sql
    assert "'timeZone', 'UTC'" in sql
    assert "to_csv(struct(c.`minValues`.`int96`)" in as_texts("c", narrowed(STRUCT, {minimum("int96")}))
    assert "to_csv" not in as_texts("c", narrowed(STRUCT, {minimum("wall")})), "it has no zone"
