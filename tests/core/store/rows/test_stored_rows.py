"""Versions that the driver stores equal those of Spark, which reads only the rows of files that changes affect."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from pyspark.sql import SparkSession

from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.errors import CorruptStoreError
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.replay.engine import UnusualError
from deltasnap_core.replay.sessions import provider_of
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.rules.key_hash import xxhash64
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from deltasnap_core.store.rows import driver_rows as driver_rows_module, spark_rows as module
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from tests.builders import LOG_PATH, Action, add, metadata, protocol, remove, write_log
from tests.core.store.rows.driver_rows_builders import base_rows, changes, driver_rows, empty_version, step
from tests.core.store.rows.spark_rows_builders import LATE, OLD, base, spark_rows
from tests.core.store.tables import content
from tests.driver_bases import use_driver_bases

VECTOR = {"storageType": "u", "pathOrInlineDv": "abc", "offset": 1, "sizeInBytes": 10, "cardinality": 3}
STATS = '{"numRecords":7}'
HISTORY = [
    [protocol(), metadata(), add("day=1/a", size=1, partitionValues={"day": "1"}, stats=STATS), add("b%20c", size=2)],
    [remove("b c", size=2), add("d", size=3, tags={"x": "ä", "y": None}, partitionValues={"day": None})],
    [remove("day=1/a"), add("day=1/a", size=1, deletionVector=VECTOR, partitionValues={"day": "1"})],
    [],
    [add("d", size=4), remove("d"), add("/data/e", size=5, baseRowId=7, defaultRowCommitVersion=4)],
    [remove("day=1/a", deletionVector=VECTOR, deletion_timestamp=None), remove("never-there")],
    *(
        [add(f"file-{number}", size=number), add(f"passing-{number}"), remove(f"passing-{number - 1}")]
        for number in range(2)
    ),
]


@pytest.mark.parametrize("columns", [["size"], ["path", "size"], ["size", "path"]])
def test_columns_are_those_asked_for_with_canonical_paths(tmp_path: Path, columns: list[str]) -> None:
    rows = driver_rows(tmp_path)
    applied, _ = rows.apply(step(empty_version(), "changes-1-1", [add("/data/e", size=2)]))
    manifest = replace(empty_version(), version=1, changes=(applied,))
    (found,) = rows.all_files(manifest, columns).to_pylist()
    assert found == {name: {"path": "file:/data/e", "size": 2}[name] for name in columns}


def test_version_reads_no_changes_of_later_versions(tmp_path: Path) -> None:
    rows = driver_rows(tmp_path)
    commits = [[add("a"), add("b", size=4)], [remove("a"), add("c")], [add("d"), remove("b")]]
    applied, deltas = rows.apply(step(empty_version(), "changes-1-3", *commits))
    begun_and_ended = [(d.begun["num_of_files"], d.ended["num_of_files"]) for d in deltas.values()]
    assert begun_and_ended == [(2, 0), (1, -1), (1, -1)]
    assert (applied.first, applied.last, applied.rows) == (1, 3, 6)

    def paths(version: int, changes: DataSet) -> tuple[list[str], list[str]]:
        manifest = replace(empty_version(), version=version, changes=(changes,))
        found = rows.all_files(manifest, ["path"]), rows.tombstones(manifest, KEEP_ALL, ["path"])
        return sorted(found[0]["path"].to_pylist()), sorted(found[1]["path"].to_pylist())

    assert paths(1, applied) == (["a", "b"], [])
    assert paths(2, applied) == (["b", "c"], ["a"])
    assert paths(3, applied) == (["c", "d"], ["a", "b"])
    # The log was rolled back to version 2 and has another version 3: merging drops the changes of the old one.
    second = replace(empty_version(), version=2, changes=(applied,))
    again, _ = rows.apply(step(second, "changes-1-3-again", [add("e")]))
    assert (again.first, again.last, again.rows) == (1, 3, 5)
    assert paths(3, again) == (["b", "c", "e"], ["a"])


@pytest.mark.spark
@pytest.mark.thorough
def test_small_versions_are_stored_the_same_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "t", dict(enumerate(HISTORY)))
    stores = []
    for name, options in {"here": SnapshotOptions(), "spark": SnapshotOptions(engine="spark")}.items():
        log = DeltaLog.for_table(spark, tmp_path / "t", options=options)
        store = SnapshotStore.open(spark, tmp_path / name)
        store.write_range("t", log, 0, 0)
        store.write_range("t", log, 1, 5)
        for version in range(6, len(HISTORY)):
            assert store.read_arrow("t", version - 1).num_rows == store.computed_state("t", version - 1).num_of_files
            store.write_range("t", log, version, version)
        stores.append(store)
    here, there = stores
    for version in (5, len(HISTORY) - 1):
        assert content(here, "t", version) == content(there, "t", version)
        reported = [store.manifest("t", version).version_changes for store in stores]
        assert reported[0] == reported[1]
    by_spark = SnapshotStore.open(spark, tmp_path / "spark", engine="spark")
    for kind in ("all_files", "tombstones"):
        in_driver, on_spark = here.read_arrow("t", 5, kind), by_spark.read_arrow("t", 5, kind)
        assert in_driver.schema == on_spark.schema
        assert in_driver.sort_by("path").to_pylist() == on_spark.sort_by("path").to_pylist()
        assert in_driver.num_rows > 1


def test_replaced_file_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    first = [protocol(), metadata(), add("gone", size=1), add("grows", size=2), add("stays", size=4)]
    later = [[remove("gone"), add("grows", size=8)], [remove("stays"), add("new", size=16)], [remove("new")]]
    write_log(tmp_path / "t", dict(enumerate([first, *later])))
    log, store = DeltaLog.for_table(None, tmp_path / "t"), SnapshotStore.open(None, tmp_path / "store")
    for version in range(4):
        store.write_range("t", log, version, version)
    states = [store.computed_state("t", version) for version in range(4)]
    reported = [(state.num_of_files, state.size_in_bytes, state.num_of_removes) for state in states]
    assert reported == [(3, 7, 0), (2, 12, 1), (2, 24, 2), (1, 8, 3)]
    assert sorted(store.read_arrow("t", 1, columns=["path"])["path"].to_pylist()) == ["grows", "stays"]
    assert store.read_arrow("t", 1, "tombstones", ["path", "size"]).to_pylist() == [{"path": "gone", "size": None}]


def test_maps_with_values_that_are_not_strings_are_read_by_spark() -> None:
    with pytest.raises(UnusualError):
        changes(add("a", partitionValues={"p": 1}))
    with pytest.raises(UnusualError):
        changes(add("a", tags={"t": {"u": 1}}))
    assert changes(add("a", partitionValues={"p": None})).num_rows == 1


@pytest.mark.parametrize(("column", "damaged"), [(b"version", b"wersion"), (b"path", b"qath")])
def test_renamed_column_of_a_damaged_footer_is_an_error(column: bytes, damaged: bytes, tmp_path: Path) -> None:
    rows = driver_rows(tmp_path)
    applied, _ = rows.apply(step(empty_version(), "changes-1-2", [add("a"), add("b")], [remove("a")]))
    manifest = replace(empty_version(), version=2, changes=(applied,))
    file = tmp_path / applied.files[0].path
    content = file.read_bytes()
    file.write_bytes(content.replace(column, damaged))
    with pytest.raises(CorruptStoreError, match="expected the footer that was written"):
        rows.all_files(manifest)
    file.write_bytes(content)
    assert rows.all_files(manifest)["path"].to_pylist() == ["b"]


def test_versions_far_apart_keep_their_order(tmp_path: Path) -> None:
    rows, far = driver_rows(tmp_path), 2**61
    files = [add(f"file-{number}") for number in range(2000)]
    first, _ = rows.apply(step(empty_version(), "changes-first", files))
    base = DataSet(first=far, last=far, files=rows._write(base_rows(tmp_path, first), "base"))
    start = replace(empty_version(), version=far, base=base)
    removed, _ = rows.apply(step(start, "changes-second", [remove("file-7")]))
    manifest = replace(start, version=far + 1, changes=(removed,))
    assert rows.all_files(manifest).num_rows == 1999
    assert rows.tombstones(manifest, KEEP_ALL)["path"].to_pylist() == ["file-7"]


def test_live_file_without_a_size_is_damage_of_the_file_that_stores_it(tmp_path: Path) -> None:
    rows = driver_rows(tmp_path)
    first, _ = rows.apply(step(empty_version(), "changes-first", [add("a")]))
    table = base_rows(tmp_path, first)
    (row,) = table.to_pylist()
    unsized = pa.Table.from_pylist([{**row, "add": {**row["add"], "size": None}}], table.schema)
    base = DataSet(first=1, last=1, files=rows._write(unsized, "base"))
    start = replace(empty_version(), version=1, base=base)
    with pytest.raises(CorruptStoreError, match="size") as error:
        rows.apply(step(start, "changes-second", [remove("a")]))
    assert error.value.path == to_url(tmp_path / base.files[0].path)


class CountedFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """A remote storage that counts the bytes requested as ranges."""

    protocol = "counted"
    requested: ClassVar[list[int]] = []

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **options: Any) -> bytes:
        if start is not None and end is not None:
            self.requested.append(end - start)
        return bytes(super().cat_file(path, start, end, **options))


def test_version_that_changes_one_file_reads_one_row_group_of_remote_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("counted", CountedFileSystem, clobber=True)
    monkeypatch.setattr(driver_rows_module, "ROWS_A_GROUP", 10)
    folder = "counted://one-row-group"
    rows = DriverRows(storage=WritableFiles(folder), folder=folder, log_path=LOG_PATH)
    stored, _ = rows.apply(step(empty_version(), "many", [add(f"file-{number}", size=number) for number in range(100)]))
    previous = replace(empty_version(), version=1, changes=(stored,))
    CountedFileSystem.requested.clear()
    _, deltas = rows.apply(replace(step(previous, "one", [remove("file-42")]), merged=()))
    assert deltas[2].ended["num_of_files"] == -1
    assert deltas[2].ended["size_in_bytes"] == -42
    assert 0 < sum(CountedFileSystem.requested) < stored.files[0].size / 5
    CountedFileSystem.requested.clear()
    elsewhere = rows._read(stored.files[0], ["add.size"], pa.Table.to_pylist, pa.array([(1 << 63) - 1]))
    assert (elsewhere, CountedFileSystem.requested) == ([], [])


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["base"]

COMMITS: list[list[Action]] = [
    [remove("a", deletion_timestamp=LATE, size=1), add("new", size=10)],
    [add("b", size=20, deletionVector=VECTOR), remove("b", deletion_timestamp=LATE), add("c d", size=30)],
    [],
    [remove("new", deletion_timestamp=LATE, size=10), add("expires", size=40)],
]


@pytest.mark.spark
def test_rows_by_key_are_in_small_row_groups_with_statistics_of_the_key(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 5_000, numPartitions=1).selectExpr("-id as key", "id as other")
    (file,) = spark_rows(spark, tmp_path).parquet.write_by_key(rows, "rows")
    footer = pq.read_metadata(tmp_path / file.path)
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    assert [group.num_rows for group in groups] == [2000, 2000, 1000]
    assert [group.column(0).statistics.max for group in groups] == [-3000, -1000, 0]
    assert not any(group.column(1).is_stats_set for group in groups)


def reader(spark: SparkSession) -> ActionReader:
    return ActionReader(spark=spark, files=SparkFiles.of(None, provider_of(spark)), log_path=LOG_PATH)


def written(folder: Path, changes: DataSet) -> list[dict[str, Any]]:
    (file,) = changes.files
    return sorted(pq.read_table(folder / file.path).to_pylist(maps_as_pydicts="strict"), key=repr)


def paths(frame: DataFrame | None) -> list[str]:
    assert frame is not None
    return sorted(row[0] for row in frame.selectExpr("coalesce(add.path, remove.path)").collect())


def test_spark_applies_commits_as_the_driver_does(spark: SparkSession, tmp_path: Path, base: VersionManifest) -> None:
    rows, by_driver = spark_rows(spark, tmp_path), driver_rows(tmp_path)
    previous = base
    for first, last in ((1, 2), (3, 4)):
        made = step(previous, f"changes-{last}", *COMMITS[first - 1 : last])
        kept = Retention.after(OLD) if last == 4 else KEEP_ALL
        made = replace(made, retentions={previous.version: KEEP_ALL, **dict.fromkeys(range(first, last + 1), kept)})
        found, deltas = rows.apply(made, reader(spark))
        expected, of_driver = by_driver.apply(replace(made, folder=f"driver-{last}"))
        assert deltas == of_driver
        assert (found.first, found.last) == (1, last)
        assert written(tmp_path, found) == written(tmp_path, expected)
        previous = replace(previous, version=last, changes=(found,))


def test_step_without_changes_writes_no_file(spark: SparkSession, tmp_path: Path, base: VersionManifest) -> None:
    found, deltas = spark_rows(spark, tmp_path).apply(step(base, "changes-1", []), reader(spark))
    assert found == DataSet(first=1, last=1, files=())
    assert [delta.ended["num_of_files"] for delta in deltas.values()] == [0]


def test_only_rows_of_changed_and_expiring_files_are_looked_up(
    spark: SparkSession, tmp_path: Path, base: VersionManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark_rows(spark, tmp_path)
    applied, _ = driver_rows(tmp_path).apply(step(base, "changes-1", [add("a", size=2), remove("c d")]))
    changes = rows.changes((applied,), 1)
    touched = sorted(map(xxhash64, ("a", "c d")))
    assert rows.keys_touched_or_expiring(base, changes, KEEP_ALL) == touched
    assert paths(rows.state_of(base, touched)) == ["a", "c%20d"]
    kept = replace(base, min_file_retention_timestamp=OLD - 1)
    expiring = sorted((*touched, xxhash64("expires")))
    assert rows.keys_touched_or_expiring(kept, changes, Retention.after(OLD)) == expiring
    assert rows.keys_touched_or_expiring(kept, None, Retention.after(LATE)) == sorted(
        map(xxhash64, ("expires", "gone"))
    )
    assert rows.keys_touched_or_expiring(kept, None, Retention.after(OLD - 1)) == []
    assert rows.keys_touched_or_expiring(base, changes, Retention.after(OLD)) is None  # those without a time expire too
    monkeypatch.setattr(module, "MAX_KEYS", 2)
    assert rows.keys_touched_or_expiring(base, changes, KEEP_ALL) == touched
    assert rows.keys_touched_or_expiring(kept, changes, Retention.after(OLD)) is None  # too many


def test_version_reads_its_changes_up_to_itself(spark: SparkSession, tmp_path: Path, base: VersionManifest) -> None:
    rows = spark_rows(spark, tmp_path)
    applied, _ = driver_rows(tmp_path).apply(step(base, "changes-1-2", [add("x")], [remove("a"), add("y")]))
    manifest = replace(base, version=1, changes=(applied,))
    assert paths(rows.state_of(manifest)) == sorted(["a", "b", "c%20d", "kept", "expires", "lapses", "gone", "x"])
    assert paths(rows.base_of(manifest, [xxhash64("c d")])) == ["c%20d"]


def test_written_folder_has_only_files_with_rows(tmp_path: Path) -> None:
    url = to_url(tmp_path)
    unused: Any = None
    parquet = ParquetFiles(sessions=unused, storage=WritableFiles(url), spark_files=unused, folder=url)
    folder = tmp_path / "base"
    folder.mkdir()
    for name, numbers in {"part-1": [1, 2], "part-0": []}.items():
        pq.write_table(pa.table({"number": pa.array(numbers, pa.int64())}), folder / f"{name}.parquet")
    (folder / ".part-1.parquet.crc").write_bytes(b"1")
    (file,) = parquet._written(f"{url}/base", keep_empty=False)
    assert (file.path, file.size, file.rows) == ("base/part-1.parquet", (folder / "part-1.parquet").stat().st_size, 2)
    assert [path.name for path in folder.iterdir()] == ["part-1.parquet"]
