"""What this process stores of a small version is what Spark stores of a large one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.replay.engine import UnusualError
from deltasnap_core.rules.key_hash import xxhash64
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.snapshot.options import SnapshotOptions
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from deltasnap_core.store.rows.driver_rows import DriverRows, changes_of_commits
from deltasnap_core.store.snapshot_store import SnapshotStore
from tests.builders import LOG_PATH, Action, MemoryLogStore, add, metadata, protocol, remove, write_log
from tests.core.store.tables import as_rows, content

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
        for number in range(9)
    ),
]


def changes(*actions: Action) -> pa.Table:
    store = MemoryLogStore()
    return changes_of_commits(read_commits(store, [store.put_commit(1, *actions)]), LOG_PATH)


@pytest.mark.spark
def test_hash_is_that_of_spark(spark: SparkSession) -> None:
    texts = ["part-0001-ä€😀.snappy.parquet "[:length] * (1 + length // 30) for length in range(32)]
    rows = spark.createDataFrame([(text,) for text in texts], "text string").select("text", F.xxhash64("text"))
    assert {text: xxhash64(text) for text in texts} == dict(rows.collect())


@pytest.mark.spark
def test_small_versions_are_stored_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
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
    for version in (1, 2, 4, 5, len(HISTORY) - 1):
        assert content(here, "t", version) == content(there, "t", version)
        assert as_rows(here.state("t", version)) == as_rows(there.state("t", version))
        told = [store.manifest("t", version).version_changes for store in stores]
        assert told[0] == told[1]
    by_spark = SnapshotStore.open(spark, tmp_path / "spark", engine="spark")
    for kind in ("all_files", "tombstones"):
        in_driver, on_spark = here.read_arrow("t", 5, kind), by_spark.read_arrow("t", 5, kind)
        assert in_driver.schema == on_spark.schema
        assert in_driver.sort_by("path").to_pylist() == on_spark.sort_by("path").to_pylist()
        assert in_driver.num_rows > 1


@pytest.mark.spark
def test_file_that_was_replaced_counts_once_beside_those_that_stay(spark: SparkSession, tmp_path: Path) -> None:
    first = [protocol(), metadata(), add("gone", size=1), add("grows", size=2), add("stays", size=4)]
    later = [[remove("gone"), add("grows", size=8)], [remove("stays"), add("new", size=16)], [remove("new")]]
    write_log(tmp_path / "t", dict(enumerate([first, *later])))
    log, store = DeltaLog.for_table(spark, tmp_path / "t"), SnapshotStore.open(spark, tmp_path / "store")
    for version in range(4):
        store.write_range("t", log, version, version)
    states = [store.computed_state("t", version) for version in range(4)]
    told = [(state.num_of_files, state.size_in_bytes, state.num_of_removes) for state in states]
    assert told == [(3, 7, 0), (2, 12, 1), (2, 24, 2), (1, 8, 3)]
    assert sorted(store.read_arrow("t", 1, columns=["path"])["path"].to_pylist()) == ["grows", "stays"]
    assert store.read_arrow("t", 1, "tombstones", ["path", "size"]).to_pylist() == [{"path": "gone", "size": None}]


def test_maps_with_values_that_are_not_text_are_left_to_spark() -> None:
    with pytest.raises(UnusualError):
        changes(add("a", partitionValues={"p": 1}))
    with pytest.raises(UnusualError):
        changes(add("a", tags={"t": {"u": 1}}))
    assert changes(add("a", partitionValues={"p": None})).num_rows == 1


def test_columns_that_no_action_has_are_refused(tmp_path: Path) -> None:
    rows = DriverRows(storage=WritableFiles(to_url(tmp_path)), folder=to_url(tmp_path), log_path=LOG_PATH)
    with pytest.raises(ValueError, match="found colour"):
        rows.all_files(empty_version(), columns=["path", "colour"])


def empty_version() -> VersionManifest:
    return VersionManifest(
        table="t",
        version=0,
        generation="g",
        table_id="",
        log_path=LOG_PATH,
        timestamp=0,
        min_file_retention_timestamp=0,
        base=DataSet(first=0, last=0, files=()),
    )
