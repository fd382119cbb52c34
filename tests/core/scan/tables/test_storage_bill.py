"""Each file below the folder of a table has one class, and the classes add up to the listing."""

from __future__ import annotations

import json
import os
import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from uuid import UUID

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog
from deltasnap_core.scan.tables import storage_bill, vacuum_candidates
from deltasnap_core.scan.tables.storage_bill import StorageClass
from tests.builders import FIRST_COMMIT_MS, add, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.conftest import NOW_MS, golden_folder
from tests.core.scan.tables.vacuum_candidates_builders import FIRST, VECTOR_FILE, PlainKeys, vector
from tests.golden import GoldenTable, load_golden_tables
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core import MetadataTables

DAY_MS = 86_400_000
FOLDER = golden_folder()
GOLDEN = [table for table in (load_golden_tables(FOLDER) if FOLDER is not None else ()) if table.latest_refusal is None]
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
LATER_MS = 4_102_444_800_000
"""Long after every golden table was written: all tombstones have expired."""


@pytest.fixture
def plain_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_bill, "FileKeys", PlainKeys)
    monkeypatch.setattr(vacuum_candidates, "FileKeys", PlainKeys)


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


@pytest.mark.usefixtures("plain_keys")
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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(("is_full", "orphan_bytes"), [(True, 0), pytest.param(False, 77, marks=pytest.mark.thorough)])
def test_bill_of_a_written_table_adds_up_to_its_folder(
    is_full: bool, orphan_bytes: int, spark: SparkSession, tmp_path: Path
) -> None:
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
    (tmp_path / "day=a" / "left.parquet").write_bytes(b"x" * 77)
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=is_full)
    log = DeltaLog.for_table(spark, tmp_path)
    bill, of_log = log.update().tables.storage_bill(), log.update().tables.storage_bill(list_files=False)
    assert bill.total_bytes == listed_bytes(tmp_path)
    assert bill.live_bytes == of_log.live_bytes == log.update().size_in_bytes
    assert (bill.log_bytes, bill.orphan_bytes) == (of_log.log_bytes, orphan_bytes)


@pytest.mark.spark
def test_every_file_of_an_odd_folder_has_one_class(spark: SparkSession, tmp_path: Path) -> None:
    table, outside = tmp_path / "t", tmp_path / "elsewhere"
    actions = [
        *FIRST,
        add("inline", deletionVector=vector("i", "0" * 20)),
        *(add(f"shares-{n}", deletionVector={**vector("u", "0" * 20), "offset": n}) for n in (1, 2)),
        add("inside", deletionVector=vector("p", f"file://{table}/absolute.bin")),
        add("abroad", deletionVector=vector("p", f"file://{outside}/other.bin")),
        add(f"file://{outside}/cloned"),
        add(f"file://{table}/full%20path"),
    ]
    log = write_log(table, {0: actions})
    write_checkpoint(log, 0, "v2-json-sidecars", actions)
    data = ("inline", "shares-1", "shares-2", "inside", "abroad", "full path")
    others = (".hidden/x", "_delta_index/x", "_symlink_format_manifest/x", "metadata/x", "sub/_delta_log/x", "sub/x")
    for number, name in enumerate((*data, VECTOR_FILE, "absolute.bin", *others)):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_bytes(b"?" * (1 << number))
    outside.mkdir()
    for name in ("cloned", "other.bin"):
        (outside / name).write_bytes(b"?" * 1000)
    (table / "link").symlink_to(outside / "cloned")
    tables = tables_of(spark, table)
    expected = {**dict.fromkeys(data, "live"), VECTOR_FILE: "vector", "absolute.bin": "vector"}
    assert classes(tables) == {**expected, **dict.fromkeys(others, "orphan")}
    bill = tables.storage_bill()
    log_bytes = sum(file.stat().st_size for file in log.rglob("*") if file.is_file())
    assert bill.log_bytes == log_bytes == tables.storage_bill(list_files=False).log_bytes
    assert bill.total_bytes == log_bytes + (1 << 14) - 1


@pytest.mark.usefixtures("plain_keys")
def test_without_a_listing_only_the_log_counts(spark: SparkSession, tmp_path: Path) -> None:
    old, young = NOW_MS - 8 * DAY_MS, NOW_MS - DAY_MS
    gone = [remove("old", deletion_timestamp=old, size=8), remove("young", deletion_timestamp=young, size=4)]
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("live", size=2), *gone]})
    bill = tables_of(spark, tmp_path).storage_bill(list_files=False)
    assert (bill.live_bytes, bill.time_travel_bytes, bill.expired_bytes) == (2, 4, 8)
    assert bill.log_bytes == sum(file.stat().st_size for file in log.iterdir())
    assert (bill.vector_bytes, bill.change_data_bytes, bill.orphan_bytes, bill.total_bytes) == (None,) * 4


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("table", one_in(40, GOLDEN), ids=lambda table: table.name)
def test_each_file_of_a_golden_table_has_the_class_of_a_plain_reader(spark: SparkSession, table: GoldenTable) -> None:
    tables = DeltaLog.for_table(spark, table.path, clock=lambda: LATER_MS).update().tables
    expected = dict(expected_classes(table))
    found = {row.path: row["class"] for row in tables.storage_files().collect()}
    assert found == {path: name for path, (name, _) in expected.items()}
    sizes = Counter[str]()
    for name, size in expected.values():
        sizes[name] += size
    bill = tables.storage_bill()
    assert {each.value: getattr(bill, f"{each}_bytes") for each in StorageClass} == {
        each.value: sizes[each.value] for each in StorageClass
    }
    assert (bill.total_bytes, bill.num_files) == (listed_bytes(table.path), len(expected))


def expected_classes(table: GoldenTable) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield the path, class and size of each file below a golden table, from its expected files and its commits."""
    state = table.expected["latest"]
    live = {file["path"] for file in state["files"]}
    vectors = {vector_path(file["dv_unique_id"]) for file in state["files"] if file["dv_unique_id"]}
    removed: set[str | None] = {unquote(each["path"]) for each in removes(table.path / "_delta_log")}
    removed |= {vector_path(each["dv_unique_id"]) for each in state["tombstones"] if each["dv_unique_id"]}
    removed |= {tombstone["path"] for tombstone in state["tombstones"]}
    for folder, _, names in os.walk(table.path):
        for file in (Path(folder, name) for name in names if not Path(folder, name).is_symlink()):
            path = file.relative_to(table.path).as_posix()
            parts = path.split("/")
            if parts[0] == "_delta_log":
                name = "log"
            elif path in live:
                name = "live"
            elif path in vectors:
                name = "vector"
            elif parts[0] == "_change_data":
                name = "change_data"
            else:
                name = "expired" if path in removed else "orphan"
            yield path, (name, file.stat().st_size)


def removes(log: Path) -> Iterator[dict[str, Any]]:
    for commit in log.glob("*.json"):
        for line in commit.read_bytes().splitlines() if re.fullmatch(r"[0-9]{20}\.json", commit.name) else ():
            if b'"remove"' in line and (action := json.loads(line).get("remove")):
                yield action


def vector_path(unique_id: str) -> str | None:
    """Return the path of a deletion vector; None: it is inline, or it has an absolute path."""
    found = re.fullmatch(r"u(.*?)(.{20})(@[0-9]+)?", unique_id)
    if found is None:
        return None
    numbers = [sum(Z85.index(found[2][n + i]) * 85 ** (4 - i) for i in range(5)) for n in range(0, 20, 5)]
    name = f"deletion_vector_{UUID(bytes=struct.pack('>4I', *numbers))}.bin"
    return f"{found[1]}/{name}" if found[1] else name
