"""Metadata tables and changes between versions, on a table written by deltalake, which then loses its log."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.protocol.log_files.file_names import checkpoint_file, commit_file
from deltasnap_core.scan.tables import vacuum_candidates
from deltasnap_core.scan.tables.metadata_tables import NAMES
from deltasnap_core.scan.tables.vacuum_summary import vacuum_summary
from tests.builders import (
    FIRST_COMMIT_MS,
    Action,
    add,
    commit_info,
    field,
    metadata,
    protocol,
    remove,
    schema,
    write_log,
)
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.catalog_tables import FILES, write_catalog_managed
from tests.core.scan.tables.vacuum_candidates_builders import PlainKeys
from tests.oracle import replay
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core import MetadataTables


@dataclass(frozen=True)
class Made:
    """A table: version 0 and 1 append, 2 deletes a partition, 3 compacts the other, 4 appends."""

    path: Path
    log: DeltaLog
    store: SnapshotStore


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    from deltalake import DeltaTable, write_deltalake

    path = tmp_path_factory.mktemp("tables") / "events"
    for day, ids in (("2026-01-01", [1, 2]), ("2026-01-02", [3, None]), (None, None), (None, []), ("2026-01-02", [9])):
        if ids:
            rows = pa.table({"id": pa.array(ids, pa.int64()), "day": [day] * len(ids)})
            rows = rows.append_column("raw", pa.array([b"x"] * len(ids)))
            write_deltalake(path, rows, mode="append", partition_by=["day"])
        elif ids is None:
            DeltaTable(path).delete("day = '2026-01-01'")
        else:
            rows = pa.table({"id": pa.array([4], pa.int64()), "day": ["2026-01-02"], "raw": [b"y"]})
            write_deltalake(path, rows, mode="append")
    DeltaTable(path).optimize.compact()
    log = DeltaLog.for_table(spark, path)
    store = SnapshotStore.open(spark, path.parent / "store")
    store.write_range("events", log, 0, log.update().version)
    yield Made(path, log, store)
    shutil.rmtree(path.parent)


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.collect()]


@pytest.fixture(params=["snapshot", pytest.param("store", marks=pytest.mark.spark)])
def tables(made: Made, request: pytest.FixtureRequest) -> MetadataTables:
    return made.log.snapshot.tables if request.param == "snapshot" else made.store.tables("events")


@pytest.mark.spark
@pytest.mark.thorough
def test_every_table_has_its_documented_columns_and_a_view(spark: SparkSession, tables: MetadataTables) -> None:
    for name in NAMES:
        view = tables.create_view(name, f"events_{name}")
        frame = spark.sql(f"select * from {view}")
        documented = (getattr(type(tables), name).__doc__ or "").replace("\n", " ")
        assert name == "history" or [c for c in frame.columns if c not in documented] == []
        assert frame.count() == len(frame.collect())
    with pytest.raises(ValueError, match="no metadata table 'nope'"):
        tables.create_view("nope")


COLUMNS = {
    "files": "path size modification_time data_change records deleted_records partition stats tags",
    "entries": "path deletion_vector size added_version removed_version data_change",
    "history": "version timestamp userId userName operation operationParameters job notebook clusterId readVersion"
    " isolationLevel isBlindAppend operationMetrics userMetadata tags engineInfo txnId",
    "partitions": "partition files bytes records deleted_records smallest_file largest_file last_change",
    "versions": "version timestamp has_commit has_checkpoint loadable why_not",
    "log_files": "path kind version size modification_time in_segment",
    "tombstones": "path deletion_timestamp expires_at expired size data_change deletion_vector",
    "column_stats": "column type files files_with_min files_with_max files_with_null_count records records_with_min"
    " records_with_null_count share_of_files share_of_records null_count min max",
    "optimize_candidates": "partition files small_files small_bytes files_with_deletes rewritten_files rewritten_bytes"
    " files_after statement",
}


def test_columns_of_each_table_are_in_this_order(made: Made) -> None:
    tables = made.log.snapshot.tables
    assert {name: " ".join(getattr(tables, name).columns) for name in COLUMNS} == COLUMNS
    assert set(NAMES) - COLUMNS.keys() == {"vacuum_candidates", "file_problems", "column_trends"}


def test_column_stats_of_no_columns_have_the_same_columns(spark: SparkSession, made: Made, tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(schemaString=schema()), add("a")]})
    empty = DeltaLog.for_table(spark, tmp_path).snapshot.tables.column_stats
    assert (empty.count(), empty.dtypes) == (0, made.log.snapshot.tables.column_stats.dtypes)


def test_files_have_typed_partitions_and_readable_statistics(made: Made, tables: MetadataTables) -> None:
    (compacted,) = (row for row in rows(tables.files) if row["records"] == 4)
    assert compacted["partition"] == {"day": "2026-01-02"}
    assert compacted["stats"]["id"] == {"min": 3, "max": 9, "null_count": 1}
    assert compacted["deleted_records"] == 0


@pytest.mark.slow
def test_partitions_are_summed_up(made: Made, tables: MetadataTables) -> None:
    (partition,) = rows(tables.partitions)
    assert (partition["partition"], partition["files"], partition["records"]) == ({"day": "2026-01-02"}, 1, 4)
    assert partition["smallest_file"] == partition["largest_file"] == partition["bytes"]


@pytest.mark.slow
def test_entries_show_when_each_file_was_added_and_removed(made: Made) -> None:
    found = [(row["added_version"], row["removed_version"]) for row in rows(made.log.snapshot.tables.entries)]
    assert sorted(found, key=repr) == sorted([(0, 2), (1, 5), (3, 5), (4, 5), (5, None)], key=repr)


@pytest.mark.slow
def test_entries_are_the_versions_between_which_a_file_was_live(spark: SparkSession, tmp_path: Path) -> None:
    commits = [
        [protocol(), metadata(), add("a"), add("b")],
        [add("a"), remove("b")],
        [remove("a"), remove("b")],
        [remove("c"), add("c"), remove("a")],
        [add("a"), add("c")],
    ]
    write_log(tmp_path, dict(enumerate(commits)))
    found = lives(DeltaLog.for_table(spark, tmp_path).snapshot.tables.entries)
    assert found == [("a", 0, 2), ("a", 4, None), ("b", 0, 1), ("c", 3, None)]


@pytest.mark.spark
@pytest.mark.parametrize("time", one_in(3, [FIRST_COMMIT_MS * 10**6, 2**63 - 1, -(2**63)]))
def test_wrong_times_are_null(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time: int) -> None:
    monkeypatch.setattr(vacuum_candidates, "FileKeys", PlainKeys)
    timed = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    start = [commit_info(inCommitTimestamp=time), protocol(1, 7, writerFeatures=["inCommitTimestamp"]), timed]
    end = [commit_info(inCommitTimestamp=time), remove("b", deletion_timestamp=time)]
    write_log(tmp_path, {0: [*start, add("a", modificationTime=time), add("b")], 1: end})
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "b")
    log = DeltaLog.for_table(spark, tmp_path)
    tables = log.snapshot.tables
    times = (
        tables.files.select("modification_time"),
        tables.partitions.select("last_change"),
        tables.tombstones.select("deletion_timestamp"),
        tables.history.select("timestamp"),
        tables.versions.select("timestamp"),
        tables.vacuum_candidates().select("deletion_timestamp"),
        log.row_changes(0, 1).select("_commit_timestamp"),
    )
    found = [row[0] for row in reduce(DataFrame.union, times).collect()]
    assert found == [None] * 11
    assert tables.vacuum_summary().retention_ms > 0


def test_versions_history_and_log_files_show_the_log(made: Made) -> None:
    tables = made.log.snapshot.tables
    assert [(row["version"], row["loadable"], row["has_checkpoint"]) for row in rows(tables.versions)] == [
        (version, True, False) for version in range(6)
    ]
    assert [row["version"] for row in rows(tables.history)] == [5, 4, 3, 2, 1, 0]
    assert [(row["version"], row["kind"], row["in_segment"]) for row in rows(tables.log_files)] == [
        (version, "commit", True) for version in range(6)
    ]


TRACKED = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors", "rowTracking"])
CREATED = [TRACKED, metadata(), add("a"), add("b")]


def lives(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Return path, added_version and removed_version of entries."""
    return sorted(((row["path"], row["added_version"], row["removed_version"]) for row in rows(frame)), key=repr)


def test_entries_after_a_lost_commit_are_those_of_the_checkpoint_and_the_later_commits_also_without_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    again = [add(name, baseRowId=0, defaultRowCommitVersion=2, dataChange=False) for name in ("a", "p%20%61")]
    commits = [
        [*CREATED, add("p%20a")],
        [add("c")],
        [add("d")],
        [remove("c")],
        [],
        again,
        [remove("a"), remove("vector.bin", dataChange=False), add("e")],
        [remove("a")],
    ]
    log = write_log(tmp_path / "t", dict(enumerate(commits)))
    write_checkpoint(log, 4, "classic", replay(commits)[4].actions(0))
    for version in (2, 3):
        (log / commit_file(version)).unlink()
    opened = DeltaLog.for_table(spark, tmp_path / "t")
    summary = opened.file_changes(4, 5).summary
    assert (summary.added_files, summary.removed_files) == (0, 0)
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", opened, 4, 7)
    expected = [("a", None, 6), ("b", None, None), ("d", None, None), ("e", 6, None), ("p%20a", None, None)]
    assert lives(opened.snapshot.tables.entries) == lives(store.tables("t").entries) == expected
    live = {unquote(path) for path, _, removed in expected if removed is None}
    assert {unquote(row.path) for row in opened.snapshot.all_files.collect()} == live
    shutil.rmtree(log)
    assert lives(store.tables("t").entries) == expected


def test_entries_begin_with_a_later_checkpoint_if_the_first_is_damaged(spark: SparkSession, tmp_path: Path) -> None:
    commits = [CREATED, [add("c")], [add("d")], [remove("c")]]
    log, states = write_log(tmp_path, dict(enumerate(commits))), replay(commits)
    for version in (1, 2):
        write_checkpoint(log, version, "classic", states[version].actions(0))
        (log / commit_file(version - 1)).unlink()
    (log / checkpoint_file(1)).write_bytes(b"?")
    found = lives(DeltaLog.for_table(spark, tmp_path).snapshot.tables.entries)
    assert found == [("a", None, None), ("b", None, None), ("c", None, 3), ("d", None, None)]


@pytest.mark.slow
def test_commits_that_the_catalog_ratified_are_in_the_tables(spark: SparkSession, tmp_path: Path) -> None:
    tail = write_catalog_managed(tmp_path)
    tables = DeltaLog.for_table(spark, tmp_path).get_snapshot_at(2, log_tail=tail, max_catalog_version=2).tables
    assert [row["version"] for row in rows(tables.history)] == [2, 1, 0]
    assert [(row["version"], row["loadable"]) for row in rows(tables.versions)] == [(0, True), (1, True), (2, True)]
    assert {row["path"]: row["added_version"] for row in rows(tables.entries)} == dict(
        zip(FILES, range(3), strict=True)
    )
    found = [(row["version"], row["kind"], row["in_segment"]) for row in rows(tables.log_files)]
    assert found == [(0, "commit", True), (1, "staged commit", True), (2, "staged commit", True)]


def test_tombstones_expire_after_the_retention(made: Made, tables: MetadataTables) -> None:
    found = rows(tables.tombstones)
    assert len(found) == 4
    for row in found:
        assert (row["expires_at"] - row["deletion_timestamp"]).days == 7
        assert not row["expired"]
    assert [row["expires_at"] for row in found] == sorted(row["expires_at"] for row in found)


@pytest.mark.slow
def test_column_stats_show_the_coverage_of_statistics(made: Made, tables: MetadataTables) -> None:
    by_column = {row["column"]: row for row in rows(tables.column_stats)}
    assert set(by_column) == {"id", "raw"}
    assert (by_column["id"]["share_of_files"], by_column["id"]["share_of_records"]) == (1.0, 1.0)
    assert (by_column["id"]["min"], by_column["id"]["max"], by_column["id"]["null_count"]) == ("3", "9", 1)
    assert by_column["id"]["type"] == "long"


@pytest.mark.slow
def test_column_stats_have_no_sum_beyond_64_bits(spark: SparkSession, tmp_path: Path) -> None:
    stats = json.dumps(
        {"numRecords": 2**62, "minValues": {"id": 1}, "maxValues": {"id": 2}, "nullCount": {"id": 2**62}}
    )
    files = [add(f"{number}.parquet", stats=stats) for number in range(3)]
    write_log(tmp_path, {0: [protocol(), metadata(), *files]})
    (row,) = rows(DeltaLog.for_table(spark, tmp_path).snapshot.tables.column_stats)
    assert (row["files"], row["records"], row["records_with_min"], row["null_count"]) == (3, None, None, None)


@pytest.mark.slow
def test_column_stats_have_the_records_of_the_files(spark: SparkSession, tmp_path: Path) -> None:
    texts = ('{"numRecords":"7"}', ' {"numRecords" : 5} ', '{"numRecords":2.5}', "{", None)
    files = [add(f"{number}.parquet", stats=stats) for number, stats in enumerate(texts)]
    write_log(tmp_path, {0: [protocol(), metadata(), *files]})
    tables = DeltaLog.for_table(spark, tmp_path).snapshot.tables
    assert {row["records"] for row in rows(tables.files)} == {7, 5, None}
    assert [row["records"] for row in rows(tables.column_stats)] == [12]


CANDIDATES = (
    "path string, reason string, protected boolean, size long, deletion_timestamp timestamp, "
    "modification_time timestamp"
)


def test_vacuum_is_summed_by_age_and_bytes_are_exact_beyond_64_bits(spark: SparkSession) -> None:
    sizes, day = [2**63 - 1, 2**63 - 1, 1], 86_400
    ages = {0: [-1, 0, day - 1], 1: [day], 7: [7 * day, 30 * day - 1], 30: [30 * day], 90: [90 * day], 365: [400 * day]}
    written = [datetime.fromtimestamp(500 * day - age, UTC) for found in ages.values() for age in found]
    files = [*((size, None) for size in sizes), *((0, time) for time in written)]
    candidates = spark.createDataFrame([("a/f", "orphan", False, size, None, time) for size, time in files], CANDIDATES)
    summary = vacuum_summary(candidates, None, retention_ms=0, now_ms=500 * day * 1000)
    assert summary.size_in_bytes == sum(sizes)
    assert [(group.age_days, group.num_files) for group in summary.deleted] == [
        (None, 3),
        *sorted(((age, len(found)) for age, found in ages.items()), key=lambda each: (-each[1], each[0])),
    ]


@pytest.mark.parametrize(("expired_ms", "version"), [(3_999, None), (4_000, 4), (5_500, 5), (99_000, 6)])
def test_versions_lose_files_up_to_the_last_removal(spark: SparkSession, expired_ms: int, version: int | None) -> None:
    time = datetime.fromtimestamp(expired_ms / 1000, UTC)
    kept = datetime.fromtimestamp(100, UTC)
    candidates = spark.createDataFrame(
        [("f", "expired tombstone", False, 1, time, None), ("g", "expired tombstone", True, 1, kept, None)], CANDIDATES
    )
    removals = [(number, {"deletionTimestamp": number * 1000}) for number in (4, 5, 6)]
    events = spark.createDataFrame([*removals, (9, None)], "version long, remove struct<deletionTimestamp: long>")
    summary = vacuum_summary(candidates, events, retention_ms=0, now_ms=100_000)
    assert summary.first_readable_version == version
    assert vacuum_summary(candidates, None, retention_ms=0, now_ms=100_000).first_readable_version is None


def test_changes_are_net_and_explain_why_they_are_not_append_only(made: Made) -> None:
    for changes in (made.log.file_changes(0, 1), made.store.file_changes("events", 0, 1)):
        assert changes.summary.is_append_only
        assert changes.summary.why_not_append_only == ()
        assert (changes.summary.added_files, changes.summary.removed_files) == (1, 0)
        assert sorted(row.id or 0 for row in changes.scan_added().to_df().collect()) == [0, 3]
        assert [commit.version for commit in changes.commits] == [1]


@pytest.mark.slow
def test_changes_other_than_appends_are_reported(made: Made) -> None:
    changes = made.log.file_changes(1, 5)
    assert (changes.summary.added_files, changes.summary.removed_files) == (1, 2)
    assert changes.summary.rearranged_files == 1
    assert not changes.summary.is_append_only
    assert len(changes.summary.why_not_append_only) == 2
    assert changes.commits[0].operation == "DELETE"


@pytest.mark.slow
def test_changes_can_go_backwards(made: Made) -> None:
    there, back = made.log.file_changes(0, 5), made.log.file_changes(5, 0)
    assert rows(there.added) == rows(back.removed)
    assert [commit.version for commit in back.commits] == [5, 4, 3, 2, 1]
    undone = made.log.file_changes(5, 4).summary
    assert made.store.file_changes("events", 5, 4).summary == undone
    assert (undone.added_files, undone.rearranged_files) == (3, 3)  # by a compaction


def test_checkpoint_does_not_turn_added_or_deleted_files_into_moved_ones(spark: SparkSession, tmp_path: Path) -> None:
    first = [protocol(), metadata(), add("deleted"), add("compacted")]
    compaction = [remove("compacted", dataChange=False), add("rearranged", dataChange=False)]
    commits = [first, [add("appended")], [remove("deleted")], compaction]
    log = write_log(tmp_path, dict(enumerate(commits)))
    for version, state in ((1, replay(commits)[1]), (3, replay(commits)[3])):
        write_checkpoint(log, version, "classic", [*map(_without_data_change, state.actions(0))])
    made = DeltaLog.for_table(spark, tmp_path)

    def found(start: int, end: int) -> tuple[int, int, int]:
        summary = made.file_changes(start, end).summary
        return summary.added_files, summary.removed_files, summary.rearranged_files

    assert [found(2, 1), found(0, 3)] == [(1, 0, 0), (2, 2, 1)]
    for version in range(4):
        (log / commit_file(version)).unlink()
    assert made.file_changes(1, 3).summary.rearranged_files == 1  # its commit is gone
    assert {row["data_change"] for row in rows(made.update().tables.entries)} == {None}


def _without_data_change(action: Action) -> Action:
    """Return an action of a checkpoint as writers write it."""
    return {name: {**each, "dataChange": False} if "dataChange" in each else each for name, each in action.items()}


@pytest.mark.slow
def test_stored_version_is_scanned_and_compared_when_its_log_is_gone(made: Made, tmp_path: Path) -> None:
    log = made.path / "_delta_log"
    log.rename(tmp_path / "log")
    try:
        found = made.store.scan("events", 5, "id > 3", ["id"]).to_df().collect()
        assert sorted(row.id for row in found) == [4, 9]
        changes = made.store.file_changes("events", 0, 1)
        assert changes.summary.added_files == 1
        assert [commit.operation for commit in changes.commits] == ["WRITE"]
        assert [commit.version for commit in made.store.file_changes("events", 2, 0).commits] == [2, 1]
        assert made.store.tables("events").history.count() == 6
        assert made.store.tables("events", 1).files.count() == 2
    finally:
        (tmp_path / "log").rename(log)


@pytest.mark.slow
def test_partitions_with_a_collation_are_told_apart(spark: SparkSession, tmp_path: Path) -> None:
    collated = schema(field("id"), field("p", "string", __COLLATIONS={"p": "ICU.de_DE"}))
    files = [add(f"{p}{n}", partitionValues={"p": p}) for p in ("x", "y", "") for n in range(2)]
    write_log(tmp_path, {0: [protocol(), metadata(schemaString=collated, partitionColumns=["p"]), *files]})
    tables = DeltaLog.for_table(spark, tmp_path).snapshot.tables
    assert {row["partition"]["p"]: row["files"] for row in rows(tables.partitions)} == {"x": 2, "y": 2, None: 2}
    assert {row["partition"]["p"] for row in rows(tables.files)} == {"x", "y", None}
    assert {row["partition"]["p"] for row in rows(tables.optimize_candidates)} == {"x", "y", None}


@pytest.mark.spark
def test_numbers_of_rows_that_no_file_can_have_are_in_no_sum(spark: SparkSession, tmp_path: Path) -> None:
    statistics = ['{"numRecords":-5,"nullCount":{"id":0}}', '{"numRecords":13,"nullCount":{"id":0}}', None]
    adds = [add(f"f{number}", stats=stats) for number, stats in enumerate(statistics)]
    write_log(tmp_path, {0: [protocol(), metadata(schemaString=schema(field("id"))), *adds]})
    tables = DeltaLog.for_table(spark, tmp_path).snapshot.tables
    assert [row["records"] for row in rows(tables.partitions)] == [13]
    assert [row["records"] for row in rows(tables.column_stats)] == [13]
    assert sorted(str(row["records"]) for row in rows(tables.files)) == ["-5", "13", "None"]


@pytest.mark.slow
def test_invalid_partition_values_are_told_apart_from_null(spark: SparkSession, tmp_path: Path) -> None:
    decimal = schema(field("p", "decimal(7,2)"))
    texts = ["-1.-25", "0.-5", "0.-5", None, None, None, "1.5", "1.50", "1.5", "1.5"]
    files = [add(f"f{number}", partitionValues={"p": text}) for number, text in enumerate(texts)]
    write_log(tmp_path, {0: [protocol(), metadata(schemaString=decimal, partitionColumns=["p"]), *files]})
    found = rows(DeltaLog.for_table(spark, tmp_path).snapshot.tables.partitions)
    values = sorted((str(row["partition"]["p"]), row["files"]) for row in found)
    assert values == [("1.50", 4), ("None", 1), ("None", 2), ("None", 3)]
