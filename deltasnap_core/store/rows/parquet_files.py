"""Reads and writes Parquet files of the snapshot store with Spark, on any storage."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from deltasnap_core.errors import CorruptStoreError
from deltasnap_core.log.checkpoints.verified_parquet import damage_as
from deltasnap_core.replay.sessions import SparkProvider
from deltasnap_core.replay.spark.session.local_rows import no_rows
from deltasnap_core.replay.spark.session.parquet_writing import write_parquet
from deltasnap_core.replay.spark.session.spark_files import SparkFiles, file_reader
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import StoreFile
from deltasnap_core.store.rows.row_groups import KEY_COLUMN, ROWS_A_GROUP, ROWS_A_PAGE, footer_digest, read_footer

_OPTIONS = {
    "compression": "zstd",
    # The default, 3, takes a tenth more CPU time for a base, which is hardly smaller.
    "parquet.compression.codec.zstd.level": "1",
}
_BY_KEY = {
    **_OPTIONS,
    "parquet.page.row.count.limit": str(ROWS_A_PAGE),
    "parquet.block.row.count.limit": str(ROWS_A_GROUP),  # before Parquet 1.16 (Spark 4.1), groups stay large
    # In each of the groups, statistics of other columns would only make the footer larger.
    "parquet.column.statistics.enabled": "false",
    f"parquet.column.statistics.enabled#{KEY_COLUMN}": "true",
    "parquet.size.statistics.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFiles:
    """Reads and writes Parquet files below a folder (a URL): that of a generation, for the paths of its StoreFiles."""

    sessions: SparkProvider
    storage: WritableFiles
    spark_files: SparkFiles
    folder: str

    @property
    def _spark(self) -> SparkSession:
        return self.sessions.session("rows of the snapshot store")

    def below(self, folder: str) -> ParquetFiles:
        """Return the same object for another folder."""
        return replace(self, folder=folder)

    def write(
        self, rows: DataFrame, path: str, *, partition_by: str | None = None, keep_empty: bool = False
    ) -> tuple[StoreFile, ...]:
        """Write rows into a new folder, and return its files, ordered by path.

        partition_by: a column that becomes one folder for each value, `column=value`.
        keep_empty:   keep the empty file that Spark writes if there are no rows, for its schema.
        """
        target = join_url(self.folder, path)
        write_parquet(self.spark_files, rows, target, _OPTIONS, partition_by=partition_by)
        found = self._written(target, keep_empty)
        if found or not keep_empty:
            return found
        # A server that is not Apache Spark may write no file.
        content = BytesIO()
        pq.write_table(to_arrow_schema(rows.schema).empty_table(), content)
        self.storage.write(join_url(target, "empty.parquet"), content.getvalue())
        return self._written(target, keep_empty)

    def write_by_key(self, rows: DataFrame, path: str) -> tuple[StoreFile, ...]:
        """Write rows into a new folder, each file sorted by key in small row groups. Return the files, by path."""
        target = join_url(self.folder, path)
        write_parquet(self.spark_files, rows.sortWithinPartitions(KEY_COLUMN), target, _BY_KEY)
        return self._written(target, keep_empty=False)

    def read(self, files: Iterable[StoreFile], schema: StructType) -> DataFrame | None:
        """Return the rows of files, read with an explicit schema; missing columns are null.

        None: there are no files.
        """
        found = list(files)
        return self._read(found, schema) if found else None

    def read_file(self, file: StoreFile, schema: StructType) -> DataFrame:
        """Return the rows of one file, read with an explicit schema."""
        return self._read([file], schema)

    def _read(self, files: list[StoreFile], schema: StructType) -> DataFrame:
        self.storage.on_each(self._check_footer, files)
        # Path and size identify the rows of a file: no need to request its time.
        statuses = [
            FileStatus(path=join_url(self.folder, file.path), size=file.size, modification_time=0) for file in files
        ]
        return file_reader(self._spark).schema(schema).parquet(*self.spark_files.readable(statuses))

    def no_rows(self, schema: StructType) -> DataFrame:
        """Return a DataFrame without rows."""
        return no_rows(self._spark, schema)

    def _written(self, target: str, keep_empty: bool) -> tuple[StoreFile, ...]:
        statuses = self.storage.walk(target)
        written = {status.path: self._data_file(status) for status in statuses if status.name.endswith(".parquet")}
        kept = {path: file for path, file in written.items() if file.rows or keep_empty}
        # Spark leaves checksum files beside local files, and an empty file if there are no rows.
        self.storage.delete(status.path for status in statuses if status.path not in kept)
        return tuple(kept.values())

    def _data_file(self, status: FileStatus) -> StoreFile:
        footer = self._footer(status.path, status.size)
        with damage_as(partial(_corrupt, status.path, "expected the Parquet just written")):
            rows = pq.read_metadata(BytesIO(footer)).num_rows
        path = status.path.removeprefix(join_url(self.folder, ""))
        return StoreFile(path=path, size=status.size, rows=rows, footer=footer_digest(footer))

    def _check_footer(self, file: StoreFile) -> None:
        if file.footer is not None:
            self._footer(join_url(self.folder, file.path), file.size, file.footer)

    def _footer(self, path: str, size: int, written: str | None = None) -> bytes:
        with damage_as(partial(_corrupt, path, "its footer could not be read")), self.storage.open(path) as stream:
            return read_footer(stream, size, written)


def _corrupt(path: str, problem: str, error: Exception) -> CorruptStoreError:
    return CorruptStoreError(path=path, reason=f"{problem}: {error}")
