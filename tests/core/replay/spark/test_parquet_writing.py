"""Where and how Spark writes Parquet. Its writer is a fake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

from deltasnap_core.errors import StorageError
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.replay.spark.session.parquet_writing import write_parquet
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.storage.urls import local_path, to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from tests.core.replay.spark.spark_files_builders import Probe


class Rows:
    """A DataFrame and its writer. files: what Spark writes, by name; error: what it raises instead."""

    schema = StructType([StructField("id", LongType())])

    def __init__(self, files: dict[str, bytes] | None = None, error: Exception | None = None) -> None:
        self.write = self
        self.calls: list[Any] = []
        self._files, self._error = files or {}, error

    def options(self, **options: str) -> Rows:
        self.calls.append(options)
        return self

    def partitionBy(self, column: str) -> Rows:  # noqa: N802
        self.calls.append(column)
        return self

    def parquet(self, url: str) -> None:
        self.calls.append(url)
        if self._error is not None:
            raise self._error
        for name, content in self._files.items():
            file = Path(local_path(url), name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)


OPTIONS = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", "maxRecordsPerFile": "0", "compression": "zstd"}


def test_rows_are_written_where_spark_can_write(tmp_path: Path) -> None:
    rows, target = Rows({"part-0.parquet": b"rows"}), to_url(tmp_path / "rows")
    frame: Any = rows
    write_parquet(SparkFiles(None, Probe("file")), frame, target, {"compression": "zstd"})
    assert rows.calls == [OPTIONS, target]
    assert (tmp_path / "rows" / "part-0.parquet").read_bytes() == b"rows"


def test_rows_are_uploaded_to_a_storage_that_spark_cannot_write(tmp_path: Path) -> None:
    rows, target = Rows({"version=1/part-0.parquet": b"rows"}), f"memory://{tmp_path.name}/rows"
    frame: Any = rows
    write_parquet(SparkFiles({}, Probe()), frame, target, {"compression": "zstd"}, partition_by="version")
    options, column, url = rows.calls
    assert (options, column, Path(local_path(url)).exists()) == (OPTIONS, "version", False)
    assert fsspec.filesystem("memory").cat(f"{target}/version=1/part-0.parquet") == b"rows"


def test_failure_to_write_names_the_folder(tmp_path: Path) -> None:
    denied: Any = Rows(error=PySparkException("java.nio.file.AccessDeniedException: denied"))
    with pytest.raises(StorageError, match="Check that you may write to this folder") as raised:
        write_parquet(SparkFiles(None, Probe("file")), denied, to_url(tmp_path / "rows"), {})
    assert raised.value.path == to_url(tmp_path / "rows")
    stopped: Any = Rows(error=Py4JError("stopped"))
    with pytest.raises(Py4JError, match="stopped"):
        write_parquet(SparkFiles(None, Probe("file")), stopped, to_url(tmp_path / "rows"), {})


def test_empty_file_is_kept_for_its_schema_only_on_request(tmp_path: Path) -> None:
    """Spark writes one, a server that is not Apache Spark may write none."""
    url = to_url(tmp_path)
    files = ParquetFiles(
        sessions=GivenSession(None), storage=WritableFiles(url), spark_files=SparkFiles(None, Probe("file")), folder=url
    )
    frame: Any = Rows()
    assert files.write(frame, "all_files") == ()
    (kept,) = files.write(frame, "all_files", keep_empty=True)
    assert (kept.path, kept.rows) == ("all_files/empty.parquet", 0)
    written = tmp_path / "all_files" / "empty.parquet"
    assert (kept.size, pq.read_schema(written).names) == (written.stat().st_size, ["id"])
    again: Any = Rows({"part-0.parquet": written.read_bytes(), ".part-0.parquet.crc": b"checksum"})
    assert files.write(again, "tombstones") == ()
    assert not (tmp_path / "tombstones").exists()
    (found,) = files.write(again, "tombstones", keep_empty=True)
    assert found.path == "tombstones/part-0.parquet"
    assert [path.name for path in (tmp_path / "tombstones").iterdir()] == ["part-0.parquet"]
