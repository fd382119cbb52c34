"""Small DataFrames from values of the driver. Built from Arrow: with Python objects, executors would need Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

FAIL_FAST = {"mode": "FAILFAST", "columnNameOfCorruptRecord": "no column has this name"}
"""Options of Spark's JSON parser. In its default mode, an invalid line becomes null and its action is lost.

The session may give invalid lines a column that a schema has, such as `add`. Spark refuses that even here.
"""


def local_rows(spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: StructType) -> DataFrame:
    """Return rows of plain JSON values as a DataFrame. Missing fields are null; every field may be missing."""
    lines = pa.table({"line": pa.array([json.dumps(row) for row in rows], pa.string())})
    return arrow_rows(spark, lines).select(F.from_json("line", schema, FAIL_FAST).alias("row")).select("row.*")


def arrow_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return the rows of an Arrow table as a DataFrame.

    Spark Connect rejects empty tables. Spark (4.3) loses the rows that follow an empty chunk.
    """
    batches = [batch for batch in rows.to_batches() if batch.num_rows]
    if not batches:
        return no_rows(spark, from_arrow_schema(rows.schema))
    return spark.createDataFrame(pa.Table.from_batches(batches))


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a DataFrame without rows."""
    # Use one struct: each expression takes several calls to Spark, which is slow for thousands of columns.
    return spark.range(0).select(F.lit(None).cast(schema).alias("row")).select("row.*")
