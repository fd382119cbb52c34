"""Each file below the folder of a table has one class, and the classes add up to the listing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog
from deltasnap_core.scan.tables.storage_bill import StorageClass
from tests.builders import FIRST_COMMIT_MS, add, metadata, protocol, remove, write_log
from tests.conftest import NOW_MS
from tests.core.scan.tables.vacuum_candidates_builders import FIRST, VECTOR_FILE, vector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core import MetadataTables

pytestmark = pytest.mark.spark

DAY_MS = 86_400_000


def tables_of(spark: SparkSession, path: Path) -> MetadataTables:
    return DeltaLog.for_table(spark, path, clock=lambda: NOW_MS).update().tables


def touch(table: Path, **sizes: int) -> None:
    for name, size in sizes.items():
        file = table / name.replace("__", "/").replace("_bin", ".bin")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"?" * size)
        os.utime(file, (FIRST_COMMIT_MS / 1000,) * 2)


def listed_bytes(table: Path) -> int:
    return sum(file.stat().st_size for file in table.rglob("*") if file.is_file())


def classes(tables: MetadataTables) -> dict[str, str]:
    rows = tables.storage_files().where("class != 'log'").collect()
    assert len({row.path for row in rows}) == len(rows)
    return {row.path: row["class"] for row in rows}


def test_class_of_a_file_is_what_needs_it(spark: SparkSession, tmp_path: Path) -> None:
    young, old = NOW_MS - DAY_MS, NOW_MS - 8 * DAY_MS
    gone = [remove("young", deletion_timestamp=young), remove("old", deletion_timestamp=old), remove("again")]
    live = [add("live", deletionVector=vector("u", "0" * 20)), add("again")]
    write_log(tmp_path, {0: FIRST, 1: gone, 2: live})
    touch(tmp_path, live=1, again=2, young=4, old=8, orphan=16, _change_data__c=32, _hidden=64)
    (tmp_path / VECTOR_FILE).write_bytes(b"?" * 128)
    assert classes(tables_of(spark, tmp_path)) == {
        "live": "live",
        "again": "live",
        VECTOR_FILE: "vector",
        "young": "time_travel",
        "old": "expired",
        "_change_data/c": "change_data",
        "orphan": "orphan",
        "_hidden": "orphan",
    }
    bill = tables_of(spark, tmp_path).storage_bill()
    found = {each: getattr(bill, f"{each}_bytes") for each in StorageClass if each is not StorageClass.LOG}
    assert found == {
        "live": 3, "vector": 128, "time_travel": 4, "expired": 8, "change_data": 32, "orphan": 80,
    }  # fmt: skip
    assert (bill.total_bytes, bill.expires_ms) == (listed_bytes(tmp_path), young + 7 * DAY_MS)


@pytest.mark.slow
def test_bill_of_a_written_table_adds_up_to_its_folder(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": list(range(100)), "day": ["a", "b"] * 50})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(tmp_path, rows, partition_by=["day"], configuration=feed)
    for _ in range(3):
        write_deltalake(tmp_path, rows, mode="append")
    table = DeltaTable(tmp_path)
    table.delete("id < 10")
    table.optimize.compact()
    table.create_checkpoint()
    table.restore(2)
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    (tmp_path / "day=a" / "left.parquet").write_bytes(b"x" * 77)
    log = DeltaLog.for_table(spark, tmp_path)
    bill, of_log = log.update().tables.storage_bill(), log.update().tables.storage_bill(list_files=False)
    assert bill.total_bytes == listed_bytes(tmp_path)
    assert bill.live_bytes == of_log.live_bytes == log.update().size_in_bytes
    assert (bill.log_bytes, bill.orphan_bytes) == (of_log.log_bytes, 77)


def test_without_a_listing_only_the_log_counts(spark: SparkSession, tmp_path: Path) -> None:
    old, young = NOW_MS - 8 * DAY_MS, NOW_MS - DAY_MS
    gone = [remove("old", deletion_timestamp=old, size=8), remove("young", deletion_timestamp=young, size=4)]
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("live", size=2), *gone]})
    bill = tables_of(spark, tmp_path).storage_bill(list_files=False)
    assert (bill.live_bytes, bill.time_travel_bytes, bill.expired_bytes) == (2, 4, 8)
    assert bill.log_bytes == sum(file.stat().st_size for file in log.iterdir())
    assert (bill.vector_bytes, bill.change_data_bytes, bill.orphan_bytes, bill.total_bytes) == (None,) * 4
