"""Columns of data files as those of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.scan.physical_schema import physical_schema, to_logical
from tests.builders import field
from tests.core.scan.changes.schemas_without_spark_builders import array, mapping, schema_of, struct

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INNER = struct(field("a", "integer"), field("v", "void"))
READ = [
    pytest.param(
        struct(field("v", "void"), field("b", INNER)),
        {"b": {"a": 1}},
        "struct<v:void,b:struct<a:int,v:void>>",
        {"v": None, "b": {"a": 1, "v": None}},
        id="structs",
    ),
    pytest.param(
        array(INNER), [{"a": 2}, None], "array<struct<a:int,v:void>>", [{"a": 2, "v": None}, None], id="array"
    ),
    pytest.param(
        mapping("string", array(INNER)),
        {"k": [{"a": 3}]},
        "map<string,array<struct<a:int,v:void>>>",
        {"k": [{"a": 3, "v": None}]},
        marks=pytest.mark.spark,  # Sail does not know the type of the values
        id="map",
    ),
    pytest.param(array("void"), [None], "array<void>", [None], id="void"),
]


@pytest.mark.parametrize(("kind", "stored", "read_as", "expected"), READ)
def test_void_fields_are_added_at_any_depth(
    spark: SparkSession, kind: Any, stored: Any, read_as: str, expected: Any
) -> None:
    """No file has them, and a cast cannot add fields."""
    schema = schema_of(field("c", kind))
    files = spark.createDataFrame([(stored,), (None,)], physical_schema(schema, "none"))
    found = files.select(to_logical(schema["c"], "none"))
    assert [each.dataType.simpleString() for each in found.schema] == [read_as]
    assert [row.asDict(recursive=True)["c"] for row in found.collect()] == [expected, None]
