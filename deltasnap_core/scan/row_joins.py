"""Joins the rows of data files with the facts that the log has about each file.

Partition values and tags are joined by the file's name (`_metadata.file_path`). Deleted rows are removed by an
anti-join on the file and the row's index (`_metadata.row_index`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F

from deltasnap_core.errors import CorruptLogError, DataFileError
from deltasnap_core.redaction import redacted
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.files.deletion_vectors import ROW_BITS
from deltasnap_core.scan.files.roaring import Rows
from deltasnap_core.scan.physical_schema import OWN_PREFIX, logical_schema
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.partition_values import shown_value
from deltasnap_core.scan.table_columns import TableColumn
from deltasnap_core.storage.concurrency import map_concurrently

_PATH, _ROW = f"{OWN_PREFIX}path", f"{OWN_PREFIX}row"
"""Columns of a row: the file that contains it, and its index in the file."""

_NAME, _HASH, _NUMBER, _VALUE = (f"{OWN_PREFIX}{name}" for name in ("name", "hash", "number", "value"))
"""Columns of a file: its name and the hash of the name, its number, its partition values (with a number appended)."""

_TAG, _LISTED = f"{OWN_PREFIX}tag", f"{OWN_PREFIX}listed"
_ROW_OF_SPARK = "_tmp_metadata_row_index"
"""The column in which Spark's Parquet source keeps the index of a row."""

_MAX_BROADCAST_ROWS = 2_000_000
"""Up to this many deleted rows are sent to every task that reads their files."""


JoinOfListed = Literal["left_anti", "left_semi"]
"""The join of all rows of a file with the listed ones: those that a vector deletes, or the only ones to read."""


def with_files(
    table: ScannedTable, rows: DataFrame, files: Sequence[DataFile], texts: Mapping[TableColumn, Sequence[str | None]]
) -> tuple[DataFrame, dict[TableColumn, Column], list[Column]]:
    """Return rows joined with the number, partition values and tags of their files, and a column for each value.

    texts: the partition values of the files. Errors: DataFileError if the data has one of the columns used here.
    """
    _check_names(table)
    metadata = rows.metadataColumn("_metadata")
    located = rows.withColumns({_PATH: metadata["file_path"], _ROW: metadata["row_index"]})
    entries = [(number, name) for number, file in enumerate(files) for name in file.names]
    arrays: dict[str, Any] = {
        _NUMBER: pa.array([number for number, _ in entries], pa.int64()),
        _NAME: pa.array([name for _, name in entries], pa.string()),
    }
    names = {column: f"{_VALUE}{index}" for index, column in enumerate(texts)}
    for column, values in texts.items():
        arrays[names[column]] = pa.array([values[number] for number, _ in entries], pa.string())
    typed = [typed_value(table, name, column).alias(name) for column, name in names.items()]
    tags = [f"{_TAG}{index}" for index in range(len(files[0].tags))]
    for index, tag in enumerate(tags):
        arrays[tag] = pa.array([files[number].tags[index] for number, _ in entries], pa.int64())
    by_file = arrow_rows(table.spark, pa.table(arrays)).select(
        _NUMBER, _NAME, F.xxhash64(_NAME).alias(_HASH), *typed, *tags
    )
    # Join by the hash, which is a number. Names are compared only if the hashes are equal.
    is_file = F.expr(f"xxhash64({_PATH}) = {_HASH} and startswith({_NAME}, {_PATH})")
    joined = located.join(F.broadcast(by_file), is_file, "left")
    # A file with an unexpected name must raise an error. It must never yield rows of another partition, or deleted
    # rows.
    unknown = F.raise_error(F.concat(F.lit("deltasnap: the plan of the scan has no file "), F.col(_PATH)))
    is_known = F.col(_NUMBER).isNotNull()
    known = joined.withColumn(_NUMBER, F.when(is_known, F.col(_NUMBER)).otherwise(unknown))

    of_file = {name: F.when(is_known, F.col(name)).otherwise(unknown) for name in (*names.values(), *tags)}
    return known, {column: of_file[name] for column, name in names.items()}, [of_file[tag] for tag in tags]


def with_listed(table: ScannedTable, rows: DataFrame, files: Sequence[DataFile], join: JoinOfListed) -> DataFrame:
    """Return rows of `with_files` without those that deletion vectors delete, or only the chosen rows.

    join: `join_of_listed` of all files. File and row are combined into one number: Spark joins by numbers several
    times as fast as by names.
    """
    found = map_concurrently(partial(_listed_rows, table), files)
    indexes = pa.array([pa.array(each) for each in found], pa.list_(pa.int64()))
    numbered = pa.table({_NUMBER: pa.array(range(len(files)), pa.int64()), _ROW: indexes})
    exploded = arrow_rows(table.spark, numbered).select(_NUMBER, F.explode(_ROW).alias(_ROW))
    keys = exploded.selectExpr(f"shiftleft({_NUMBER}, {ROW_BITS}) | {_ROW} as {_LISTED}")
    is_small = sum(map(len, found)) <= _MAX_BROADCAST_ROWS
    key = F.expr(f"(shiftleft({_NUMBER}, {ROW_BITS}) | {_ROW}) = {_LISTED}")
    return rows.join(keys.hint("broadcast" if is_small else "merge"), key, join)


def _listed_rows(table: ScannedTable, file: DataFile) -> Rows:
    if file.only is not None:
        return file.only
    assert file.vector is not None
    rows = table.vectors.rows(file.vector)
    if file.records is not None and len(rows) and rows[-1] >= file.records:
        reason = f"its deletion vector deletes row {rows[-1]}, counted from 0, of {file.records} rows"
        raise CorruptLogError(path=redacted(file.url), reason=f"version {table.version}: {reason}")
    return rows


def _check_names(table: ScannedTable) -> None:
    """Raise DataFileError if a column of the files has a name that locates rows: it would be replaced."""
    for name in (column.physical_name for column in table.columns.top if not column.is_partition):
        if name.lower() == _ROW_OF_SPARK or name.lower().startswith(OWN_PREFIX):
            reason = (
                f"it has the column {name!r}, a name that the reader uses itself to locate rows, for example those "
                "that a deletion vector deletes"
            )
            raise DataFileError(path=None, table=redacted(table.table_path), version=table.version, reason=reason)


def join_of_listed(file: DataFile) -> JoinOfListed | None:
    """Return the join of the rows of a file with the listed ones; None: no rows are listed."""
    if file.only is not None:
        return "left_semi"
    return None if file.vector is None else "left_anti"


def typed_value(table: ScannedTable, text: str, column: TableColumn) -> Column:
    """Return a partition value in the type of its column."""
    value = F.expr(shown_value(column, text))
    return value.cast(logical_schema(table.schema)[column.name].dataType)
