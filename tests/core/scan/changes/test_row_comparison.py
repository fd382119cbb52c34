"""Which deleted and inserted rows are equal."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from deltasnap_core.scan.changes.changed_rows import CHANGE_COLUMNS
from deltasnap_core.scan.changes.row_comparison import difference, net_changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAP = pa.map_(pa.string(), pa.float64())
_DEEP = pa.struct([("x", pa.float32()), ("y", pa.list_(_MAP))])


EQUAL = {
    "null": (pa.int64(), None, None),
    "NaN": (pa.float64(), math.nan, math.nan),
    "map in another order": (_MAP, [("k", 1.0), ("l", None)], [("l", None), ("k", 1.0)]),
    "both inside others": (
        _DEEP,
        {"x": math.nan, "y": [[("k", 1.0), ("l", 2.0)], None]},
        {"x": math.nan, "y": [[("l", 2.0), ("k", 1.0)], None]},
    ),
}
DIFFERENT = {
    "sign of zero": (pa.float64(), 0.0, -0.0),
    "value of a map": (_MAP, [("k", 1.0)], [("k", None)]),
    "empty map and null": (_MAP, [], None),
    "sign in a struct": (_DEEP, {"x": 0.0, "y": []}, {"x": -0.0, "y": []}),
    "null fields and null": (_DEEP, {"x": None, "y": None}, None),
    "sign inside others": (_DEEP, {"x": 1.0, "y": [[("k", 0.0)]]}, {"x": 1.0, "y": [[("k", -0.0)]]}),
}


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), _MAP, _DEEP], ids=["long", "double", "map", "struct"])
def test_equal_rows_are_no_change_and_others_are_a_delete_and_an_insert(spark: SparkSession, kind: pa.DataType) -> None:
    """A version deletes a row and inserts another one, for each case with values of the type."""
    time = pa.timestamp("us", "UTC")
    extra = zip(CHANGE_COLUMNS, (pa.string(), pa.int64(), time), strict=True)
    schema = pa.schema([("a b", kind), *extra, ("case", pa.string())])
    cases = {name: values for name, (of, *values) in (EQUAL | DIFFERENT).items() if of == kind}
    rows = [
        {
            "a b": value,
            **dict(zip(CHANGE_COLUMNS, (change, 7, datetime(2026, 1, 1, tzinfo=UTC)), strict=True)),
            "case": name,
        }
        for name, values in cases.items()
        for value, change in zip(values, ("delete", "insert"), strict=True)
    ]
    compared = from_arrow_schema(pa.schema([schema.field("a b"), schema.field("case")]))
    found = difference(spark.createDataFrame(pa.Table.from_pylist(rows, schema)), compared).collect()
    expected = [(name, change) for name in cases if name in DIFFERENT for change in ("delete", "insert")]
    assert sorted((row["case"], row["_change_type"]) for row in found) == sorted(expected)


def test_key_may_be_a_field_of_a_struct(spark: SparkSession) -> None:
    place = pa.struct([("x.y", pa.float64()), ("city", pa.string())])
    extra = zip(CHANGE_COLUMNS, (pa.string(), pa.int64(), pa.timestamp("us", "UTC")), strict=True)
    rows: list[tuple[float | None, str, str, int]] = [
        (0.0, "A", "delete", 7), (0.0, "B", "insert", 8), (-0.0, "C", "insert", 7), (None, "D", "insert", 8),
    ]  # fmt: skip
    changes = [
        {"place": {"x.y": x, "city": city}, **dict(zip(CHANGE_COLUMNS, (change, version), strict=False))}
        for x, city, change, version in rows
    ]
    table = pa.Table.from_pylist(changes, pa.schema([("place", place), *extra]))
    compared = from_arrow_schema(table.select(["place"]).schema)
    found = net_changes(spark.createDataFrame(table), compared, [("place", "x.y")]).collect()
    assert sorted((row["place"]["city"], row["_change_type"], row["_commit_version"]) for row in found) == [
        ("A", "delete", 8), ("B", "insert", 8), ("C", "insert", 7), ("D", "insert", 8),
    ]  # fmt: skip
