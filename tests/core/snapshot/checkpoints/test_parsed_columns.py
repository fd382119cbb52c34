from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.snapshot.checkpoints.parsed_columns import partition_values, statistics_sql, statistics_type
from tests.builders import field, schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = Protocol(min_reader_version=1, min_writer_version=2)


def table(*fields: dict[str, Any], partition: tuple[str, ...] = (), **configuration: str) -> Metadata:
    settings = {f"delta.{name.replace('_', '.')}": value for name, value in configuration.items()}
    return Metadata(id="t", schema_string=schema(*fields), partition_columns=partition, configuration=settings)


NESTED = {"type": "struct", "fields": [field("b", "date"), field("c", {"type": "array", "elementType": "long"})]}


def test_statistics_have_bounds_of_ordered_columns_as_text_and_nulls_of_all() -> None:
    found = statistics_type(table(field("id", "long"), field("flag", "boolean"), field("a", NESTED)), PLAIN)
    bounds = "struct<`id`: string, `a`: struct<`b`: string>>"
    nulls = "struct<`id`: bigint, `flag`: bigint, `a`: struct<`b`: bigint, `c`: bigint>>"
    assert found == f"struct<`numRecords`: bigint, `minValues`: {bounds}, `maxValues`: {bounds}, `nullCount`: {nulls}>"


def test_bounds_are_parsed_at_any_depth_and_counts_are_kept() -> None:
    sql = statistics_sql(table(field("id", "date"), field("a", NESTED)), PLAIN)
    for path in ("`id`", "`a`.`b`"):
        assert f"s.`nullCount`.{path} as `" in sql
        for kind in ("minValues", "maxValues"):
            assert f"try_cast(s.`{kind}`.{path} as date)" in sql
            assert f"s.`{kind}`.{path} as `" not in sql


@pytest.mark.parametrize(
    "kind",
    [
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "decimal(5,2)",
        "date",
        "timestamp",
        "timestamp_ntz",
        "string",
    ],
)
def test_columns_of_numbers_times_and_strings_have_bounds(kind: str) -> None:
    assert "`minValues`: struct<`a`: string>" in statistics_type(table(field("a", kind)), PLAIN)


@pytest.mark.parametrize("kind", ["boolean", "binary", "variant", {"type": "array", "elementType": "long"}], ids=str)
def test_columns_of_other_types_have_no_bounds(kind: Any) -> None:
    assert statistics_type(table(field("a", kind)), PLAIN) == (
        "struct<`numRecords`: bigint, `nullCount`: struct<`a`: bigint>>"
    )


def test_a_double_that_was_a_float_has_no_bounds() -> None:
    widened = field("a", "double", **{"delta.typeChanges": [{"fromType": "float", "toType": "double"}]})
    assert "minValues" not in statistics_type(table(widened), PLAIN)


def test_bounds_of_long_decimals_are_widened(spark: SparkSession) -> None:
    values = {"a": -9007199254740993, "s": {"b": 9007199254740993}}
    stats = json.dumps({"numRecords": 1, "minValues": values, "maxValues": values}).replace("993", "993.00000")
    nested = {"type": "struct", "fields": [field("b", "decimal(38,5)")]}
    sql = statistics_sql(table(field("a", "decimal(21,5)"), field("s", nested)), PLAIN)
    row = (
        spark.sql("select named_struct('stats', :stats) as add", {"stats": stats}).selectExpr(f"{sql} as parsed").head()
    )
    assert row is not None
    low, high = row.parsed.minValues, row.parsed.maxValues
    exact = Decimal("9007199254740993")
    assert -exact - 20 < low.a < -exact < high.a < -exact + 20
    assert exact - 20 < low.s.b < exact < high.s.b < exact + 20


def test_statistics_exclude_partition_columns_and_columns_that_are_not_indexed() -> None:
    fields = [field("day", "date"), field("a", NESTED), field("id", "long")]
    found = statistics_type(table(*fields, partition=("day",), dataSkippingNumIndexedCols="2"), PLAIN)
    assert "`b`: string" in found
    assert "`c`: bigint" in found
    assert "`id`" not in found
    assert "`day`" not in found


def test_statistics_follow_the_named_columns() -> None:
    fields = [field("x", "long"), field("a", NESTED), field("y", "varchar(5)")]
    found = statistics_type(table(*fields, dataSkippingStatsColumns="A.b, y"), PLAIN)
    assert "`minValues`: struct<`a`: struct<`b`: string>, `y`: string>" in found
    assert "`x`" not in found


def test_statistics_of_a_table_without_columns_count_records() -> None:
    assert statistics_type(table(), PLAIN) == "struct<`numRecords`: bigint>"


def test_bounds_are_tight_or_not_with_deletion_vectors() -> None:
    vectors = Protocol(min_reader_version=3, min_writer_version=7, writer_features=("deletionVectors",))
    assert statistics_type(table(), vectors) == "struct<`numRecords`: bigint, `tightBounds`: boolean>"


def test_names_match_the_data_files() -> None:
    physical = {"delta.columnMapping.physicalName": "col`1"}
    fields = [field("id", "long", **physical), field("day", "date", **{"delta.columnMapping.physicalName": "col-2"})]
    metadata = table(*fields, partition=("day",), columnMapping_mode="name")
    assert "`col``1`: bigint" in statistics_type(metadata, PLAIN)
    assert [name for name, _ in partition_values(metadata)] == ["col-2"]


def test_partition_values_come_in_partition_order() -> None:
    metadata = table(field("a", "long"), field("b", "string"), field("x", "long"), partition=("b", "a"))
    assert [name for name, _ in partition_values(metadata)] == ["b", "a"]
