"""The rows of data files, read with Spark's own Parquet reader.

A file is read with the column names of the table's version; a column that it lacks is null.

Source: PROTOCOL.md, Column Mapping; Reader Requirements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql.types import StructType

from deltasnap_core.replay.spark.session.spark_files import NAMED_FILES
from deltasnap_core.scan.physical_schema import OWN_PREFIX, physical_schema
from deltasnap_core.scan.scanned_table import ScannedTable

_VERSION_1 = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
"""Spark's Parquet source. A session may prefer its version 2, which has no `_metadata`."""


def parquet_rows(table: ScannedTable, paths: list[str], pushed: Sequence[str]) -> DataFrame:
    """Return the rows of files of one version of a table, with the physical columns.

    paths:  the names that Spark reads them by. pushed: conditions that Spark may push down into them, as in Skipping.
    Errors: as Scan.to_df.
    """
    mode = table.columns.mapping_mode
    partitions = {column.name for column in table.columns.partition}
    data_fields = [field for field in table.schema if field.name not in partitions]
    reader = table.spark.read.schema(physical_schema(StructType(data_fields), mode))
    # The log has the partition values: Spark must not derive them from the names of folders.
    reader = reader.options(**NAMED_FILES, recursiveFileLookup="true")
    if mode == "id":
        # Spark has no such option for a single read. The setting affects only schemas that have ids, which other
        # code hardly ever uses.
        table.spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
    try:
        rows = _with_metadata(reader, paths)
    except PySparkException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            _ = table.no_rows  # raises CorruptLogError if the schema is the cause
            raise
        raise table.missing_file((error.getMessageParameters() or {}).get("path", paths[0])) from error
    return reduce(DataFrame.where, pushed, rows)


def _with_metadata(reader: DataFrameReader, paths: list[str]) -> DataFrame:
    """Return the rows of Parquet files, by a source that has the column `_metadata`.

    Without this column, no plan can distinguish the rows of two files.
    """
    rows = reader.parquet(*paths)
    try:
        _ = rows.select("*", rows.metadataColumn("_metadata")["row_index"].alias(f"{OWN_PREFIX}row")).schema
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            raise
        return reader.format(_VERSION_1).load(paths)
    return rows
