"""Groups of a storage bill add up to it, class by class."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog
from deltasnap_core.scan.tables import storage_bill
from deltasnap_core.support import StorageClass
from tests.builders import add, commit_info, field, metadata, protocol, remove, schema, write_log
from tests.checkpoint_files import write_checkpoint
from tests.conftest import NOW_MS
from tests.core.scan.tables.vacuum_candidates_builders import VECTOR_FILE, PlainKeys, vector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core import MetadataTables

DAY_MS = 86_400_000
GROUPS = ("partition", "age", "writer")
NAMES = [f"{each}_bytes" for each in StorageClass]


@pytest.fixture
def plain_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_bill, "FileKeys", PlainKeys)


def tables_of(spark: SparkSession, path: Path) -> MetadataTables:
    return DeltaLog.for_table(spark, path, clock=lambda: NOW_MS).update().tables


def write_files(table: Path, sizes: Mapping[str, int], *, written_ms: int = NOW_MS) -> None:
    for name, size in sizes.items():
        file = table / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"?" * size)
        os.utime(file, (written_ms / 1000,) * 2)


def groups(tables: MetadataTables, by: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.storage_groups(by).toArrow().to_pylist()
    assert all(row["total_bytes"] == sum(row[name] for name in NAMES) for row in rows)
    return rows


def without_log(rows: list[dict[str, Any]], *names: str) -> dict[Any, dict[str, int]]:
    """Return the bytes by group and class, without those of the log."""
    found = {}
    for row in rows:
        sizes = {each.value: row[f"{each}_bytes"] for each in StorageClass if each is not StorageClass.LOG}
        if known := {name: size for name, size in sizes.items() if size}:
            key = tuple(tuple(row[name].values()) if isinstance(row[name], dict) else row[name] for name in names)
            assert key not in found
            found[key] = known
    return found


@pytest.mark.usefixtures("plain_keys")
def test_partition_of_a_file_is_that_of_the_log_or_of_its_folders(spark: SparkSession, tmp_path: Path) -> None:
    text = schema(field("n"), field("a b", "string"), field("day", "date"))
    features = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
    first = [features, metadata(schemaString=text, partitionColumns=["a b", "day"])]
    one = {"a b": "x/y", "day": "2026-01-02"}
    folder = "a%20b=x%2Fy/day=2026-01-02"
    live = [
        add(f"{folder.replace('%', '%25')}/live", partitionValues=one, deletionVector=vector("u", "0" * 20)),
        add("anywhere", partitionValues=one),
        add("nulls", partitionValues={"a b": None, "day": ""}),
    ]
    gone = [remove("gone", deletion_timestamp=NOW_MS - DAY_MS, partitionValues=one, extendedFileMetadata=True)]
    write_log(tmp_path, {0: first, 1: live, 2: gone})
    in_folder = {f"{folder}/live": 1, f"{folder}/left": 2, f"_change_data/{folder}/c": 4}
    write_files(tmp_path, {**in_folder, "anywhere": 8, "gone": 16, "nulls": 32, "left": 64, VECTOR_FILE: 128})
    of_null = "a%20b=__HIVE_DEFAULT_PARTITION__/day=__HIVE_DEFAULT_PARTITION__"
    write_files(tmp_path, {f"{of_null}/left": 256, "a%20b=x/day=2026-01-02": 512})
    found = without_log(groups(tables_of(spark, tmp_path), "partition"), "partition")
    (partition,) = (key for key in found if key[0] is not None and key[0][0] is not None)
    assert [str(value) for value in partition[0]] == ["x/y", "2026-01-02"]
    assert found == {
        partition: {"live": 9, "time_travel": 16, "change_data": 4, "orphan": 2},
        ((None, None),): {"live": 32, "orphan": 256},
        (None,): {"vector": 128, "orphan": 576},
    }


@pytest.mark.usefixtures("plain_keys")
def test_age_is_that_of_the_tombstone_or_of_the_file(spark: SparkSession, tmp_path: Path) -> None:
    gone = [remove("young", deletion_timestamp=NOW_MS - DAY_MS), remove("old", deletion_timestamp=NOW_MS - 8 * DAY_MS)]
    again = remove("again", deletion_timestamp=NOW_MS - DAY_MS)
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [*gone, again], 2: [add("again")]})
    write_files(tmp_path, {"young": 1, "old": 2, "again": 4, "left": 8}, written_ms=NOW_MS - 40 * DAY_MS)
    write_files(tmp_path, {"new": 16}, written_ms=NOW_MS)
    assert without_log(groups(tables_of(spark, tmp_path), "age"), "age_days") == {
        (0,): {"orphan": 16},
        (1,): {"time_travel": 1},
        (7,): {"expired": 2},
        (30,): {"live": 4, "orphan": 8},
    }


@pytest.mark.usefixtures("plain_keys")
def test_writer_is_the_first_commit_with_a_file(spark: SparkSession, tmp_path: Path) -> None:
    features = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
    before = [features, metadata(), add("first")]
    job = {"jobId": "7", "jobName": "nightly", "jobRunId": "1"}
    recorded = {"cdc": {"path": "_change_data/c", "size": 1, "partitionValues": {}, "dataChange": False}}
    young = NOW_MS - DAY_MS
    versions = {
        1: [commit_info("WRITE", job=job), add("a"), recorded],
        2: [commit_info("DELETE", job={"jobId": "8"}), remove("a", deletion_timestamp=young),
            add("a", deletionVector=vector("u", "0" * 20))],
        3: [commit_info("WRITE", job={**job, "jobRunId": "2"}), add("b"), remove("first", deletion_timestamp=young)],
        4: [commit_info("OPTIMIZE"), add("c"), remove("b", deletion_timestamp=young)],
        5: [commit_info("RESTORE"), add("first"), add("older"), add("b"), remove("c", deletion_timestamp=young)],
        6: [add("unnamed")],
    }  # fmt: skip
    log = write_log(tmp_path, {0: before, **versions})
    write_checkpoint(log, 0, "classic", before)
    (log / f"{0:020d}.json").unlink()
    write_files(tmp_path, {"first": 1, "a": 2, VECTOR_FILE: 4, "b": 8, "c": 16, "older": 32, "unnamed": 64})
    write_files(tmp_path, {"_change_data/c": 128, "left": 256})
    rows = groups(tables_of(spark, tmp_path), "writer")
    assert without_log(rows, "operation", "job") == {
        ("WRITE", "nightly"): {"live": 10, "change_data": 128},
        ("DELETE", "8"): {"vector": 4},
        ("OPTIMIZE", None): {"time_travel": 16},
        (None, None): {"live": 97, "orphan": 256},
    }
    sizes = {row["operation"]: row["log_bytes"] for row in rows}
    assert sizes["OPTIMIZE"] == (log / f"{4:020d}.json").stat().st_size
    assert sizes["RESTORE"] == (log / f"{5:020d}.json").stat().st_size


@pytest.mark.spark
@pytest.mark.thorough
def test_groups_of_a_written_table_add_up_to_its_bill(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": list(range(100)), "day": ["a b", "ü/%"] * 50})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path, rows, partition_by=["day"], configuration=feed)
    for _ in range(3):
        write_deltalake(tmp_path, rows, mode="append")
    table = DeltaTable(tmp_path)
    table.update({"id": "id + 1"}, predicate="id < 10")
    table.optimize.compact()
    table.create_checkpoint()
    table.restore(2)
    (tmp_path / "left.parquet").write_bytes(b"x" * 77)
    tables = DeltaLog.for_table(spark, tmp_path).update().tables
    bill = tables.storage_bill()
    expected = {name: getattr(bill, name) for name in NAMES}
    for by in GROUPS:
        found = groups(tables, by)
        assert {name: sum(row[name] for row in found) for name in NAMES} == expected
        assert sum(row["num_files"] for row in found) == bill.num_files
        if by == "partition":
            days = {row["partition"]["day"]: row["live_bytes"] for row in found if row["partition"]}
            assert days == {row.partition.day: row.bytes for row in tables.partitions.collect()}
    of_log = {row.partition.day: row.bytes for row in tables.partitions.collect()}
    assert {
        row["partition"]["day"]: row["live_bytes"] for row in groups(tables, "partition") if row["partition"]
    } == of_log


def test_unknown_grouping_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()]})
    with pytest.raises(ValueError, match="partition, age, writer, found 'color'"):
        groups(tables_of(spark, tmp_path), "color")
