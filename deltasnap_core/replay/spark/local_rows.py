"""Small DataFrames of what the driver knows. Made of Arrow: from Python objects, executors would need Python."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

_FAIL_FAST = {"mode": "FAILFAST"}


def local_rows(spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: StructType) -> DataFrame:
    """Return rows, each an object of plain JSON values, as a DataFrame; fields left out are null, and all may be."""
    lines = pa.table({"line": pa.array([json.dumps(row) for row in rows], pa.string())})
    return arrow_rows(spark, lines).select(F.from_json("line", schema, _FAIL_FAST).alias("row")).select("row.*")


def arrow_rows(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Return the rows of an Arrow table as a DataFrame. There may be none: Spark Connect refuses such a table."""
    return spark.createDataFrame(rows) if rows.num_rows else no_rows(spark, from_arrow_schema(rows.schema))


def no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    """Return a DataFrame without rows."""
    # As one struct: each expression is several calls to Spark, which thousands of columns would make slow.
    return spark.range(0).select(F.lit(None).cast(schema).alias("row")).select("row.*")
