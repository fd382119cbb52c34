"""Rows collected as Arrow, and conditions on the rows of metadata tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from deltasnap_core import Table, open_table
from deltasnap_core.errors import DataFileError, PredicateError
from deltasnap_core.support import collected_rows, filtered_rows
from tests.builders import add, commit_info, metadata, protocol, write_log
from tests.core.scan.collected_rows_builders import _VALUES, ONE, THREE, VARIANT, assert_null_variants, collected, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_null_variants_are_null_and_the_others_keep_their_type(spark: SparkSession) -> None:
    assert_null_variants(spark)


def test_variants_without_nulls_are_as_from_spark(spark: SparkSession) -> None:
    rows = spark.sql(f"select v from ({_VALUES}) where v is not null order by id")
    assert collected_rows(rows)["v"].to_pylist() == rows.toArrow()["v"].to_pylist()
    assert collected_rows(rows)["v"].type.equals(VARIANT, check_metadata=True)


def test_nulls_in_required_fields_can_be_written_and_cast(spark: SparkSession, tmp_path: Path) -> None:
    names = "v, array(v, null) as vs, if(id = 0, null, struct(id)) as s"
    found = collected(spark, names)
    pq.write_table(found, tmp_path / "rows.parquet")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == found.to_pylist()
    plain_type = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    assert found["vs"].cast(pa.list_(plain_type)).to_pylist() == found["vs"].to_pylist()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("array(v, null, v)", [[None] * 3, [ONE, None, ONE], [None] * 3, [THREE, None, THREE], None]),
        pytest.param(
            "map('x', v)", [[("x", None)], [("x", ONE)], [("x", None)], [("x", THREE)], None], marks=pytest.mark.spark
        ),
        (
            "named_struct('s', if(id = 0, null, struct(v)), 'n', nullif(id, 1))",
            [
                {"s": s, "n": n}
                for s, n in zip([None, {"v": ONE}, {"v": None}, {"v": THREE}], [0, None, 2, 3], strict=True)
            ]
            + [None],
        ),
        ("struct(v, id)", [{"v": v, "id": n} for n, v in enumerate([None, ONE, None, THREE])] + [None]),
        pytest.param(
            "struct(array(struct(map(id, array(v)) as m)) as `a.b`)",
            [{"a.b": [{"m": [(n, [v])]}]} for n, v in enumerate([None, ONE, None, THREE])] + [None],
            marks=pytest.mark.spark,
        ),
        ("struct(id, timestamp'2026-01-01' as t, 1.5 as d).id", [0, 1, 2, 3, None]),
    ],
)
def test_null_variants_inside_other_types_are_null(spark: SparkSession, sql: str, expected: list[object]) -> None:
    (found,) = collected(spark, f"if(id = 4, null, {sql}) as x").columns
    assert plain(found.to_pylist()) == expected


def test_struct_with_required_fields_may_be_null(spark: SparkSession) -> None:
    found = collected_rows(
        spark.sql("select if(id = 0, null, struct(id, array(id) as a)) as s from range(2) order by id")
    )
    assert found["s"].to_pylist() == [None, {"id": 1, "a": [1]}]


def test_columns_without_rows_keep_their_types(spark: SparkSession) -> None:
    found = collected_rows(spark.sql(f"select id, v, array(v) as a from ({_VALUES}) where id < 0"))
    assert (found.num_rows, found.schema.types) == (0, [pa.int64(), VARIANT, pa.list_(pa.field("element", VARIANT))])


@pytest.mark.spark
def test_predicate_that_fails_for_a_row_is_a_predicate_error(spark: SparkSession) -> None:
    rows = spark.sql(f"select v from ({_VALUES}) where 1 / id > 0")
    with pytest.raises(PredicateError, match="DIVIDE_BY_ZERO"):
        collected_rows(rows, "1 / id > 0")


class Collected:
    """Rows that Spark has collected."""

    columns = ("id", "name")
    schema = StructType([StructField("id", LongType()), StructField("name", StringType())])

    def __init__(self, name: bytes) -> None:
        texts = pa.Array.from_buffers(
            pa.string(), 1, [None, pa.py_buffer(bytes((0, 0, 0, 0, 2, 0, 0, 0))), pa.py_buffer(name)]
        )
        self._rows = pa.table({"id": [1], "name": texts})

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._rows


def test_text_that_is_not_utf_8_is_an_error_with_its_column() -> None:
    valid: Any = Collected(b"ab")
    invalid: Any = Collected(b"\xff\xfe")
    assert collected_rows(valid).to_pydict() == {"id": [1], "name": ["ab"]}
    with pytest.raises(
        DataFileError, match="of a Delta table: expected texts in UTF-8 in column name, found other bytes"
    ):
        collected_rows(invalid)


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def table(tmp_path: Path, spark: SparkSession) -> Table:
    """A table with a commit and two files."""
    write_log(tmp_path, {0: [commit_info("MERGE"), protocol(), metadata(), add("a", size=10), add("b", size=20)]})
    return open_table(tmp_path, spark=spark)


def test_condition_is_on_the_columns_of_the_metadata_table(table: Table) -> None:
    files = table.files().to_spark()
    found = filtered_rows(table.snapshot.scanned_table(), files, "size > 10 and path like '_'")
    assert [row["path"] for row in found.collect()] == ["b"]
    history = table.history().to_spark()
    found = filtered_rows(table.snapshot.scanned_table(), history, "operation = 'MERGE'")
    assert [row["version"] for row in found.collect()] == [0]


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("size > (select 1)", "a query cannot be used here"),
        ("reflect('java.lang.System', 'exit') = 'x'", "a function that calls Java cannot be used here"),
        ("max(size) > 1", "an aggregate cannot be used here"),
        ("id = 1", "the table has no column id; it has path,"),
        (" and ".join(["size > 1"] * 1001), "expected at most 1,000 conditions"),
    ],
    ids=["query", "Java", "aggregate", "a column of the table", "conditions"],
)
def test_condition_has_the_limits_of_a_scan(where: str, reason: str, table: Table) -> None:
    with pytest.raises(PredicateError, match=reason):
        filtered_rows(table.snapshot.scanned_table(), table.files().to_spark(), where)
