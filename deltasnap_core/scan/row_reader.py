"""Reads the rows of data files with Spark's own Parquet reader.

A file is read with the column names of the table's version; a column that it lacks is null. Partition values come from
the log, joined by the file's name (`_metadata.file_path`). Deleted rows are removed by an anti-join on the file and the
row's index (`_metadata.row_index`). Files without a deletion vector are not part of that join. For the changes between
versions, only chosen rows of a file are read, and each row gets numbers of its file as columns.

Source: PROTOCOL.md, Column Mapping; Partition Value Serialization; Deletion Vectors; Reader Requirements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import Column, DataFrame, DataFrameReader
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from deltasnap_core.errors import CorruptLogError, DataFileNotFoundError, DataPathError, UnsupportedServerError
from deltasnap_core.protocol.deletion_vector import DeletionVectorDescriptor
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.rules.deletion_vector_ids import vector_id_sql
from deltasnap_core.rules.file_actions import values_of
from deltasnap_core.rules.texts.sql_text import string_sql
from deltasnap_core.rules.totals.num_records import num_records_sql
from deltasnap_core.scan.files.data_paths import plain_url, spark_name
from deltasnap_core.scan.files.deletion_vectors import ROW_BITS
from deltasnap_core.scan.files.roaring import Rows
from deltasnap_core.scan.physical_schema import OWN_PREFIX, logical_schema, physical_schema, to_logical
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.partition_values import is_malformed, shown_value
from deltasnap_core.scan.table_columns import TableColumn
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import is_hidden

_log = logger_of(__name__)

_PATH, _ROW = "__deltasnap_path", "__deltasnap_row"
"""Columns of a row: the file that contains it, and its index in the file."""

_NAME, _HASH, _NUMBER, _VALUE = "__deltasnap_name", "__deltasnap_hash", "__deltasnap_number", "__deltasnap_value"
"""Columns of a file: its name and the hash of the name, its number, its partition values (with a number appended)."""

_TAG, _LISTED = "__deltasnap_tag", "__deltasnap_listed"
_DELETED, _CHOSEN = "left_anti", "left_semi"
"""The join of rows with the listed rows of files: listed rows are deleted, or they are the only ones to read."""

_ROW_OF_SPARK = "_tmp_metadata_row_index"
"""The column in which Spark's Parquet source keeps the index of a row."""

_RECORDS = ("path", f"{vector_id_sql('deletionVector')} as vector", f"{num_records_sql('stats')} as records")
_NONE = "null"
_VERSION_1 = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
"""Spark's Parquet source. A session may prefer its version 2, which has no `_metadata`."""

_MAX_BROADCAST_ROWS = 2_000_000
"""Up to this many deleted rows are sent to every task that reads their files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file: its URL, the name that Spark reads it by, its partition values, its deletion vector.

    path: as in the log.
    only: the indexes of the rows to read, even if the vector deletes them; None: all rows that it does not delete.
    records: the number of rows by its statistics, only for a file with a vector; None: unknown.
    tags: a number for each of `RowReader.tags`.
    """

    path: str
    url: str
    readable: str
    partition_values: Mapping[str, str | None]
    vector: DeletionVectorDescriptor | None
    records: int | None = None
    only: Rows | None = field(default=None, compare=False)
    tags: tuple[int, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The possible values of `_metadata.file_path` for it: Hadoop has two forms for the URL of a local file."""
        name = spark_name(self.readable)
        path = name.removeprefix("file:").lstrip("/")
        return (f"file:/{path}", f"file:///{path}") if name.startswith("file:") else (name,)

    @property
    def key(self) -> tuple[str, str | None]:
        """The path in the log, and the id of the deletion vector."""
        return self.path, None if self.vector is None else self.vector.unique_id


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads the rows of files of one version of a table.

    A file may be given several times, with different deletion vectors or tags: it is opened once, or twice if both
    chosen rows and all rows are read.
    """

    COLUMNS = ("path", "partitionValues", "size", "modificationTime", "deletionVector")
    """The columns of AddFile that it reads."""

    table: ScannedTable
    pushed: Sequence[str] = ()
    """Conditions that Spark may push down into the files, as in Skipping."""

    tags: Sequence[str] = ()
    """The names of columns (long) that follow those of the table: the tags of the row's file."""

    def read(self, found: Sequence[DataFile]) -> DataFrame:
        """Return the rows of files: the columns of the table in schema order, then the tags.

        Errors: as Scan.to_df.
        """
        self._check_distinct(found)
        groups: dict[str | None, list[DataFile]] = {None: [], _DELETED: [], _CHOSEN: []}
        for file in found:
            groups[_rows_listed(file)].append(file)
        frames = [self._rows(group, listed) for listed, group in groups.items() if group]
        if not frames:
            nothing = self.table.no_rows
            return nothing.select("*", *(F.lit(None).cast("long").alias(tag) for tag in self.tags))
        return reduce(DataFrame.unionAll, frames)

    def looked_up(self, files: DataFrame) -> list[DataFile]:
        """Return the data files to read, from files with the columns of AddFile.

        One Spark job, and another one that reads the statistics of the files with a deletion vector if there are some.
        Errors: as Scan.to_df.
        """
        found = values_of(files.selectExpr(*self.COLUMNS, f"{self._malformed} as malformed").toArrow())
        if any(add["deletionVector"] for add in found):
            stated = files.where("deletionVector is not null").selectExpr(*_RECORDS).toArrow().to_pylist()
            records = {(row["path"], row["vector"]): row["records"] for row in stated}
            return [replace(file, records=records.get(file.key)) for file in self._data_files(found)]
        return self._data_files(found)

    def data_files(self, files: Sequence[Mapping[str, Any]]) -> list[DataFile]:
        """Return the data files to read, in order, from rows with COLUMNS. Spark checks only typed partition values.

        Errors: as Scan.to_df.
        """
        malformed: Sequence[str | None] = [None] * len(files)
        if files and self._malformed != _NONE:
            values = [list(file["partitionValues"].items()) for file in files]
            texts = pa.array(values, pa.map_(pa.string(), pa.string()))
            frame = self.table.spark.createDataFrame(
                pa.table({"number": pa.array(range(len(files)), pa.int64()), "partitionValues": texts})
            )
            found = frame.selectExpr("number", f"{self._malformed} as malformed").toArrow().to_pylist()
            malformed = [row["malformed"] for row in sorted(found, key=lambda row: row["number"])]
        return self._data_files([{**file, "malformed": name} for file, name in zip(files, malformed, strict=True)])

    def _data_files(self, adds: Sequence[Mapping[str, Any]]) -> list[DataFile]:
        urls = [self._checked(add) for add in adds]
        statuses = [
            FileStatus(path=url, size=add["size"] or 0, modification_time=add["modificationTime"] or 0)
            for url, add in zip(urls, adds, strict=True)
        ]
        if statuses and self.table.spark_files.copies_all:
            # Fail early if the server cannot read rows, before more files are copied.
            self._parquet(self._readable(statuses[:1]))
        return [
            DataFile(
                path=add["path"],
                url=url,
                readable=readable,
                partition_values=add["partitionValues"] or {},
                vector=add["deletionVector"] and self._vector(url, add["deletionVector"]),
            )
            for url, readable, add in zip(urls, self._readable(statuses), adds, strict=True)
        ]

    def _check_distinct(self, files: Sequence[DataFile]) -> None:
        """Raise CorruptLogError if two actions name one file: Spark would read it once or twice, as it plans."""
        seen: dict[object, DataFile] = {}
        for file in files:
            key = plain_url(file.url), file.vector and file.vector.unique_id, file.tags, file.only is None
            other = seen.setdefault(key, file)
            if other is not file:
                raise CorruptLogError(
                    path=redacted(self.table.table_path),
                    reason=f"version {self.table.version}: {other.path} and {file.path} name the same data file",
                )

    def warn_of_repeated(self, files: Sequence[DataFile]) -> None:
        """Log a warning if the files of one version have a data file several times, with different deletion vectors.

        No commit may do this. Each of them counts as a file of its own, in all results, as in Delta.
        Source: PROTOCOL.md, Add File and Remove File.
        """
        if all(file.vector is None for file in files):
            return
        counts = Counter(plain_url(file.url) for file in files)
        repeated = [url for url, count in counts.items() if count > 1]
        if repeated:
            _log.warning(
                "Version %s of %s has %d data files several times, with different deletion vectors, so their rows are "
                "repeated. The first is %s", self.table.version, redacted(self.table.table_path), len(repeated),
                redacted(repeated[0]),
            )  # fmt: skip

    def _vector(self, url: str, values: object) -> DeletionVectorDescriptor:
        try:
            return DeletionVectorDescriptor.from_json(values)
        except ValueError as error:
            path, reason = redacted(self.table.table_path), f"the deletion vector of {redacted(url)}: {error}"
            raise CorruptLogError(path=path, reason=reason) from error

    @property
    def _malformed(self) -> str:
        """SQL for the name of the partition column with an invalid value; null: none."""
        tests = ((column, is_malformed(column)) for column in self.table.columns.partition)
        cases = [f"when {test} then {string_sql(column.path[0])}" for column, test in tests if test is not None]
        return f"case {' '.join(cases)} end" if cases else _NONE

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
                path=path, table=redacted(self.table.table_path), reason="Spark skips files with such a name"
            )
        return url

    def _readable(self, files: Sequence[FileStatus]) -> list[str]:
        try:
            return self.table.spark_files.readable(files)
        except FileNotFoundError as error:
            raise self._gone(str(error)) from error

    def _rows(self, files: list[DataFile], listed: str | None) -> DataFrame:
        """Return the rows of files. listed: the meaning of the rows that are listed for all of them; None: no list."""
        rows = self._parquet(list(dict.fromkeys(file.readable for file in files)))
        partitions = self.table.columns.partition
        texts = {
            column: [file.partition_values.get(column.physical_path[0]) for file in files] for column in partitions
        }
        values = {column: self._typed(_literal(texts[column][0]), column) for column in partitions}
        tags = [F.lit(number).cast("long") for number in files[0].tags]
        is_same = len({file.tags for file in files}) == 1 and len(set(zip(*texts.values(), strict=True))) <= 1
        if listed or not is_same:
            self._check_names()
            metadata = rows.metadataColumn("_metadata")
            located = rows.withColumns({_PATH: metadata["file_path"], _ROW: metadata["row_index"]})
            rows, values, tags = self._with_files(located, files, texts)
        if listed:
            rows = self._of_listed(rows, files, listed)
        by_name = {column.path[0]: value.alias(column.path[0]) for column, value in values.items()}
        mode = self.table.columns.mapping_mode
        fields = self.table.schema.fields
        return rows.select(
            *(by_name[f.name] if f.name in by_name else to_logical(f, mode) for f in fields),
            *(value.alias(name) for name, value in zip(self.tags, tags, strict=True)),
        )

    def _check_names(self) -> None:
        """Raise CorruptLogError if a column of the files has a name that locates rows: it would be replaced."""
        for name in (column.physical_path[0] for column in self.table.columns.top if not column.is_partition):
            if name.lower() == _ROW_OF_SPARK or name.lower().startswith(OWN_PREFIX):
                reason = f"metadata of version {self.table.version}: the reader uses the column name {name!r} itself"
                raise CorruptLogError(path=redacted(self.table.table_path), reason=reason)

    def _parquet(self, paths: list[str]) -> DataFrame:
        mode = self.table.columns.mapping_mode
        partitions = {column.path[0] for column in self.table.columns.partition}
        data_fields = [field for field in self.table.schema if field.name not in partitions]
        # Treat file names literally, ignore the names of folders, and raise an error for a missing file.
        reader = (
            self.table.spark.read.schema(physical_schema(StructType(data_fields), mode))
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
            rows = _with_metadata(reader, paths)
        except UnsupportedOperationException as error:
            reason = "it has no column _metadata with the file and the index of a row"
            raise UnsupportedServerError(work="read the rows of a table", reason=reason) from error
        except PySparkException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                _ = self.table.no_rows  # raises CorruptLogError if the schema is the cause
                raise
            raise self._gone((error.getMessageParameters() or {}).get("path", paths[0])) from error
        return reduce(DataFrame.where, self.pushed, rows)

    def _of_listed(self, rows: DataFrame, files: list[DataFile], listed: str) -> DataFrame:
        """Return rows joined with their files, without those that deletion vectors delete, or only the chosen rows.

        File and row are combined into one number: Spark joins by numbers several times as fast as by names.
        """
        found = map_concurrently(self._listed_rows, files)
        indexes = pa.array([pa.array(each) for each in found], pa.list_(pa.int64()))
        table = pa.table({_NUMBER: pa.array(range(len(files)), pa.int64()), _ROW: indexes})
        exploded = self.table.spark.createDataFrame(table).select(_NUMBER, F.explode(_ROW).alias(_ROW))
        keys = exploded.selectExpr(f"shiftleft({_NUMBER}, {ROW_BITS}) | {_ROW} as {_LISTED}")
        is_small = sum(map(len, found)) <= _MAX_BROADCAST_ROWS
        key = F.expr(f"(shiftleft({_NUMBER}, {ROW_BITS}) | {_ROW}) = {_LISTED}")
        return rows.join(keys.hint("broadcast" if is_small else "merge"), key, listed)

    def _listed_rows(self, file: DataFile) -> Rows:
        if file.only is not None:
            return file.only
        assert file.vector is not None
        rows = self.table.vectors.rows(file.vector)
        if file.records is not None and len(rows) and rows[-1] >= file.records:
            reason = f"its deletion vector deletes row {rows[-1]}, counted from 0, of {file.records} rows"
            raise CorruptLogError(path=redacted(file.url), reason=f"version {self.table.version}: {reason}")
        return rows

    def _with_files(
        self, rows: DataFrame, files: list[DataFile], texts: Mapping[TableColumn, Sequence[str | None]]
    ) -> tuple[DataFrame, dict[TableColumn, Column], list[Column]]:
        """Return rows joined with the number, partition values and tags of their files, and a column for each value."""
        entries = [(number, name) for number, file in enumerate(files) for name in file.names]
        arrays: dict[str, Any] = {
            _NUMBER: pa.array([number for number, _ in entries], pa.int64()),
            _NAME: pa.array([name for _, name in entries], pa.string()),
        }
        names = {column: f"{_VALUE}{index}" for index, column in enumerate(texts)}
        for column, values in texts.items():
            arrays[names[column]] = pa.array([values[number] for number, _ in entries], pa.string())
        typed = [self._typed(name, column).alias(name) for column, name in names.items()]
        tags = [f"{_TAG}{index}" for index in range(len(self.tags))]
        for index, tag in enumerate(tags):
            arrays[tag] = pa.array([files[number].tags[index] for number, _ in entries], pa.int64())
        by_file = self.table.spark.createDataFrame(pa.table(arrays)).select(
            _NUMBER, _NAME, F.xxhash64(_NAME).alias(_HASH), *typed, *tags
        )
        # Join by the hash, which is a number. Names are compared only if the hashes are equal.
        is_file = F.expr(f"xxhash64({_PATH}) = {_HASH} and startswith({_NAME}, {_PATH})")
        joined = rows.join(F.broadcast(by_file), is_file, "left")
        # A file with an unexpected name must raise an error. It must never yield rows of another partition, or deleted
        # rows.
        unknown = F.raise_error(F.concat(F.lit("deltasnap: the plan of the scan has no file "), F.col(_PATH)))
        is_known = F.col(_NUMBER).isNotNull()
        known = joined.withColumn(_NUMBER, F.when(is_known, F.col(_NUMBER)).otherwise(unknown))

        def of_file(name: str) -> Column:
            return F.when(is_known, F.col(name)).otherwise(unknown)

        return known, {column: of_file(name) for column, name in names.items()}, [of_file(tag) for tag in tags]

    def _typed(self, text: str, column: TableColumn) -> Column:
        """Return a partition value in the type of its column."""
        value = F.expr(shown_value(column, text))
        return value.cast(logical_schema(self.table.schema)[column.path[0]].dataType)

    def _gone(self, path: str) -> DataFileNotFoundError:
        return DataFileNotFoundError(
            path=redacted(path), table=redacted(self.table.table_path), version=self.table.version
        )


def _with_metadata(reader: DataFrameReader, paths: list[str]) -> DataFrame:
    """Return the rows of Parquet files, by a source that has the column `_metadata`.

    Without this column, no plan can distinguish the rows of two files.
    """
    rows = reader.parquet(*paths)
    try:
        _ = rows.select("*", rows.metadataColumn("_metadata")["row_index"].alias(_ROW)).schema
    except AnalysisException as error:
        if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            raise
        return reader.format(_VERSION_1).load(paths)
    return rows


def _rows_listed(file: DataFile) -> str | None:
    if file.only is not None:
        return _CHOSEN
    return None if file.vector is None else _DELETED


def _literal(text: str | None) -> str:
    return "cast(null as string)" if text is None else string_sql(text)
