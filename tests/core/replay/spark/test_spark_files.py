"""The files that Spark reads and writes: URLs, copies, Arrow tables as DataFrames, Parquet."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import LongType, StructField, StructType

from deltasnap_core.errors import StorageError
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.parquet_writing import write_parquet
from deltasnap_core.replay.spark.session.spark_files import SparkFiles, can_read, file_reader
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import is_hidden, local_path, to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from tests.core.replay.spark.spark_files_builders import Probe


@pytest.fixture
def memory_folder(tmp_path: Path) -> str:
    return f"memory://{tmp_path.name}"


def write(url: str, data: bytes) -> str:
    fsspec.filesystem("memory").pipe_file(url, data)
    return url


def test_readable_returns_the_url_if_spark_can_read_it() -> None:
    probe = Probe("s3a", "gs")
    files = SparkFiles(None, probe)
    assert files.readable(["file:///a b%20c", "s3://lake/a b", "gs://lake/a", "s3://lake/c"]) == [
        "file:///a b%20c",
        "s3a://lake/a b",
        "gs://lake/a",
        "s3a://lake/c",
    ]
    assert sorted(url.rpartition("/")[0] for url in probe.requested) == ["gs://lake", "s3a://lake"]


def test_readable_copies_a_file_once_if_spark_cannot_read_it(memory_folder: str) -> None:
    files = SparkFiles({}, Probe())
    url = write(f"{memory_folder}/part 1%20.parquet", b"first")
    (copy,) = files.readable([url])
    assert copy.startswith("file:///")
    assert copy.endswith("/part 1%20.parquet")
    assert Path(local_path(copy)).read_bytes() == b"first"
    assert files.readable([url, url]) == [copy, copy]
    assert [path.name for path in Path(local_path(copy)).parent.iterdir()] == ["part 1%20.parquet"]


@pytest.mark.parametrize("name", ["_a.parquet", ".a.parquet", "a.parquet._COPYING_"])
def test_file_that_spark_would_skip_gets_a_copy_with_a_name_that_it_reads(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"rows")
    (copy,) = SparkFiles(None, Probe("file")).readable([to_url(tmp_path / name)])
    assert Path(local_path(copy)).read_bytes() == b"rows"
    assert copy.endswith(f"/copy-{name}.parquet")
    assert not is_hidden(copy)


def test_readable_copies_a_file_that_was_replaced_again(memory_folder: str) -> None:
    files = SparkFiles({}, Probe())
    (first,) = files.readable([write(f"{memory_folder}/a.parquet", b"first")])
    (second,) = files.readable([write(f"{memory_folder}/a.parquet", b"second, longer")])
    assert (Path(local_path(first)).read_bytes(), Path(local_path(second)).read_bytes()) == (
        b"first",
        b"second, longer",
    )


def test_readable_costs_no_request_for_a_file_with_known_status(memory_folder: str) -> None:
    files = SparkFiles({}, Probe())
    status = FileStatus(path=write(f"{memory_folder}/a.parquet", b"x"), size=1, modification_time=7)
    (copy,) = files.readable([status])
    fsspec.filesystem("memory").rm(status.path)
    assert files.readable([status]) == [copy]
    with pytest.raises(FileNotFoundError):
        files.readable([status.path])


def test_every_read_sets_what_a_session_could_set_otherwise() -> None:
    session: Any = SimpleNamespace(read=SimpleNamespace(options=lambda **options: options))
    found: Any = file_reader(session)
    assert found == {
        "__globPaths__": "false",
        "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "fs.file.impl.disable.cache": "true",
        "parquet.page.verify-checksum.enabled": "true",
        "ignoreCorruptFiles": "false",
        "ignoreMissingFiles": "false",
        "ignoredPathSegmentRegex": "^[._]",
        "datetimeRebaseMode": "CORRECTED",
        "int96RebaseMode": "CORRECTED",
    }


class Text:
    """The lines of a text file as one row. error: of a file that is missing. rows: None: as in the file."""

    def __init__(self, url: str, error: Exception | None, rows: list[str] | None) -> None:
        self._file, self._error, self._rows = Path(local_path(url)), error, rows

    @property
    def schema(self) -> str:
        if self._error is not None and not self._file.exists():
            raise self._error
        return "value"

    def collect(self) -> list[list[str]]:
        return [[row] for row in ([self._file.read_text()] if self._rows is None else self._rows)]


def session_of(kind: str, error: Exception | None = None, rows: list[str] | None = None) -> Any:
    session = type("Session", (), {"__module__": f"pyspark.sql.{kind}.session"})()
    session.read = SimpleNamespace(options=lambda **_: SimpleNamespace(text=lambda url: Text(url, error, rows)))
    return session


GONE = AnalysisException("no such file", "PATH_NOT_FOUND", {})
FAILED = AnalysisException("no connector", "UNSUPPORTED", {})


@pytest.mark.parametrize(("error", "expected"), [(None, True), (GONE, True), (FAILED, False)])
def test_filesystem_is_reached_if_only_the_file_is_missing(
    error: Exception | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = logging.getLogger("pyspark.sql.connect.logging")
    monkeypatch.setattr(client, "disabled", False)
    assert can_read(session_of("classic", error), "file:///t/nothing") is expected
    assert not client.disabled


def test_upload_copies_only_data_files_of_spark(tmp_path: Path, memory_folder: str) -> None:
    for name in ["_SUCCESS", "._SUCCESS.crc", "part-0.parquet", ".part-0.parquet.crc", "_day=1/x=a b/part-1.parquet"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    uploaded = SparkFiles({}, Probe()).upload(tmp_path, f"{memory_folder}/rows")
    assert uploaded == (f"{memory_folder}/rows/_day=1/x=a b/part-1.parquet", f"{memory_folder}/rows/part-0.parquet")
    assert fsspec.filesystem("memory").cat(uploaded[1]) == b"part-0.parquet"
    to_local = SparkFiles({}, Probe()).upload(tmp_path / "_day=1", to_url(tmp_path / "copied"))
    assert Path(local_path(to_local[0])).is_file()


class Session:
    """Returns the table that it gets."""

    def createDataFrame(self, rows: pa.Table) -> pa.Table:  # noqa: N802
        return rows


def test_spark_gets_no_empty_chunks_after_which_it_loses_rows() -> None:
    rows = pa.table({"a": pa.chunked_array([[1, 2], [], [3]], pa.int64())})
    given: Any = arrow_rows(cast("Any", Session()), rows)
    assert [batch.num_rows for batch in given.to_batches()] == [2, 1]
    assert given.equals(rows)


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
