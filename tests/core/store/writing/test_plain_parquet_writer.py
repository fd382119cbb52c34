"""Where the plain Parquet files of versions end up, with a writer in the place of Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deltasnap_core.errors import LogChangedError, UnsupportedServerError
from deltasnap_core.storage.urls import join_url, to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.layout import plain_parquet_path
from deltasnap_core.store.format.manifest import StoreFile
from deltasnap_core.store.writing.plain_parquet_writer import PlainParquetWriter

UNUSED: Any = None
EMPTY = ""


class Rows:
    """Rows of versions, and the files that a write of them makes."""

    def __init__(self, *versions: int) -> None:
        self.versions = versions

    def repartition(self, number: int, column: str) -> Rows:
        assert (number, column) == (3, "version")
        return self

    def sortWithinPartitions(self, column: str) -> Rows:  # noqa: N802  # Spark's name
        assert column == "version"
        return self

    def coalesce(self, number: int) -> Rows:
        assert number == 1
        return self


class Parquet:
    """Writes a file for each version, or one for no rows."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.storage = to_url(folder), WritableFiles(to_url(folder))

    def no_rows(self, _: object) -> Rows:
        return Rows()

    def write(self, rows: Rows, target: str, *, partition_by: str | None = None, keep_empty: bool = False) -> Any:
        assert (partition_by, keep_empty) == (("version", False) if rows.versions else (None, True))
        names = [f"{target}/version={version}/{place}.parquet" for place, version in enumerate(rows.versions)]
        files = [StoreFile(path=name, size=3, rows=1, footer="f") for name in names or [f"{target}/none.parquet"]]
        content = {join_url(self.folder, file.path): file.path.partition("=")[2].encode() for file in files}
        self.storage.write_many(content)
        return files


def written(folder: Path, rows: Rows | None, check: Callable[[], object] = lambda: None) -> dict[int, StoreFile]:
    store_rows: Any = SimpleNamespace(parquet=Parquet(folder))
    frame: Any = rows
    return PlainParquetWriter(rows=store_rows, check=check)._write_kind("all_files", UNUSED, frame, [1, 2, 3])


def files_in(folder: Path) -> dict[str, str]:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("rows", [Rows(1, 3), None], ids=["some", "none"])
def test_each_version_gets_a_file_and_nothing_else_stays(tmp_path: Path, rows: Rows | None) -> None:
    found = written(tmp_path, rows)
    paths = {version: plain_parquet_path("all_files", version) for version in (1, 2, 3)}
    assert {version: (file.path, file.footer) for version, file in found.items()} == {
        version: (path, None) for version, path in paths.items()
    }
    content = files_in(tmp_path)
    assert {*content} == {*paths.values()}
    assert [content[paths[version]] for version in (1, 3)] == (["1/0.parquet", "3/1.parquet"] if rows else [EMPTY] * 2)
    assert content[paths[2]] == EMPTY


def test_two_files_for_a_version_are_an_error_and_nothing_stays(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedServerError, match="more than one for version 2"):
        written(tmp_path, Rows(2, 2))
    assert {*files_in(tmp_path)} == {plain_parquet_path("all_files", 2)}


@pytest.mark.parametrize("rows", [Rows(1, 2, 3), None], ids=["rows", "none"])
def test_files_of_a_later_log_are_not_replaced(tmp_path: Path, rows: Rows | None) -> None:
    def check() -> None:
        raise LogChangedError(path="t/_delta_log", file="2.json", expected="1 byte", found="2 bytes")

    paths = {plain_parquet_path("all_files", version): "later" for version in (1, 2, 3)}
    WritableFiles(to_url(tmp_path)).write_many({join_url(to_url(tmp_path), path): b"later" for path in paths})
    with pytest.raises(LogChangedError):
        written(tmp_path, rows, check)
    assert files_in(tmp_path) == paths
