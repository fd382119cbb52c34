"""The store: what it stores and returns, and its invalid arguments."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from deltasnap_core import DeltaLog, DeltaTableNotFoundError, Metadata, ScanOptions, SnapshotStore, VersionNotFoundError
from deltasnap_core.errors import CorruptStoreError, StoredVersionNotFoundError, UnsupportedStoreError
from deltasnap_core.storage.urls import to_url
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.stored_version import RowKind
from tests.core.store.tables import as_rows, check_version, content, files_of_delta_rs, make_table, paths_and_sizes
from tests.driver_bases import use_driver_bases
from tests.thorough import one_in

LATEST = 9
ContentOf = Callable[[int], tuple[object, ...]]
EAGER = ChangePolicy(base_fraction=0.5, least_rows=10, fan_in=2)
"""Merges sets and writes bases after few rows."""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "event s+"
    assert make_table(path, LATEST + 1) == LATEST
    return path


@pytest.fixture(scope="module")
def log(spark: SparkSession, table: Path) -> DeltaLog:
    return DeltaLog.for_table(spark, table)


@pytest.fixture(scope="module")
def stored(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, log: DeltaLog) -> SnapshotStore:
    """A store with every version, written in one range. Tests do not change it."""
    store = SnapshotStore.open(spark, tmp_path_factory.mktemp("store") / "a b")
    assert store.versions("events") == []
    manifests = store.write_range("events", log, 0, LATEST)
    assert [manifest.version for manifest in manifests] == list(range(LATEST + 1))
    return store


@pytest.fixture
def copied(spark: SparkSession, tmp_path: Path, stored: SnapshotStore) -> SnapshotStore:
    """A copy of the store, for a test to change."""
    shutil.copytree(stored.root.removeprefix("file://"), tmp_path / "store")
    return SnapshotStore.open(spark, tmp_path / "store")


@pytest.fixture(scope="module")
def content_of(stored: SnapshotStore) -> ContentOf:
    """Return the content of a version of `stored`, computed once."""
    return cache(lambda version: content(stored, "events", version))


def assert_same_rows(store: SnapshotStore, expected: SnapshotStore, version: int) -> None:
    """Check a version without Spark: its rows and its computed state."""
    assert store.computed_state("events", version) == expected.computed_state("events", version)
    for kind in ROWS:
        found, rows = (each.read_arrow("events", version, kind).sort_by("path") for each in (store, expected))
        assert found.to_pylist() == rows.to_pylist()


ROWS: tuple[RowKind, ...] = ("all_files", "tombstones")


@pytest.fixture
def driver_log(table: Path, monkeypatch: pytest.MonkeyPatch) -> DeltaLog:
    """The log, for a test without Spark."""
    use_driver_bases(monkeypatch)
    return DeltaLog.for_table(None, table)


def folder_of(store: SnapshotStore) -> Path:
    return Path(store.root.removeprefix("file://"))


@pytest.mark.slow
@pytest.mark.parametrize("version", one_in(LATEST + 1, [LATEST, *range(LATEST)]))
def test_version_of_a_range_equals_its_snapshot(stored: SnapshotStore, log: DeltaLog, version: int) -> None:
    check_version(stored, "events", log, version)


@pytest.mark.slow
def test_all_files_match_delta_rs(stored: SnapshotStore, table: Path) -> None:
    assert stored.versions("events") == list(range(LATEST + 1))
    for version in (0, 5, LATEST):
        found = stored.all_files("events", version)
        assert paths_and_sizes(found) == files_of_delta_rs(table, version)


@pytest.mark.slow
def test_range_is_one_base_and_one_set_of_changes(stored: SnapshotStore) -> None:
    first, *following = [stored.manifest("events", version) for version in range(LATEST + 1)]
    assert (first.base.first, first.base.last, first.changes) == (0, 0, ())
    assert {manifest.base for manifest in following} == {first.base}
    (changes,) = {data_set for manifest in following for data_set in manifest.changes}
    assert (changes.first, changes.last, len(changes.files)) == (1, LATEST, 1)


def test_layout_opens_with_plain_readers(spark: SparkSession, stored: SnapshotStore) -> None:
    (generation,) = [path for path in (folder_of(stored) / "events").iterdir() if path.name != "manifests"]
    (changes,) = (generation / "changes").glob("*/*.parquet")
    assert pq.read_schema(changes).names == ["version", "key", "add", "remove"]
    frame = spark.read.parquet(to_url(changes.parent))
    assert {row.version for row in frame.select("version").collect()} <= set(range(1, LATEST + 1))
    assert {path.suffix for path in folder_of(stored).rglob("*") if path.is_file()} == {".json", ".parquet"}


@pytest.mark.thorough
def test_storing_version_by_version_with_merges_and_bases_gives_the_same_result(
    spark: SparkSession, tmp_path: Path, content_of: ContentOf, log: DeltaLog
) -> None:
    store = SnapshotStore.open(spark, tmp_path, policy=EAGER)
    bases, most_sets = set(), 0
    for version in range(LATEST + 1):
        (manifest,) = store.write_range("events", log, version, version)
        bases.add(manifest.base.first)
        most_sets = max(most_sets, len(manifest.changes))
    assert len(bases) > 2
    assert 1 <= most_sets <= 3
    for version in (1, 4, 6, 7, LATEST):
        assert content(store, "events", version) == content_of(version)


@pytest.mark.slow
def test_gap_starts_a_new_base_and_is_filled_later(tmp_path: Path, stored: SnapshotStore, driver_log: DeltaLog) -> None:
    store = SnapshotStore.open(None, tmp_path)
    store.write_range("events", driver_log, 7, 8)
    store.write_range("events", driver_log, 2, 3)
    assert store.versions("events") == [2, 3, 7, 8]
    assert [store.manifest("events", version).base.first for version in (2, 3, 7, 8)] == [2, 2, 7, 7]
    messages: list[tuple[str, int, int]] = []
    store.write_range("events", driver_log, 1, LATEST, on_progress=lambda *message: messages.append(message))
    assert store.versions("events") == list(range(1, LATEST + 1))
    assert messages
    for version in (4, LATEST):
        assert_same_rows(store, stored, version)


@pytest.mark.slow
def test_range_after_the_middle_of_a_stored_one_uses_only_its_beginning(
    copied: SnapshotStore, stored: SnapshotStore, driver_log: DeltaLog
) -> None:
    for path in (folder_of(copied) / "events" / "manifests").iterdir():
        if int(path.name.split(".")[1]) > 5:
            path.unlink()
    assert copied.versions("events") == list(range(6))
    copied.write_range("events", driver_log, 6, 8)
    for version in (5, 8):
        assert_same_rows(copied, stored, version)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["base", "changes"])
def test_lost_file_is_reported_and_repaired(
    copied: SnapshotStore, stored: SnapshotStore, driver_log: DeltaLog, kind: str
) -> None:
    (lost,) = (folder_of(copied) / "events").glob(f"*/{kind}/*/*.parquet")
    lost.unlink()
    with pytest.raises(CorruptStoreError, match="found none") as error:
        copied.state("events", 5)
    assert error.value.path == to_url(lost)
    assert copied.computed_state("events", 5) == stored.computed_state("events", 5)
    copied.write_range("events", driver_log, 5, 6)
    for version in (5, 6):
        assert_same_rows(copied, stored, version)


@pytest.mark.parametrize("damage", [b"", b"{"], ids=["empty", "cut off"])
def test_broken_manifest_is_reported_and_repaired(
    copied: SnapshotStore, stored: SnapshotStore, log: DeltaLog, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = next(p for p in (folder_of(copied) / "events" / "manifests").iterdir() if ".00000000000000000005." in p.name)
    path.write_bytes(damage)
    with pytest.raises(CorruptStoreError) as error:
        copied.computed_state("events", 5)
    assert error.value.path == to_url(path)
    assert copied.computed_state("events", 4).num_of_files > 0
    copied.write_range("events", log, 4, 6)
    assert "Version 5 of table events counts as not stored" in caplog.text
    assert copied.computed_state("events", 5) == stored.computed_state("events", 5)


def test_manifest_of_a_later_release_is_reported_and_never_replaced(copied: SnapshotStore, log: DeltaLog) -> None:
    path = next(p for p in (folder_of(copied) / "events" / "manifests").iterdir() if ".00000000000000000005." in p.name)
    path.write_bytes(b'{"format": 99}')
    for use in (
        lambda: copied.computed_state("events", 5),
        lambda: copied.write_range("events", log, 5, 5),
        lambda: copied.write_range("events", log, 4, 6),
    ):
        with pytest.raises(UnsupportedStoreError, match="Upgrade deltasnap") as error:
            use()
        assert error.value.path == to_url(path)
    assert path.read_bytes() == b'{"format": 99}'


@pytest.mark.parametrize(("first", "last"), [(-1, 0), (3, 2)])
def test_invalid_range_is_rejected(stored: SnapshotStore, log: DeltaLog, first: int, last: int) -> None:
    with pytest.raises(ValueError, match=r"(?i)expected (a version|versions)"):
        stored.write_range("events", log, first, last)


def test_version_beyond_the_log_changes_nothing(copied: SnapshotStore, log: DeltaLog) -> None:
    with pytest.raises(VersionNotFoundError):
        copied.write_range("events", log, LATEST, LATEST + 1)
    with pytest.raises(VersionNotFoundError):
        copied.write_range("events", log, LATEST + 5, LATEST + 6)
    assert copied.versions("events") == list(range(LATEST + 1))


@pytest.mark.thorough
def test_plain_tables_have_one_folder_per_version(
    spark: SparkSession, tmp_path: Path, stored: SnapshotStore, log: DeltaLog
) -> None:
    store = SnapshotStore.open(spark, tmp_path)
    store.write_range("events", log, 0, 4)
    manifests = store.write_range("events", log, 0, LATEST, materialize_as="table")
    assert all(manifest.plain_parquet is not None for manifest in manifests)
    (folder,) = (tmp_path / "events").glob("*/all_files")
    assert sorted(int(path.name.removeprefix("version=")) for path in folder.iterdir()) == list(range(LATEST + 1))
    plain = spark.read.parquet(to_url(folder))
    for version in (0, 4, 5, LATEST):
        expected = as_rows(stored.all_files("events", version))
        assert as_rows(plain.where(f"version = {version}").drop("version")) == expected
        assert as_rows(store.all_files("events", version)) == expected
        assert as_rows(store.tombstones("events", version)) == as_rows(stored.tombstones("events", version))
    assert not list((tmp_path / "events").glob("*/staging/*"))
    again = store.write_range("events", log, 0, LATEST)
    assert again.manifests == manifests.manifests
    assert again.written == ()


@pytest.mark.slow
def test_cleaned_up_log_removes_nothing_from_the_store(
    tmp_path: Path, table: Path, stored: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    shutil.copytree(table, tmp_path / "table")
    log, store = DeltaLog.for_table(None, tmp_path / "table"), SnapshotStore.open(None, tmp_path / "store")
    written = store.write_range("events", log, 0, 4)
    for version in range(6):
        (tmp_path / "table" / "_delta_log" / f"{version:020d}.json").unlink()
    assert_same_rows(store, stored, 4)
    assert store.write_range("events", log, 0, 4).manifests == written.manifests
    with pytest.raises(VersionNotFoundError):
        store.write_range("events", log, 0, 5)
    store.write_range("events", log, 6, LATEST)
    assert store.versions("events") == [*range(5), *range(6, LATEST + 1)]
    for version in (4, LATEST):
        assert_same_rows(store, stored, version)


@pytest.mark.slow
def test_recreated_table_starts_a_new_generation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    path, store = tmp_path / "table", SnapshotStore.open(None, tmp_path / "store")

    def paths(version: int) -> list[str]:
        return sorted(store.read_arrow("events", version, "all_files", ["path"])["path"].to_pylist())

    make_table(path, 5)
    store.write_range("events", DeltaLog.for_table(None, path), 0, 4)
    shutil.rmtree(path)
    make_table(path, 3)
    DeltaLog.clear_cache()
    log = DeltaLog.for_table(None, path)
    store.write_range("events", log, 1, 2)
    assert store.versions("events") == [1, 2]
    assert paths(1) == [name for name, _ in files_of_delta_rs(path, 1)]
    with pytest.raises(VersionNotFoundError):
        store.write_range("events", log, 3, 4)
    report = store.prune("events", min_age_ms=-60_000)
    assert len(report.generations) == 1
    assert len(list((tmp_path / "store" / "events").iterdir())) == 2
    assert paths(2) == [name for name, _ in files_of_delta_rs(path, 2)]


@pytest.mark.thorough
def test_two_writers_store_the_same(spark: SparkSession, tmp_path: Path, content_of: ContentOf, log: DeltaLog) -> None:
    stores = [SnapshotStore.open(spark, tmp_path) for _ in range(2)]
    both_have_begun = Barrier(2)

    def write(store: SnapshotStore, last: int) -> None:
        def on_progress(message: str, done: int, total: int) -> None:
            if message.startswith("Writing the base"):
                both_have_begun.wait(60)

        store.write_range("events", log, 0, last, on_progress=on_progress)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, stores, [5, 7]))
    assert stores[0].versions("events") == list(range(8))
    for version in (0, 5, 7):
        assert content(stores[0], "events", version) == content_of(version)
    usage = stores[0].usage("events")
    stores[0].prune("events")
    assert stores[0].usage("events") == usage  # it may be what a run is writing
    stores[0].prune("events", min_age_ms=-60_000)
    assert stores[0].usage("events").num_unreferenced_files == 0
    assert content(stores[0], "events", 7) == content_of(7)


@pytest.mark.slow
def test_moved_table_continues_after_its_last_version(
    tmp_path: Path, table: Path, stored: SnapshotStore, driver_log: DeltaLog
) -> None:
    store = SnapshotStore.open(None, tmp_path / "store")
    store.write_range("events", driver_log, 6, 7)
    shutil.copytree(table, tmp_path / "moved", copy_function=shutil.copyfile)
    store.write_range("events", DeltaLog.for_table(None, tmp_path / "moved"), 8, LATEST)
    assert store.versions("events") == [6, 7, 8, LATEST]
    assert_same_rows(store, stored, LATEST)


def test_folder_without_a_table_is_reported(spark: SparkSession, tmp_path: Path, copied: SnapshotStore) -> None:
    with pytest.raises(DeltaTableNotFoundError):
        copied.write_range("nothing", DeltaLog.for_table(spark, tmp_path / "nothing"), 0, 1)


def test_range_stores_a_version_in_few_bytes(copied: SnapshotStore, stored: SnapshotStore) -> None:
    usage: Any = stored.usage("events")
    assert (usage.num_versions, usage.num_generations, usage.num_unreferenced_files) == (LATEST + 1, 1, 0)
    assert usage.size_in_bytes / usage.num_versions < 64 * 1024


@pytest.mark.parametrize("version", [None, "0", 1.5, -1])
def test_version_that_is_no_version_is_a_value_error(stored: SnapshotStore, log: DeltaLog, version: Any) -> None:
    calls: list[Callable[[], object]] = [
        lambda: stored.manifest("events", version),
        lambda: stored.computed_state("events", version),
        lambda: stored.log_segment("events", version),
        lambda: stored.state("events", version),
        lambda: stored.all_files("events", version),
        lambda: stored.version("events", version),
        lambda: stored.files_and_tombstones("events", version, (), ()),
        lambda: stored.scan("events", version),
        lambda: stored.file_changes("events", version, 1),
        lambda: stored.row_changes("events", version, 1),
        lambda: stored.row_changes_since("events", 0, version),
        lambda: stored.write_range("events", log, version, 1),
        lambda: stored.write_versions("events", log, [version]),
        lambda: log.row_changes(version, 1),
        lambda: log.row_changes(0, version),
        lambda: log.update_after_commit(version),
        lambda: log.get_log_segment_after_commit(version),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="Expected a version of 0 or more"):
            call()


NO_LOG: Any = None
INVALID: dict[str, tuple[Callable[[SnapshotStore], object], str]] = {
    "changes of a reversed range": (lambda store: store.row_changes("t", 3, 2), "first <= last, found 3 and 2"),
    "changes since a later version": (lambda store: store.row_changes_since("t", 3, 2), "since <= last, found 3 and 2"),
    "a reversed range": (lambda store: store.write_range("t", NO_LOG, 3, 2), "first <= last, found 3 and 2"),
    "no versions": (lambda store: store.write_versions("t", NO_LOG, []), "at least one version, found none"),
    "another form": (
        lambda store: store.write_versions("t", NO_LOG, [0], materialize_as="json"),  # type: ignore[arg-type]
        "'view' or 'table', found 'json'",
    ),
    "a negative version": (lambda store: store.write_range("t", NO_LOG, -1, 2), "-1"),
    "changes of files since a negative version": (lambda store: store.file_changes("t", -1, 2), "-1"),
    "changes of files up to a negative version": (lambda store: store.file_changes("t", 2, -1), "-1"),
}


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore.open(None, tmp_path / "store")


@pytest.mark.parametrize("case", INVALID)
def test_invalid_argument_is_a_value_error_with_what_was_found(case: str, store: SnapshotStore, tmp_path: Path) -> None:
    ask, found = INVALID[case]
    with pytest.raises(ValueError, match=found):
        ask(store)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.manifest("t", 0),
        lambda store: store.computed_state("t", 0),
        lambda store: store.log_segment("t", 0),
        lambda store: store.tables("t"),
        lambda store: store.row_changes("t", 0, 0),
        lambda store: store.row_changes_since("t", None, 0),
        lambda store: store.scan("t", 0),
        lambda store: store.file_changes("t", 0, 1),
    ],
    ids=["manifest", "state", "segment", "metadata tables", "changes", "changes since", "scan", "file changes"],
)
def test_version_that_is_not_stored_is_an_error(ask: Callable[[SnapshotStore], object], store: SnapshotStore) -> None:
    with pytest.raises(StoredVersionNotFoundError):
        ask(store)


def test_table_that_was_never_stored_has_no_versions_and_needs_spark(store: SnapshotStore) -> None:
    assert (store.versions("t"), store.table("t").current_names(), store.table("t").manifests()) == ([], {}, {})
    assert store.reason_for_spark("t") is not None


@pytest.mark.parametrize(("chosen", "expected"), [(None, {"anon": True}), ({}, {})])
def test_data_files_are_read_with_the_options_of_the_store_unless_a_scan_has_its_own(
    tmp_path: Path, chosen: dict[str, Any] | None, expected: dict[str, Any]
) -> None:
    state = SimpleNamespace(protocol=None, metadata=Metadata(id="t", schema_string='{"type":"struct","fields":[]}'))
    stored: Any = SimpleNamespace(computed_states=lambda manifests: {0: state}, generation_folder=str)
    manifest: Any = SimpleNamespace(version=0, log_path="file:///t/_delta_log", generation="1")
    found = SnapshotStore.open(None, tmp_path / "store", {"anon": True})._opened(stored, manifest)
    assert found.scanned(ScanOptions(storage_options=chosen)).spark_files.storage_options == expected
