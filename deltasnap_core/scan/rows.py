"""Reads the rows of data files with Spark's own Parquet reader.

A file is read with the column names of the table's version; a column that it lacks is null. Partition values come from
the log, joined by the file's name (`_metadata.file_path`). Deleted rows are removed by an anti-join on the file and the
row's index (`_metadata.row_index`). Files without a deletion vector are not part of that join.

Source: PROTOCOL.md, Column Mapping; Partition Value Serialization; Deletion Vectors; Reader Requirements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from deltasnap_core.errors import CorruptLogError, DataFileNotFoundError, DataPathError
from deltasnap_core.protocol.deletion_vector import DeletionVectorDescriptor
from deltasnap_core.protocol.table_config import column_mapping_mode
from deltasnap_core.rules.sql_text import string_sql
from deltasnap_core.scan.files.data_paths import is_hidden, spark_name
from deltasnap_core.scan.files.roaring import Rows
from deltasnap_core.scan.physical_schema import logical_schema, physical_schema, to_logical
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.partition_values import is_malformed, partition_value
from deltasnap_core.scan.table_columns import TableColumn
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import redacted

_PATH, _ROW = "__deltasnap_path", "__deltasnap_row"
"""Columns of a row: the file that contains it, and its index in the file."""

_NAME, _HASH, _NUMBER, _VALUE = "__deltasnap_name", "__deltasnap_hash", "__deltasnap_number", "__deltasnap_value"
"""Columns of a file: its name and the hash of it, its number, its partition values (with a number appended)."""

_DELETED = "__deltasnap_deleted"
_ROW_BITS = 40
_MOST_BROADCAST_ROWS = 2_000_000
"""Up to this many deleted rows are sent to every task that reads their files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file: its URL, the name that Spark reads it by, its partition values, its deletion vector."""

    url: str
    readable: str
    partition_values: Mapping[str, str | None]
    vector: DeletionVectorDescriptor | None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that `_metadata.file_path` may have for it: Hadoop decides on the form of a local file's URL."""
        name = spark_name(self.readable)
        path = name.removeprefix("file:").lstrip("/")
        return (f"file:/{path}", f"file:///{path}") if name.startswith("file:") else (name,)


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the rows of files of one version of a table."""

    COLUMNS = ("path", "partitionValues", "size", "modificationTime", "deletionVector")
    """The columns of AddFile that it reads."""

    table: ScannedTable
    pushed: Sequence[str] = ()
    """Conditions that Spark may push down into the files, as in Skipping."""

    def read(self, found: Sequence[DataFile]) -> DataFrame:
        """Return the rows of files, with the columns of the table in schema order. Errors: as Scan.to_df."""
        groups = [[file for file in found if file.vector is None], [file for file in found if file.vector is not None]]
        frames = [self._rows(group) for group in groups if group]
        if not frames:
            return self.table.no_rows
        return reduce(DataFrame.unionAll, frames)

    def looked_up(self, files: DataFrame) -> list[DataFile]:
        """Return the data files to read, from files with the columns of AddFile; one Spark job.

        Errors: as Scan.to_df.
        """
        adds = (
            files.selectExpr(*self.COLUMNS, f"{self._malformed} as malformed")
            .toArrow()
            .to_pylist(maps_as_pydicts="strict")
        )
        urls = [self._checked(add) for add in adds]
        statuses = [
            FileStatus(path=url, size=add["size"] or 0, modification_time=add["modificationTime"] or 0)
            for url, add in zip(urls, adds, strict=True)
        ]
        return [
            DataFile(
                url=url,
                readable=readable,
                partition_values=add["partitionValues"] or {},
                vector=add["deletionVector"] and DeletionVectorDescriptor.from_json(add["deletionVector"]),
            )
            for url, readable, add in zip(urls, self._readable(statuses), adds, strict=True)
        ]

    @property
    def _malformed(self) -> str:
        """SQL for the name of the partition column with an invalid value; null: none."""
        tests = ((column, is_malformed(column)) for column in self.table.columns.partition)
        cases = [f"when {test} then {string_sql(column.path[0])}" for column, test in tests if test is not None]
        return f"case {' '.join(cases)} end" if cases else "null"

    def _checked(self, add: Mapping[str, Any]) -> str:
        path, malformed = add["path"], add["malformed"]
        if malformed is not None:
            (column,) = (column for column in self.table.columns.partition if column.path[0] == malformed)
            value = add["partitionValues"][column.physical_path[0]]
            raise CorruptLogError(
                path=redacted(self.table.table_path),
                reason=f"version {self.table.version}, file {path}, partition column {column.name}: "
                f"expected a value of type {column.data_type}, found {value!r}",
            )
        url = self.table.url_of(path)
        if is_hidden(url):
            raise DataPathError(
                path=path, table=redacted(self.table.table_path), reason="Spark passes over files of such a name"
            )
        return url

    def _readable(self, files: Sequence[FileStatus]) -> list[str]:
        try:
            return self.table.spark_files.readable(files)
        except FileNotFoundError as error:
            raise self._gone(str(error)) from error

    def _rows(self, files: list[DataFile]) -> DataFrame:
        """Return the rows of files that all have a deletion vector, or all have none."""
        rows = self._parquet([file.readable for file in files])
        partitions = self.table.columns.partition
        texts = {
            column: [file.partition_values.get(column.physical_path[0]) for file in files] for column in partitions
        }
        values = {column: self._typed(_literal(texts[column][0]), column) for column in partitions}
        has_vectors = files[0].vector is not None
        if has_vectors or len(set(zip(*texts.values(), strict=True))) > 1:
            metadata = rows.metadataColumn("_metadata")
            located = rows.withColumns({_PATH: metadata["file_path"], _ROW: metadata["row_index"]})
            rows, values = self._with_files(located, files, texts)
        if has_vectors:
            rows = self._without_deleted(rows, files)
        by_name = {column.path[0]: value.alias(column.path[0]) for column, value in values.items()}
        mode = column_mapping_mode(self.table.metadata.configuration)
        fields = self.table.schema.fields
        return rows.select(*(by_name[f.name] if f.name in by_name else to_logical(f, mode) for f in fields))

    def _parquet(self, paths: list[str]) -> DataFrame:
        mode = column_mapping_mode(self.table.metadata.configuration)
        partitions = {column.path[0] for column in self.table.columns.partition}
        data_fields = [field for field in self.table.schema if field.name not in partitions]
        # Treat file names literally, ignore the names of folders, and raise an error for a missing file.
        data_schema = physical_schema(type(self.table.schema)(data_fields), mode)
        reader = (
            self.table.spark.read.schema(data_schema)
            .option("__globPaths__", "false")
            .option("recursiveFileLookup", "true")
            .option("ignoreMissingFiles", "false")
            .option("ignoreCorruptFiles", "false")
        )
        if mode == "id":
            # Spark has no such option for a single read. The setting affects only schemas that have ids, which other
            # code hardly ever uses.
            self.table.spark.conf.set("spark.sql.parquet.fieldId.read.enabled", "true")
        try:
            rows = reader.parquet(*paths)
            _ = rows.schema
        except PySparkException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            raise self._gone((error.getMessageParameters() or {}).get("path", paths[0])) from error
        return reduce(DataFrame.where, self.pushed, rows)

    def _without_deleted(self, rows: DataFrame, files: list[DataFile]) -> DataFrame:
        """Return rows, joined to their files, without those that the deletion vectors delete.

        File and row are combined to one number: Spark joins by numbers several times as fast as by names.
        """
        deleted = map_concurrently(self._deleted, files)
        indexes = pa.array([pa.array(found) for found in deleted], pa.list_(pa.int64()))
        table = pa.table({_NUMBER: pa.array(range(len(files)), pa.int64()), _ROW: indexes})
        exploded = self.table.spark.createDataFrame(table).select(_NUMBER, F.explode(_ROW).alias(_ROW))
        keys = exploded.selectExpr(f"shiftleft({_NUMBER}, {_ROW_BITS}) | {_ROW} as {_DELETED}")
        is_small = sum(map(len, deleted)) <= _MOST_BROADCAST_ROWS
        key = F.expr(f"(shiftleft({_NUMBER}, {_ROW_BITS}) | {_ROW}) = {_DELETED}")
        return rows.join(keys.hint("broadcast" if is_small else "merge"), key, "left_anti")

    def _deleted(self, file: DataFile) -> Rows:
        assert file.vector is not None
        return self.table.vectors.rows(file.vector)

    def _with_files(
        self, rows: DataFrame, files: list[DataFile], texts: Mapping[TableColumn, Sequence[str | None]]
    ) -> tuple[DataFrame, dict[TableColumn, Column]]:
        """Return rows joined with the number and partition values of their files, and a typed column for each value."""
        entries = [(number, name) for number, file in enumerate(files) for name in file.names]
        arrays: dict[str, Any] = {
            _NUMBER: pa.array([number for number, _ in entries], pa.int64()),
            _NAME: pa.array([name for _, name in entries], pa.string()),
        }
        names = {column: f"{_VALUE}{index}" for index, column in enumerate(texts)}
        for column, values in texts.items():
            arrays[names[column]] = pa.array([values[number] for number, _ in entries], pa.string())
        typed = [self._typed(name, column).alias(name) for column, name in names.items()]
        by_file = self.table.spark.createDataFrame(pa.table(arrays)).select(
            _NUMBER, _NAME, F.xxhash64(_NAME).alias(_HASH), *typed
        )
        # Join by the hash, which is a number. Names are compared only if the hashes are equal.
        is_file = F.expr(f"xxhash64({_PATH}) = {_HASH} and startswith({_NAME}, {_PATH})")
        joined = rows.join(F.broadcast(by_file), is_file, "left")
        # A file with an unexpected name must raise an error. It must never yield rows of another partition, or deleted
        # rows.
        unknown = F.raise_error(F.concat(F.lit("deltasnap: the plan of the scan has no file "), F.col(_PATH)))
        is_known = F.col(_NUMBER).isNotNull()
        known = joined.withColumn(_NUMBER, F.when(is_known, F.col(_NUMBER)).otherwise(unknown))
        return known, {column: F.when(is_known, F.col(name)).otherwise(unknown) for column, name in names.items()}

    def _typed(self, text: str, column: TableColumn) -> Column:
        """Return a partition value in the type of its column."""
        value = F.expr(partition_value(column, text) or f"nullif({text}, '')")
        return value.cast(logical_schema(self.table.schema)[column.path[0]].dataType)

    def _gone(self, path: str) -> DataFileNotFoundError:
        return DataFileNotFoundError(
            path=redacted(path), table=redacted(self.table.table_path), version=self.table.version
        )


def _literal(text: str | None) -> str:
    return "cast(null as string)" if text is None else string_sql(text)
