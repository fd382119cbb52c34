"""The file actions of stored versions. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401, F811

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, ScanOptions, SnapshotStore
from deltasnap_core.errors import StoredVersionNotFoundError
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.scan.changes.row_changes import RowChanges
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.stored_row_changes import _actions
from tests.builders import add, metadata, mtime_of, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.store.stored_row_changes_builders import COMMITS, LATER, check, found_by, write_versions
from tests.driver_bases import spark, use_driver_bases


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("written", "bases", "start"),
    [(((0, 1), (2, 5), (6, 6), (7, 9)), 1, 1), (((0, 4), (6, 9), (5, 5)), 2, 0)],
    ids=["one base", "a base after a gap"],
)
def test_actions_of_stored_versions_equal_a_comparison_of_all_files(
    tmp_path: Path, written: tuple[tuple[int, int], ...], bases: int, start: int
) -> None:
    write_log(tmp_path / "t", dict(enumerate(COMMITS)))
    store, log = SnapshotStore.open(None, tmp_path / "store"), DeltaLog.for_table(None, tmp_path / "t")
    for first, last in written:
        store.write_range("t", log, first, last)
    assert len({store.manifest("t", version).base for version in range(len(COMMITS))}) == bases
    check(store, 0, len(COMMITS) - 1, starts=(start,))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> SnapshotStore:
    """The versions of `COMMITS`, in two writes, without the log. Tests do not change it."""
    folder = tmp_path_factory.mktemp("stored")
    write_log(folder / "t", dict(enumerate(COMMITS)))
    store = SnapshotStore.open(None, folder / "store")
    with pytest.MonkeyPatch.context() as patch:
        use_driver_bases(patch)
        write_versions(store, DeltaLog.for_table(None, folder / "t"), (4,))
    shutil.rmtree(folder / "t")
    return store


@pytest.mark.parametrize("spelled", ["a%20b", "a%20%62"], ids=["as added", "in another spelling"])
def test_a_moved_file_is_not_a_delete_after_its_tombstone_expired(spark: None, tmp_path: Path, spelled: str) -> None:
    at_once = metadata(configuration={"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    moved = [remove(spelled, dataChange=False), add("moved", dataChange=False), add("new")]
    write_log(tmp_path / "t", {0: [protocol(), at_once, add("a%20b")], 1: moved})
    store = SnapshotStore.open(None, tmp_path / "store")
    write_versions(store, DeltaLog.for_table(None, tmp_path / "t"), (1,))
    stored = [store._version("t", version) for version in range(2)]
    found = {each.path: each.data_change for each in _actions(stored[0], stored[1:])}
    assert found == {"a%20b": False, "moved": False, "new": True}


@pytest.mark.slow
def test_actions_of_consecutive_versions_read_the_base_once_and_parse_only_changes(
    spark: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, versions = 100, 5
    first = [protocol(), metadata(), *(add(f"{number}") for number in range(files))]
    later = {v: [remove(f"{v}", deletion_timestamp=LATER), add(f"new{v}")] for v in range(1, versions)}
    write_log(tmp_path / "t", {0: first, **later})
    store = SnapshotStore.open(None, tmp_path / "store")
    write_versions(store, DeltaLog.for_table(None, tmp_path / "t"), (1,))
    stored = [store._version("t", version) for version in range(versions)]
    read: list[int] = []

    def counting(rows: DriverRows, *arguments: Any) -> pa.Table:
        found = all_files(rows, *arguments)
        read.append(found.num_rows)
        return found

    all_files = DriverRows.all_files
    monkeypatch.setattr(DriverRows, "all_files", counting)
    found = list(found_by(stored[0], stored[1:]))
    assert len(found) == 2 * (versions - 1)
    assert [rows for rows in read if rows >= files] == [files]
    assert sum(read) <= files + versions**2


def rows(changes: RowChanges) -> list[tuple[int, str | None, str]]:
    return [(each.version, each.change, each.path) for each in changes.rows]


@pytest.mark.slow
def test_changes_of_stored_versions_need_no_log(stored: SnapshotStore) -> None:
    changes = stored._row_changes("t", 6, 7, ScanOptions())
    assert sorted(rows(changes), key=str) == [(7, "delete", "c2"), (7, "insert", "b"), (7, "insert", "c")]
    assert {version: each.timestamp for version, each in changes.versions.items()} == {6: mtime_of(6), 7: mtime_of(7)}
    assert not any(each.is_recorded for each in changes.versions.values())


@pytest.mark.slow
def test_changes_since_a_version_are_those_of_the_later_ones(stored: SnapshotStore) -> None:
    later = rows(stored._row_changes("t", 5, 7, ScanOptions()))
    assert rows(stored._row_changes_since("t", 4, 7, ScanOptions())) == later
    assert rows(stored._row_changes_since("t", 3, 3, ScanOptions())) == []


def test_changes_without_an_earlier_version_are_all_rows_as_inserts(stored: SnapshotStore) -> None:
    changes = stored._row_changes_since("t", None, 3, ScanOptions())
    live = {row["path"] for row in stored._version("t", 3).arrow("all_files").to_pylist()}
    assert {(version, change) for version, change, _ in rows(changes)} == {(3, "insert")}
    assert sorted(path for *_, path in rows(changes)) == sorted(live)
    assert list(changes.versions) == [3]


def test_log_is_read_while_it_has_the_commits(spark: None, tmp_path: Path) -> None:
    feed = metadata(configuration={"delta.enableChangeDataFeed": "true"})
    recorded = {"cdc": {"path": "_change_data/1", "partitionValues": {}, "size": 7, "dataChange": False}}
    log = write_log(tmp_path / "t", {0: [protocol(), feed, add("a")], 1: [recorded, remove("a")]})
    store = SnapshotStore.open(None, tmp_path / "store")
    write_versions(store, DeltaLog.for_table(None, tmp_path / "t"), ())
    assert rows(store._row_changes("t", 1, 1, ScanOptions())) == [(1, None, "_change_data/1")]
    (log / commit_file(1)).unlink()
    assert rows(store._row_changes("t", 1, 1, ScanOptions())) == [(1, "delete", "a")]


def test_version_before_need_not_be_stored_while_the_log_has_the_commits(spark: None, tmp_path: Path) -> None:
    first = [protocol(), metadata(), add("a"), add("b")]
    log = write_log(tmp_path / "t", {0: first, 1: [add("c")], 2: [remove("a"), add("d")], 3: [add("e")]})
    write_checkpoint(log, 2, "classic", [protocol(), metadata(), add("b"), add("c"), add("d"), remove("a")])
    store = SnapshotStore.open(None, tmp_path / "store")
    store.write_range("t", DeltaLog.for_table(None, tmp_path / "t"), 2, 3)
    for version in (0, 1):
        (log / commit_file(version)).unlink()
    expected = [(2, "delete", "a"), (2, "insert", "d"), (3, "insert", "e")]
    assert sorted(rows(store._row_changes("t", 2, 3, ScanOptions()))) == expected
    shutil.rmtree(log)
    with pytest.raises(StoredVersionNotFoundError, match="no version 1"):
        store._row_changes("t", 2, 3, ScanOptions())


def test_stored_version_before_shows_what_the_only_commits_of_the_log_changed(spark: None, tmp_path: Path) -> None:
    of_old, of_new = (metadata(name=name, partitionColumns=["id"]) for name in ("old", "new"))
    first = [protocol(), of_old, add("a"), add("b", partitionValues={"id": "7"}), add("c", size=3)]
    second = [of_new, add("a"), remove("b"), remove("never there"), add("d")]
    log = write_log(tmp_path / "t", {0: [protocol(), of_old], 1: first, 2: second, 3: [remove("c")]})
    write_checkpoint(log, 2, "classic", [protocol(), of_new, add("a"), add("c", size=3), add("d"), remove("b")])
    store = SnapshotStore.open(None, tmp_path / "store")
    store.write_range("t", DeltaLog.for_table(None, tmp_path / "t"), 1, 3)
    for version in (0, 1):
        (log / commit_file(version)).unlink()
    changes = store._row_changes("t", 2, 3, ScanOptions())
    assert sorted(rows(changes)) == [(2, "delete", "b"), (2, "insert", "d"), (3, "delete", "c")]
    (deleted,) = (each for each in changes.rows if each.path == "b")
    assert deleted.partition_values == {"id": "7"}
    assert (changes.versions[2].metadata_before.name, changes.versions[2].metadata.name) == ("old", "new")


def test_first_changed_version_deletes_rows_of_the_metadata_before_it(spark: None, tmp_path: Path) -> None:
    of_old, of_new = metadata(name="old"), metadata(name="new")
    write_log(tmp_path / "t", {0: [protocol(), of_old, add("a")], 1: [of_new, remove("a")], 2: [add("b")]})
    store = SnapshotStore.open(None, tmp_path / "store")
    store.write_range("t", DeltaLog.for_table(None, tmp_path / "t"), 0, 2)
    shutil.rmtree(tmp_path / "t")
    changes = store._row_changes("t", 1, 2, ScanOptions())
    names = {version: (each.metadata_before.name, each.metadata.name) for version, each in changes.versions.items()}
    assert names == {1: ("old", "new"), 2: ("new", "new")}
    assert rows(changes) == [(1, "delete", "a"), (2, "insert", "b")]
    first = store._row_changes("t", 0, 0, ScanOptions()).versions[0]
    assert (first.metadata_before.name, first.metadata.name) == ("old", "old")
