"""Which deleted and inserted rows are equal."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from deltasnap_core.scan.changes.change_columns import CHANGE_COLUMNS
from deltasnap_core.scan.changes.row_comparison import RowComparison

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAP = pa.map_(pa.string(), pa.float64())
_DEEP = pa.struct([("x", pa.float32()), ("y", pa.list_(_MAP))])


def difference(spark: SparkSession, kind: pa.DataType, deleted: Any, inserted: Any) -> list[str]:
    """Return the changes that remain of a version that deletes a row and inserts a row, with these values."""
    time = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [("a b", kind), *zip(CHANGE_COLUMNS, (pa.string(), pa.int64(), time), strict=True), ("same", pa.int64())]
    )
    at = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [[value, change, 7, at, 1] for value, change in ((deleted, "delete"), (inserted, "insert"))]
    changes = spark.createDataFrame(
        pa.table(
            [pa.array(each, field.type) for each, field in zip(zip(*rows, strict=True), schema, strict=True)],
            schema=schema,
        )
    )
    compared = RowComparison(from_arrow_schema(pa.schema([schema.field("a b"), schema.field("same")])))
    return sorted(row["_change_type"] for row in compared.difference(changes).collect())


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.int64(), None, None),
        (pa.float64(), math.nan, math.nan),
        (_MAP, [("k", 1.0), ("l", None)], [("l", None), ("k", 1.0)]),
        (
            _DEEP,
            {"x": math.nan, "y": [[("k", 1.0), ("l", 2.0)], None]},
            {"x": math.nan, "y": [[("l", 2.0), ("k", 1.0)], None]},
        ),
    ],
    ids=["null", "NaN", "map in another order", "both inside others"],
)
def test_equal_rows_are_no_change(spark: SparkSession, kind: pa.DataType, one: Any, other: Any) -> None:
    assert difference(spark, kind, one, other) == []


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (pa.float64(), 0.0, -0.0),
        (_MAP, [("k", 1.0)], [("k", None)]),
        (_MAP, [], None),
        (_DEEP, {"x": 0.0, "y": []}, {"x": -0.0, "y": []}),
        (_DEEP, {"x": None, "y": None}, None),
        (_DEEP, {"x": 1.0, "y": [[("k", 0.0)]]}, {"x": 1.0, "y": [[("k", -0.0)]]}),
    ],
    ids=[
        "sign of zero",
        "value of a map",
        "empty map and null",
        "sign in a struct",
        "null fields and null",
        "sign inside others",
    ],
)
def test_other_rows_are_a_delete_and_an_insert(spark: SparkSession, kind: pa.DataType, one: Any, other: Any) -> None:
    assert difference(spark, kind, one, other) == ["delete", "insert"]
