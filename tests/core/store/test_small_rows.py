"""What this process stores of a small version is what Spark stores of a large one."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from deltasnap_core.log.commit_reader import read_commits
from deltasnap_core.rules.key_hash import xxhash64
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.snapshot.options import SnapshotOptions
from deltasnap_core.store.small_rows import changes_of_commits
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


def changes(*actions: Action) -> object:
    store = MemoryLogStore()
    return changes_of_commits(read_commits(store, [store.put_commit(1, *actions)]), LOG_PATH)


def small_paths(store: SnapshotStore, version: int) -> list[str]:
    files = store.small_files("t", version)
    assert files is not None
    return [row["path"] for row in files.to_pylist() if row["deleted_at"] is None]


@pytest.mark.spark
def test_hash_is_that_of_spark(spark: SparkSession) -> None:
    texts = ["part-0001-ä€😀.snappy.parquet "[:length] * (1 + length // 30) for length in range(32)]
    rows = spark.createDataFrame([(text,) for text in texts], "text string").select("text", F.xxhash64("text"))
    assert {text: xxhash64(text) for text in texts} == dict(rows.collect())


@pytest.mark.spark
def test_small_versions_are_stored_as_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "t", dict(enumerate(HISTORY)))
    stores = []
    for name, options in {"here": SnapshotOptions(), "spark": SnapshotOptions(local_actions=0)}.items():
        log = DeltaLog.for_table(spark, tmp_path / "t", options=options)
        store = SnapshotStore.open(spark, tmp_path / name)
        store.write_range("t", log, 0, 0)
        store.write_range("t", log, 1, 5)
        for version in range(6, len(HISTORY)):
            assert len(small_paths(store, version - 1)) == store.computed_state("t", version - 1).num_of_files
            store.write_range("t", log, version, version)
        stores.append(store)
    here, there = stores
    for version in (1, 2, 4, 5, len(HISTORY) - 1):
        assert content(here, "t", version) == content(there, "t", version)
        assert as_rows(here.state("t", version)) == as_rows(there.state("t", version))
        told = [store.manifest("t", version).version_changes for store in stores]
        assert told[0] == told[1]
    small = here.small_files("t", 5)
    assert small is not None
    files = small.to_pylist()
    assert {(row["path"], row["size"]) for row in files if row["deleted_at"] is None} == {
        (row.path, row.size) for row in there.all_files("t", 5).collect()
    }
    assert {(row["path"], row["size"]) for row in files if row["deleted_at"] is not None} == {
        (row.path, row.size) for row in there.tombstones("t", 5).collect()
    }


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
    small = store.small_files("t", 1)
    assert small is not None
    assert sorted((row["path"], row["deleted_at"] is None) for row in small.to_pylist()) == [
        ("gone", False),
        ("grows", True),
        ("stays", True),
    ]


def test_what_python_would_read_otherwise_is_left_to_spark() -> None:
    assert changes(add("a", partitionValues={"p": 1})) is None
    assert changes(add("a", tags={"t": {"u": 1}})) is None
    assert changes(add("a", partitionValues={"p": None})) is not None
