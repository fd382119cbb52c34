"""Snapshots in Spark: frames, caches, checksums, and readers beside a writer."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog, DeltaTableNotFoundError, SnapshotOptions
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE, STATE
from deltasnap_core.snapshot.snapshot import InitialSnapshot
from tests.builders import FIRST_COMMIT_MS, CountingLogStore, add, commit_info, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.conftest import FixedClock, golden_folder
from tests.golden import GoldenTable, load_golden_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VECTOR = {"storageType": "u", "pathOrInlineDv": "abc", "offset": 1, "sizeInBytes": 40, "cardinality": 3}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three versions: two files, one of them replaced by one with a deletion vector, one removed."""
    stats = json.dumps({"numRecords": 10})
    write_log(
        tmp_path,
        {
            0: [
                commit_info("CREATE"),
                protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=[]),
                metadata(),
            ],
            1: [commit_info("WRITE", operationMetrics={"n": 2}), add("a", size=5, stats=stats), add("b", size=7)],
            2: [remove("a", deletion_timestamp=5), add("a", size=5, stats=stats, deletionVector=VECTOR), remove("b")],
        },
    )
    return tmp_path


def stored_rdds(spark: SparkSession) -> list[str]:
    found: Any = spark.sparkContext._jsc.sc().getRDDStorageInfo()
    return [info.name() for info in found]


def test_members_agree_with_the_log(spark: SparkSession, table: Path, clock: FixedClock) -> None:
    snapshot = DeltaLog.for_table(spark, table, clock=clock).get_snapshot_at(2, min_file_retention_timestamp=0)
    assert (snapshot.all_files.schema.names, snapshot.tombstones.schema.names) == (ADD.names, REMOVE.names)
    assert [(row.path, row.deletionVector.offset) for row in snapshot.all_files.collect()] == [("a", 1)]
    assert sorted(row.path for row in snapshot.tombstones.collect()) == ["a", "b"]
    state = snapshot.computed_state
    assert (state.num_of_files, state.num_of_removes, state.size_in_bytes, state.num_records) == (1, 2, 5, 10)
    assert (state.num_deletion_vectors, state.num_deleted_records) == (1, 3)
    assert snapshot.computed_state is state
    assert spark.conf.get("spark.job.description", None) is None


def test_tombstones_expire_at_the_boundary_strictly(spark: SparkSession, table: Path) -> None:
    log = DeltaLog.for_table(spark, table)
    kept = {time: log.get_snapshot_at(2, min_file_retention_timestamp=time).tombstones.count() for time in (0, 4, 5)}
    assert kept == {0: 2, 4: 2, 5: 1}
    assert log.get_snapshot_at(2, min_file_retention_timestamp=FIRST_COMMIT_MS).computed_state.num_of_removes == 0


@pytest.fixture
def nothing_kept(spark: SparkSession) -> None:
    """Clear the session's storage and views from other tests."""
    DeltaLog.clear_cache()
    spark.catalog.clearCache()
    for view in views(spark):
        spark.catalog.dropTempView(view)


def views(spark: SparkSession) -> list[str]:
    """The names of the temporary views. (`listTables` needs queries that are compiled.)"""
    return [row["viewName"] for row in spark.sql("show views").collect()]


@pytest.mark.spark
@pytest.mark.usefixtures("nothing_kept")
def test_state_of_the_current_snapshot_is_cached_under_its_name_until_replaced(
    spark: SparkSession, table: Path, clock: FixedClock
) -> None:
    log = DeltaLog.for_table(spark, table, clock=clock)
    name = f"In-memory table `Delta Table State #2 - {log.path}`"
    old = log.snapshot
    assert old.state.count() == old.state.count() == 3
    assert stored_rdds(spark).count(name) == 1
    assert (old.all_files.count(), old.state.schema) == (1, STATE)
    assert not [rdd for rdd in stored_rdds(spark) if rdd.endswith(f"{log.path} (2)`")]
    write_log(table, {3: [add("c")]})
    new = log.update()
    assert name not in stored_rdds(spark)
    assert (old.state.count(), new.state.count()) == (3, 4)
    assert name not in stored_rdds(spark)
    log.close()
    assert not [rdd for rdd in stored_rdds(spark) if log.path in rdd]
    assert not views(spark)


@pytest.mark.spark
@pytest.mark.usefixtures("nothing_kept")
def test_counts_of_a_large_table_are_cached_until_closed(spark: SparkSession, table: Path, clock: FixedClock) -> None:
    options = SnapshotOptions(engine="spark", cached_counts_from=0)
    log = DeltaLog.for_table(spark, table, clock=clock, options=options)
    kept = [f"In-memory table `Delta Table Counts #2 - {log.path}`"]
    assert (log.snapshot.computed_state.num_of_files, stored_rdds(spark)) == (1, kept)
    write_log(table, {3: [add("c")]})
    assert (log.update().computed_state.num_of_files, stored_rdds(spark)) == (2, kept)
    write_log(table, {4: [remove("a"), add("d"), add("e")]})
    log.update()
    write_log(table, {5: [add("f")]})
    assert (log.update().computed_state.num_of_files, stored_rdds(spark)) == (5, kept)
    log.close()
    assert stored_rdds(spark) == []
    assert not views(spark)


@pytest.mark.spark
@pytest.mark.usefixtures("nothing_kept")
def test_counts_of_a_small_table_are_not_cached(spark: SparkSession, table: Path) -> None:
    log = DeltaLog.for_table(spark, table, options=SnapshotOptions(engine="spark"))
    assert log.snapshot.computed_state.num_of_files == 1
    assert stored_rdds(spark) == []


@pytest.mark.spark
def test_states_are_not_cached_if_disabled(spark: SparkSession, table: Path) -> None:
    log = DeltaLog.for_table(spark, table, options=SnapshotOptions(cache_state=False))
    assert log.snapshot.state.count() == 3
    assert log.get_snapshot_at(1).state.count() == 4
    assert not [rdd for rdd in stored_rdds(spark) if log.path in rdd]


def test_statistics_are_optional(spark: SparkSession, table: Path) -> None:
    log = DeltaLog.for_table(spark, table, options=SnapshotOptions(load_stats=False))
    assert [(row.path, row.size, row.stats) for row in log.snapshot.all_files.collect()] == [("a", 5, None)]
    assert log.snapshot.all_files.schema.names == ADD.names
    assert log.snapshot.computed_state.num_records == 10


def test_files_of_a_checksum_are_compared_with_those_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata(), add("a", size=7)]})
    said = {
        "tableSizeBytes": 7,
        "numFiles": 1,
        "numMetadata": 1,
        "numProtocol": 1,
        "allFiles": [add("b", size=7)["add"]],
    }
    (log / file_names.checksum_file(0)).write_text(json.dumps(said))
    found = DeltaLog.for_table(spark, tmp_path).update().validate_checksum()
    assert [difference.field for difference in found] == ["all_files"]


def test_initial_snapshot_is_empty_and_has_every_column(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = DeltaLog.for_table(spark, tmp_path / "nothing").snapshot
    assert isinstance(snapshot, InitialSnapshot)
    assert (snapshot.state.schema, snapshot.state.count()) == (STATE, 0)
    assert (snapshot.all_files.schema.names, snapshot.all_files.count()) == (ADD.names, 0)
    assert (snapshot.tombstones.schema.names, snapshot.tombstones.count()) == (REMOVE.names, 0)
    state = snapshot.computed_state
    assert (state.num_of_files, state.size_in_bytes, state.metadata, state.protocol) == (0, 0, None, None)


def test_state_of_an_updated_snapshot_reads_new_commits(spark: SparkSession, table: Path, clock: FixedClock) -> None:
    log_folder = table / file_names.LOG_FOLDER
    write_checkpoint(log_folder, 2, "classic", [protocol(), metadata(), add("a", size=5), remove("b")])
    cold = DeltaLog.for_table(spark, table, clock=clock)
    store = CountingLogStore(cold.context.table_log.store)
    log = DeltaLog.for_table(spark, table, clock=clock, store=store)
    assert log.snapshot.computed_state.num_of_files == 1
    store.reset()
    write_log(table, {3: [add("c", size=3)], 4: [remove("a", deletion_timestamp=clock()), add("d")]})
    state = log.update().computed_state
    assert (len(store.lists), store.opens) == (1, [])
    assert [path[-25:-5] for path in store.reads] == [f"{3:020}", f"{4:020}"]
    assert state == cold.update().computed_state
    assert (state.num_of_files, state.size_in_bytes, state.num_of_removes) == (2, 4, 1)


def test_initial_snapshot_has_no_protocol_and_no_metadata(tmp_path: Path) -> None:
    snapshot = DeltaLog.for_table(None, tmp_path / "nothing").snapshot
    with pytest.raises(DeltaTableNotFoundError):
        _ = snapshot.protocol
    with pytest.raises(DeltaTableNotFoundError):
        _ = snapshot.metadata


@pytest.mark.parametrize("versions", [{"start": -1}, {"end": -1}])
def test_history_from_an_invalid_version_is_a_wrong_argument(table: Path, versions: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="Expected a version of 0 or more"):
        DeltaLog.for_table(None, table).history_frame(**versions)


def test_history_is_a_frame_with_one_row_per_commit(spark: SparkSession, table: Path) -> None:
    frame = DeltaLog.for_table(spark, table).history_frame(limit=2)
    assert frame.schema.names[:5] == ["version", "timestamp", "userId", "userName", "operation"]
    assert [(row.version, row.operation, row.operationMetrics) for row in frame.collect()] == [
        (2, None, None),
        (1, "WRITE", {"n": "2"}),
    ]


def test_checksum_against_its_log_is_reported_by_field(spark: SparkSession, table: Path, clock: FixedClock) -> None:
    log = DeltaLog.for_table(spark, table, clock=clock)
    state = log.snapshot.computed_state
    assert state.protocol is not None
    assert state.metadata is not None
    said = {
        "tableSizeBytes": 5,
        "numFiles": 1,
        "numMetadata": 1,
        "numProtocol": 1,
        "protocol": state.protocol.to_json(),
        "metadata": {**state.metadata.to_json(), "schemaString": " " + (state.metadata.schema_string or "")},
        "setTransactions": [],
        "domainMetadata": [],
        "numDeletedRecordsOpt": 3,
        "numDeletionVectorsOpt": 1,
        "histogramOpt": state.file_size_histogram.to_json(),
        "deletedRecordCountsHistogramOpt": state.deleted_record_counts_histogram.to_json(),
        "allFiles": [{**row.asDict(recursive=True), "dataChange": False} for row in log.snapshot.all_files.collect()],
    }

    def differences(**fields: Any) -> dict[str, tuple[Any, Any]]:
        file = table / file_names.LOG_FOLDER / file_names.checksum_file(2)
        file.write_text(json.dumps({**said, **fields}), encoding="utf-8")
        DeltaLog.clear_cache()
        found = DeltaLog.for_table(spark, table, clock=clock).snapshot.validate_checksum()
        return {difference.field: (difference.in_checksum, difference.in_log) for difference in found}

    assert differences() == {}
    numbers = {"tableSizeBytes": 6, "numFiles": 2, "numDeletedRecordsOpt": 4, "numDeletionVectorsOpt": None}
    expected = {"table_size_bytes": (6, 5), "num_files": (2, 1), "num_deleted_records": (4, 3)}
    assert differences(**numbers) == expected
    empty = {name: [0] * len(values) for name, values in state.file_size_histogram.to_json().items()}
    empty["sortedBinBoundaries"] = list(state.file_size_histogram.sorted_bin_boundaries)
    wrong = {
        "setTransactions": [{"appId": "a", "version": 1}],
        "protocol": protocol()["protocol"],
        "metadata": metadata(table_id="another")["metaData"],
        "histogramOpt": empty,
        "allFiles": [],
    }
    fields = {"set_transactions", "protocol", "metadata", "file_size_histogram", "all_files"}
    assert set(differences(**wrong)) == fields


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.skipif(golden_folder() is None, reason="no golden tables: set DELTASNAP_GOLDEN to their folder")
def test_checksums_of_golden_tables_agree_with_logs(spark: SparkSession, golden: Path, clock: FixedClock) -> None:
    contradicting: dict[tuple[str, int], list[str]] = {}
    checked = 0
    for golden_table in load_golden_tables(golden):
        for version in _with_checksum(golden_table):
            snapshot = DeltaLog.for_table(spark, golden_table.path, clock=clock).get_snapshot_at(version)
            checked += snapshot.checksum is not None
            if found := snapshot.validate_checksum():
                contradicting[golden_table.name, version] = [difference.field for difference in found]
    assert checked >= 50
    assert contradicting == {}


def _with_checksum(table: GoldenTable) -> list[int]:
    files = (table.path / file_names.LOG_FOLDER).glob("[0-9]*.crc")
    return [version for version in sorted(int(file.stem) for file in files) if version in table.states]


class Reader(Thread):
    """Follows a table until its writer is done, and records the results."""

    def __init__(self, log: DeltaLog, done: Event) -> None:
        super().__init__()
        self.log, self.done = log, done
        self.versions: list[int] = []
        self.counts: dict[int, tuple[int, int]] = {}
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            is_last = False
            while not is_last:
                is_last = self.done.is_set()
                snapshot = self.log.update()
                state = snapshot.computed_state
                self.versions.append(snapshot.version)
                self.counts[snapshot.version] = (state.num_of_files, state.size_in_bytes)
        except BaseException as failure:  # noqa: BLE001 - a thread's failure is the test's
            self.failure = failure


def write_commits(path: Path, first: int, last: int) -> None:
    for version in range(first, last + 1):
        match version % 10:
            case 7:
                DeltaTable(str(path)).delete(f"id = {version - 5}")
            case 9:
                DeltaTable(str(path)).optimize.compact()
            case _:
                write_deltalake(str(path), pa.table({"id": pa.array([version, version + 1])}), mode="append")
        if version % 40 == 0:
            DeltaTable(str(path)).create_checkpoint()


@pytest.mark.spark
@pytest.mark.thorough
def test_concurrent_readers_match_cold_loads(spark: SparkSession, tmp_path: Path) -> None:
    write_commits(tmp_path, 0, 0)
    done = Event()
    readers = [Reader(DeltaLog.for_table(spark, tmp_path), done) for _ in range(3)]
    for reader in readers:
        reader.start()
    for first in range(1, 100, 10):
        write_commits(tmp_path, first, first + 9)
        while any(reader.is_alive() and max(reader.versions, default=0) < first for reader in readers):
            sleep(0.01)  # a reader whose first query is slow should not miss everything in between
    done.set()
    for reader in readers:
        reader.join()
    assert [reader.failure for reader in readers] == [None] * 3
    latest = DeltaTable(str(tmp_path)).version()
    assert all(reader.versions == sorted(reader.versions) and reader.versions[-1] == latest for reader in readers)
    seen = {version: counts for reader in readers for version, counts in reader.counts.items()}
    assert len(seen) > 10
    assert all(reader.counts.items() <= seen.items() for reader in readers)
    for version, counts in seen.items():
        files = pa.table(DeltaTable(str(tmp_path), version=version).get_add_actions(flatten=True))
        assert counts == (files.num_rows, sum(files["size_bytes"].to_pylist()))
    for version in list(seen)[:: max(1, len(seen) // 4)]:
        DeltaLog.clear_cache()
        cold = DeltaLog.for_table(spark, tmp_path).get_snapshot_at(version).computed_state
        assert seen[version] == (cold.num_of_files, cold.size_in_bytes)
