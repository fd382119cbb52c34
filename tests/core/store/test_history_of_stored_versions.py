"""The metadata tables of stored versions: from the log while it has the commits, otherwise from the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.scan.tables.vacuum_candidates import LOG_IS_GONE
from deltasnap_core.scan.version import ReferencedFiles, Version
from deltasnap_core.storage.urls import to_url
from tests.builders import FIRST_COMMIT_MS, add, commit_info, metadata, mtime_of, protocol, remove, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltasnap_core import MetadataTables

LATER = FIRST_COMMIT_MS + 10**12
COMMITS = [
    [commit_info("CREATE"), protocol(), metadata(), add("a"), add("b", size=5)],
    [commit_info("DELETE"), remove("a", deletion_timestamp=1)],
    [commit_info("WRITE"), add("c", size=7)],
    [commit_info("DELETE"), remove("b", deletion_timestamp=LATER)],
]


@dataclass(frozen=True)
class Made:
    """The versions 2 (a base) and 3 in a store, and the log."""

    table: Path
    store: SnapshotStore
    store_folder: Path

    def tables(self, version: int = 3) -> MetadataTables:
        return self.store.tables("t", version)

    def version(self, version: int = 3) -> Version:
        return self.store.version("t", version).versions.version


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("source")
    write_log(folder / "t", dict(enumerate(COMMITS)))
    store = SnapshotStore.open(spark, folder / "store")
    store.write_range("t", DeltaLog.for_table(spark, folder / "t"), 2, 3)
    return Made(folder / "t", store, folder / "store")


@pytest.fixture
def without_log(made: Made) -> Iterator[Made]:
    log, kept = made.table / "_delta_log", made.table / "_kept"
    log.rename(kept)
    yield made
    kept.rename(log)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


def lives(tables: MetadataTables) -> list[tuple[Any, ...]]:
    return sorted((row["path"], row["added_version"], row["removed_version"]) for row in rows(tables.entries))


def test_entries_begin_with_the_log_and_end_with_the_version(made: Made) -> None:
    assert lives(made.tables(2)) == [("a", 0, 1), ("b", 0, None), ("c", 2, None)]


def test_entries_begin_with_the_base_if_the_log_is_gone(without_log: Made) -> None:
    assert lives(without_log.tables()) == [("b", None, 3), ("c", None, None)]


@pytest.mark.slow
def test_files_and_all_tombstones_are_those_of_the_store(without_log: Made) -> None:
    version = without_log.version()
    assert [(row["path"], row["size"]) for row in rows(version.all_files)] == [("c", 7)]
    assert sorted(row["path"] for row in rows(version.tombstones(KEEP_ALL))) == ["a", "b"]


def test_history_and_log_files_need_no_log(without_log: Made) -> None:
    tables = without_log.tables()
    assert [(row["version"], row["operation"]) for row in rows(tables.history)] == [(3, "DELETE"), (2, "WRITE")]
    log_files = [(Path(row["path"]).name, row["in_segment"]) for row in rows(tables.log_files)]
    assert log_files == [(commit_file(version), True) for version in range(4)]


def test_versions_are_the_stored_ones_and_why_one_cannot_be_loaded(without_log: Made) -> None:
    (changes,) = without_log.store.manifest("t", 3).changes
    (file,) = without_log.store_folder.rglob(Path(changes.files[0].path).name)
    kept = file.rename(file.with_suffix(".kept"))
    found = rows(without_log.tables(2).versions)
    kept.rename(file)
    times = [row["timestamp"].timestamp() * 1000 for row in found]
    assert times == [mtime_of(2), mtime_of(3)]
    assert [(row["version"], row["loadable"]) for row in found] == [(2, True), (3, False)]
    assert found[0]["why_not"] is None
    assert found[1]["why_not"].startswith(f"{to_url(file)}: ")


@pytest.mark.parametrize("version", [2, 3])
def test_changes_of_files_begin_with_the_log(made: Made, version: int) -> None:
    events = made.version(version).events()
    assert events is not None
    assert {row["version"] for row in rows(events)} == set(range(version + 1))


def test_changes_of_files_begin_after_the_base_if_the_log_is_gone(without_log: Made) -> None:
    events = without_log.version().events()
    assert events is not None
    assert {row["version"] for row in rows(events)} == {3}


def test_history_begins_with_the_log(made: Made) -> None:
    assert [row["version"] for row in rows(made.tables().history)] == [3, 2, 1, 0]


def test_no_file_of_a_table_may_be_deleted_if_its_log_is_gone(without_log: Made) -> None:
    assert without_log.version().referenced_files(every_commit=True) == ReferencedFiles(
        files=(), tombstones=(), unread=LOG_IS_GONE
    )


def test_files_that_the_current_log_names_are_referenced(made: Made) -> None:
    found = made.version(2).referenced_files(every_commit=False)
    assert [row["path"] for frame in found.files for row in rows(frame)] == ["c"]
    assert found.unread is None
