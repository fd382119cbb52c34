"""`blame`: the history of one row."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog, SnapshotStore, open_table
from deltasnap_core.scan.search.blame import RowChange, RowHistory, condition_of
from deltasnap_core.scan.table_columns import TableColumns
from tests.builders import add, metadata, protocol, remove, write_log
from tests.core.scan.changing_tables import canonical, written_by_deltalake, written_by_hand
from tests.core.scan.scan_builders import file, ids, snapshot_of
from tests.core.scan.search.bisect_builders import append, appended, repartitioned
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def row_of(table: pa.Table | None) -> dict[str, Any] | None:
    return None if table is None else table.to_pylist()[0]


def told(history: RowHistory, column: str = "amount") -> list[tuple[Any, ...]]:
    """Return version, change, and the values of a column before and after."""
    return [
        (each.version, each.change, *(row and row[column] for row in (row_of(each.old), row_of(each.new))))
        for each in history.changes
    ]


@pytest.mark.parametrize("parts", [False, True], ids=["plain", "partitioned"])
def test_insert_update_and_delete_of_a_row_are_told_and_copies_are_not(
    spark: SparkSession, tmp_path: Path, parts: bool
) -> None:
    path = appended(tmp_path / "t", 5, bad=-1, parts=parts)
    DeltaTable(path).update(updates={"amount": "2.0"}, predicate="id = 7")  # version 5
    DeltaTable(path).update(updates={"amount": "3.0"}, predicate="id = 8")  # copies the row 7
    DeltaTable(path).optimize.compact()
    append(path, 100, parts=parts)
    DeltaTable(path).delete("id = 7")
    history = open_table(path, spark=spark).blame({"id": 7})
    last = DeltaTable(path).version()
    assert told(history) == [(2, "insert", None, 1.0), (5, "update", 1.0, 2.0), (last, "delete", 2.0, None)]
    assert [each.commit and each.commit.operation for each in history.changes] == ["WRITE", "UPDATE", "DELETE"]
    assert all(each.first_possible == each.version for each in history.changes)
    assert (history.unread, history.where) == ((), "`id` = 7")
    earlier = open_table(path, version=4, spark=spark)
    assert told(earlier.blame({"id": 7, "day": "d1"})) == [(2, "insert", None, 1.0)]
    assert earlier.blame({"id": 7, "day": "d0"}).changes == ()


def test_versions_that_cannot_be_judged_make_a_change_uncertain(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    commits = {0: [protocol(), metadata()], 1: [file(path, "1.parquet", ids(1))], 2: [], 3: [], 4: []}
    commits[2] = [add("gone.parquet", size=9)]
    commits[3] = [remove("gone.parquet"), file(path, "2.parquet", ids(2))]
    commits[4] = [remove("2.parquet")]
    write_log(path, commits)
    history = open_table(path, spark=spark).blame({"id": 2})
    assert [(each.first_possible, each.version, each.change) for each in history.changes] == [
        (2, 3, "insert"),
        (4, 4, "delete"),
    ]
    assert [each.commit is None for each in history.changes] == [True, False]
    assert [each.version for each in history.unread] == [2]
    since = open_table(path, spark=spark).blame({"id": 2}, first=3)
    assert [(each.first_possible, each.version) for each in since.changes] == [(0, 3), (4, 4)]


def test_history_of_a_row_goes_on_after_the_schema_changed(spark: SparkSession, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 2, bad=-1)
    rows = pa.table({"id": pa.array([50], pa.int64()), "extra": ["x"]})
    write_deltalake(path, rows, mode="append", schema_mode="merge")
    DeltaTable(path).update(updates={"extra": "'y'"}, predicate="id = 1")
    history = open_table(path, spark=spark).blame({"id": 1})
    assert [(each.version, each.change) for each in history.changes] == [(0, "insert"), (3, "update")]
    update = history.changes[-1]
    old, new = row_of(update.old), row_of(update.new)
    assert old is not None
    assert new is not None
    assert (old["extra"], new["extra"]) == (None, "y")


def test_rows_of_another_type_are_told_with_the_schema_of_their_version(spark: SparkSession, tmp_path: Path) -> None:
    append(tmp_path / "t", 0)
    rows = pa.table({"id": pa.array([1], pa.int64()), "amount": ["much"]})
    write_deltalake(tmp_path / "t", rows, mode="overwrite", schema_mode="overwrite")
    history = open_table(tmp_path / "t", spark=spark).blame({"id": 1})
    assert told(history) == [(0, "insert", None, 1.0), (1, "update", 1.0, "much")]


def test_rows_of_each_partitioning_have_their_values_and_copies_are_not_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = open_table(repartitioned(tmp_path / "t"), spark=spark).blame({"id": 1})
    assert told(history) == [(0, "insert", None, 1), (1, "update", 1, 5)]
    days = [(row_of(each.old) or {}).get("day") for each in history.changes]
    assert (days, [(row_of(each.new) or {}).get("day") for each in history.changes]) == ([None, "a"], ["a", "a"])


def test_column_whose_name_gets_another_case_did_not_change(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("Day", "day"):
        rows = pa.table({"id": pa.array([1], pa.int64()), day: ["a"]})
        write_deltalake(tmp_path, rows, mode="overwrite", schema_mode="overwrite", partition_by=[day])
    history = open_table(tmp_path, spark=spark).blame({"DAY": "a"})
    assert [(each.version, each.change) for each in history.changes] == [(0, "insert")]


@pytest.mark.spark
def test_times_beyond_those_of_python_have_a_history(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array([1, 1], pa.int64()), "at": pa.array([2**62, -(2**61)], pa.timestamp("us", "UTC"))})
    fields = [
        {"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("id", "long"), ("at", "timestamp"))
    ]
    schema = metadata(schemaString=json.dumps({"type": "struct", "fields": fields}))
    write_log(
        tmp_path, {0: [protocol(), schema, file(tmp_path, "a", rows)], 1: [remove("a"), file(tmp_path, "b", rows[1:])]}
    )
    history = open_table(tmp_path, spark=spark).blame({"id": 1})
    assert [(each.version, each.change) for each in history.changes] == [(0, "insert"), (0, "insert"), (1, "delete")]
    assert history.changes[-1].old is not None
    assert history.changes[-1].old["at"].cast(pa.int64()).to_pylist() == [2**62]


def test_stored_versions_have_the_history_without_the_log(spark: SparkSession, tmp_path: Path) -> None:
    path = appended(tmp_path / "t", 3, bad=-1)
    DeltaTable(path).update(updates={"amount": "2.0"}, predicate="id = 4")
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", DeltaLog.for_table(spark, path), 0, 3)
    for each in (path / "_delta_log").iterdir():
        each.unlink()
    history = store.known_versions("t").blame({"id": 4})
    assert told(history) == [(1, "insert", None, 1.0), (3, "update", 1.0, 2.0)]
    assert [each.commit and each.commit.operation for each in history.changes] == ["WRITE", "UPDATE"]


@pytest.mark.parametrize("seed", one_in(4, range(4)))
def test_history_of_a_random_row_leads_from_each_version_to_the_next(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    write = written_by_hand if seed % 2 else written_by_deltalake
    table = write(tmp_path / "t", seed, steps=9)
    opened = open_table(table.path, spark=spark)
    key = random.Random(seed).randrange(25)
    by_version: dict[int, list[RowChange]] = {}
    for change in opened.blame({"id": key}).changes:
        by_version.setdefault(change.version, []).append(change)
    before: Counter[str] = Counter()
    for version, rows in enumerate(table.versions):
        after = Counter({row: copies for row, copies in rows.items() if row.startswith(f"[{key},")})
        gone, new = before - after, after - before
        changes = by_version.get(version, [])
        assert Counter(canonical(row) for each in changes if (row := row_of(each.old))) == gone, table.operations
        assert Counter(canonical(row) for each in changes if (row := row_of(each.new))) == new, table.operations
        updates = min(gone.total(), new.total())
        assert sum(each.change == "update" for each in changes) == updates, table.operations
        before = after


COLUMNS: dict[str, Any] = {
    "number": "long",
    "price": "decimal(10,2)",
    "ratio": "double",
    "text": "string",
    "day": "date",
    "at": "timestamp",
    "local": "timestamp_ntz",
    "code": "varchar(9)",
    "flag": "boolean",
    "list": {"type": "array", "elementType": "long", "containsNull": True},
}


@pytest.mark.parametrize(
    ("name", "value", "condition"),
    [
        ("number", "7", "`number` = 7"),
        ("number", None, "`number` is null"),
        ("price", Decimal("1.50"), "`price` = 1.50"),
        ("ratio", 0.5, "`ratio` = 0.5"),
        ("text", "it is", "`text` = 'it is'"),
        ("text", "it's", "`text` = cast(X'69742773' as string)"),
        ("ratio", "NaN", "`ratio` = cast('NaN' as double)"),
        ("day", date(2026, 3, 1), "`day` = '2026-03-01'"),
        ("day", datetime(2026, 3, 1), "`day` = '2026-03-01 00:00:00'"),
        ("day", datetime(2026, 3, 1, 5), None),
        ("day", "2026", None),
        ("day", "today", None),
        ("at", datetime(2026, 3, 1, 5, tzinfo=UTC), "`at` = '2026-03-01 05:00:00+00:00'"),
        ("at", "2026-03-01", "`at` = '2026-03-01'"),
        ("at", "2026-03", None),
        ("local", "2026-03-01T05:00:00.5", "`local` = '2026-03-01T05:00:00.5'"),
        ("local", "now", None),
        ("local", datetime(2026, 3, 1, 5, tzinfo=UTC), None),
        ("code", "a", "`code` = 'a'"),
        ("flag", True, "`flag` = true"),
        ("number", "7 or true", None),
        ("number", "1.5", None),
        ("flag", "yes", None),
        ("list", "1", None),
        ("nothing", "1", None),
    ],
)
def test_key_becomes_a_condition_of_its_type(
    spark: SparkSession, tmp_path: Path, name: str, value: Any, condition: str | None
) -> None:
    fields = [{"name": each, "type": kind, "nullable": True, "metadata": {}} for each, kind in COLUMNS.items()]
    columns = TableColumns(
        snapshot_of(spark, tmp_path, [], schemaString=json.dumps({"type": "struct", "fields": fields})).metadata
    )
    if condition is None:
        with pytest.raises(ValueError, match=r"of type|no column"):
            condition_of(columns, {name: value})
        return
    assert condition_of(columns, {name: value}) == condition
    snapshot_of(spark, tmp_path, [], schemaString=json.dumps({"type": "struct", "fields": fields})).scan(condition)
