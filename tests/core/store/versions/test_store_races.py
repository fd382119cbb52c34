"""Another run, or `prune`, changes the store while a range is written; another table is at the path of a stored one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltasnap_core import DeltaLog, ScanOptions, SnapshotStore
from deltasnap_core.errors import CorruptStoreError, StoreChangedError
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.versions.common_version import LogRelation
from deltasnap_core.store.versions.stored_table import StoredTable
from tests.builders import add, commit_info, metadata, protocol, write_log
from tests.core.store.manifests import commit_actions


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_log(tmp_path / "events", {version: commit_actions(version) for version in range(6)})
    return tmp_path / "events"


def log_of(table: Path) -> DeltaLog:
    DeltaLog.clear_cache()
    return DeltaLog.for_table(None, table)


def once(work: Callable[[], object]) -> Callable[[str, int, int], None]:
    """Return an `on_progress` that does some work when the changes are written."""
    done = list[bool]()

    def on_progress(what: str, _done: int, _total: int) -> None:
        if what.startswith("Wrote") and not done:
            done.append(True)
            work()

    return on_progress


def test_listing_older_than_the_store_does_not_roll_back(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 4)
    old = log_of(table).context.table_log.list()
    write_log(table, {6: commit_actions(6)})
    store.write_range("events", log_of(table), 5, 6)
    log = log_of(table)
    assert store.common_version("events", log.context.table_log, old).relation is LogRelation.SAME
    found = store.write_range("events", log, 5, 5, listing=old)
    assert (found.common.relation, found.written) == (LogRelation.SAME, ())
    assert store.versions("events") == list(range(7))


def test_versions_stored_after_the_log_was_compared_stay_current(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 1)
    log = log_of(table)
    listing = log.context.table_log.list()
    common = store.common_version("events", log.context.table_log, listing)
    store.write_range("events", log_of(table), 2, 2)
    found = store.write_versions("events", log, [3], listing=listing, common=common)
    assert list(found.current) == [0, 1, 2, 3]


def test_versions_of_a_generation_replaced_in_the_meantime_are_not_committed(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 3)

    def fork() -> None:
        table_of = store.table("events")
        table_of.begin_fork(table_of.stored_versions().forked_generation(2))

    with pytest.raises(StoreChangedError, match=r"generation .* began"):
        store.write_range("events", log_of(table), 4, 5, on_progress=once(fork))
    assert store.versions("events") == [0, 1, 2]


def test_versions_whose_predecessors_were_deleted_are_not_committed(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 1)
    (manifests,) = Path(store.root.removeprefix("file://")).rglob("manifests")
    with pytest.raises(StoreChangedError):
        store.write_range("events", log_of(table), 2, 3, on_progress=once(lambda: shutil.rmtree(manifests)))
    assert store.versions("events") == []


def test_versions_with_a_base_pruned_in_the_meantime_are_not_committed(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 1)
    store.write_range("events", log_of(table), 4, 5)
    old = time.time() - 2 * 24 * 60 * 60
    for file in Path(store.root.removeprefix("file://")).rglob("*"):
        os.utime(file, (old, old))
    with pytest.raises(StoreChangedError, match="expected a file, found none"):
        store.write_range("events", log_of(table), 2, 2, on_progress=once(lambda: store.prune("events", keep=2)))
    assert store.versions("events") == [4, 5]


@pytest.mark.slow
def test_compared_versions_have_one_generation(
    table: Path, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write_range("events", log_of(table), 0, 3)
    shutil.rmtree(table)

    def changed() -> object:
        return store._row_changes("events", 2, 2, ScanOptions()).rows

    expected, list_names = changed(), StoredTable.current_names

    def listed_before_a_replacement(stored: StoredTable) -> dict[int, ManifestName]:
        names = list_names(stored)
        monkeypatch.setattr(StoredTable, "current_names", list_names)
        write_log(
            table, {version: [protocol(), metadata(table_id="other"), add(f"x-{version}")] for version in range(4)}
        )
        store.write_range("events", log_of(table), 0, 3)
        shutil.rmtree(table)
        return names

    monkeypatch.setattr(StoredTable, "current_names", listed_before_a_replacement)
    assert changed() == expected
    assert changed() != expected
    monkeypatch.setattr(StoredTable, "current_names", listed_before_a_replacement)
    assert len({version.manifest.generation for version in store._versions("events", [1, 3])}) == 1


def test_history_of_stored_version_is_not_that_of_another_table(
    spark: SparkSession, tmp_path: Path, table: Path, store: SnapshotStore
) -> None:
    store.write_range("events", log_of(table), 0, 5)
    stored = SnapshotStore.open(spark, tmp_path / "store")
    before = [row.operation for row in stored.tables("events", 5).history.collect()]
    shutil.rmtree(table)
    other = [protocol(), metadata(table_id="other"), commit_info("OTHER"), add("x")]
    write_log(table, {0: other} | {version: [commit_info("OTHER"), add(f"x-{version}")] for version in range(1, 6)})
    history = stored.tables("events", 5).history.collect()
    assert [row.operation for row in history] == before
    assert [row.version for row in history] == [5, 4, 3, 2, 1, 0]
    assert [commit.version for commit in stored.file_changes("events", 2, 4).commits] == [3, 4]


def test_unknown_column_is_a_value_error_for_every_kind_of_rows(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 0)
    for kind in ("all_files", "tombstones", "state"):
        with pytest.raises(ValueError, match="found nope"):
            store.read_arrow("events", 0, kind, ["nope"])


def test_damaged_footer_of_a_stored_file_is_also_an_error_on_spark(
    spark: SparkSession, tmp_path: Path, table: Path, store: SnapshotStore
) -> None:
    store.write_range("events", log_of(table), 0, 0)
    store.write_range("events", log_of(table), 1, 3)
    (changes,) = Path(store.root.removeprefix("file://")).rglob("changes/**/*.parquet")
    changes.write_bytes(changes.read_bytes().replace(b"version", b"wersion"))
    with pytest.raises(CorruptStoreError, match="expected the footer that was written"):
        SnapshotStore.open(spark, tmp_path / "store").all_files("events", 3)
