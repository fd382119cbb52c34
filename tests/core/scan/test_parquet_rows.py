"""How Spark is asked for the rows of data files, and what its errors mean. Its reader is a fake."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException

from deltasnap_core.errors import DataFileNotFoundError
from deltasnap_core.scan.parquet_rows import ParquetRows
from tests.builders import field
from tests.core.scan.changes.schemas_without_spark_builders import mapped, schema_of

SCHEMA = schema_of(field("id", "long", **mapped("id", "c1", 1)), field("Day", "string", **mapped("Day", "c2", 2)))


class Reader:
    """A reader and the rows that it returns. error: what a select of its metadata raises."""

    def __init__(self, error: Exception | None) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.columns: list[str] = []
        self._error = error

    def schema(self, schema: Any) -> Reader:
        self.columns = schema.names
        return self

    def options(self, **options: str) -> Reader:
        self.calls += options.items()
        return self

    def parquet(self, *paths: str) -> Reader:
        self.calls.append(("parquet", *paths))
        return self

    def format(self, name: str) -> Reader:
        self.calls.append(("format", name))
        return self

    def load(self, paths: list[str]) -> str:
        self.calls.append(("load", *paths))
        return "rows of version 1"

    def metadataColumn(self, name: str) -> Any:  # noqa: N802
        if self._error is not None:
            raise self._error
        assert name == "_metadata"
        return {"row_index": SimpleNamespace(alias=str)}

    def select(self, *_: object) -> Any:
        return SimpleNamespace(schema=SCHEMA)

    def where(self, condition: str) -> Reader:
        self.calls.append(("where", condition))
        return self


def read(error: Exception | None = None, mode: str = "none") -> tuple[Any, Reader, dict[str, str]]:
    reader, settings = Reader(error), dict[str, str]()
    table: Any = SimpleNamespace(
        columns=SimpleNamespace(mapping_mode=mode, partition=[SimpleNamespace(name="Day")]),
        schema=SCHEMA,
        spark=SimpleNamespace(read=reader, conf=SimpleNamespace(set=settings.__setitem__)),
        no_rows=None,
        missing_file=lambda path: DataFileNotFoundError(path=path, table="t", version=3),
    )
    return ParquetRows(table, ("id > 1", "id < 9")).read(["file:///a", "file:///b"]), reader, settings


def test_files_are_read_literally_and_none_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltasnap_core.scan.parquet_rows.DataFrame", Reader)
    rows, reader, settings = read()
    assert rows is reader
    assert (reader.columns, settings) == (["id"], {})
    assert reader.calls == [
        ("__globPaths__", "false"),
        ("ignoreCorruptFiles", "false"),
        ("ignoreMissingFiles", "false"),
        ("ignoredPathSegmentRegex", "^[._]"),
        ("recursiveFileLookup", "true"),
        ("parquet", "file:///a", "file:///b"),
        ("where", "id > 1"),
        ("where", "id < 9"),
    ]
    by_name, by_id = read(mode="name"), read(mode="id")
    assert (by_name[1].columns, by_name[2]) == (["c1"], {})
    assert (by_id[1].columns, by_id[2]) == (["c1"], {"spark.sql.parquet.fieldId.read.enabled": "true"})


def test_source_without_metadata_of_rows_is_replaced_by_one_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltasnap_core.scan.parquet_rows.DataFrame", SimpleNamespace(where=lambda rows, _: rows))
    error = AnalysisException("no _metadata", "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", {})
    rows, reader, _ = read(error)
    assert rows == "rows of version 1"
    source = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
    assert reader.calls[-2:] == [("format", source), ("load", "file:///a", "file:///b")]


GONE = {"path": "file:///b"}


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (AnalysisException("gone", "PATH_NOT_FOUND", GONE), DataFileNotFoundError, "file:///b"),
        (AnalysisException("gone", "PATH_NOT_FOUND"), DataFileNotFoundError, "file:///a"),
        (AnalysisException("no such type", "UNSUPPORTED", {}), AnalysisException, "no such type"),
        (PySparkException("stopped", "STOPPED", {}), PySparkException, "stopped"),
        (AnalysisException("unknown"), AnalysisException, "unknown"),
    ],
    ids=["missing file", "unnamed file", "other condition", "other error", "no condition"],
)
def test_error_of_spark_names_the_missing_file_or_stays_as_it_is(
    error: Exception, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as raised:
        read(error)
    assert type(raised.value) is kind
