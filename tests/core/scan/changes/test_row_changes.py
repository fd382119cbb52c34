"""Row changes of one table per rule, and of the golden tables with a change data feed."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.errors import PredicateError, RowChangesError, StoredVersionNotFoundError, VersionNotFoundError
from tests.builders import add, commit_info, field, metadata, mtime_of, protocol, schema, timed_protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.changes.row_changes_builders import (
    FEED,
    ID,
    ID_AND_TEXT,
    WITH_FEED,
    assert_as_deltalake,
    changes,
    removed,
    table_of,
)
from tests.core.scan.files.deletion_vectors_builders import inline_vector
from tests.core.scan.scan_builders import file, found_by, ids
from tests.driver_bases import use_driver_bases
from tests.oracle import replay
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MERGED_ROWS = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def pairs(*rows: tuple[int | None, str | None]) -> pa.Table:
    return pa.table(
        {"id": pa.array([row[0] for row in rows], pa.int64()), "text": pa.array([row[1] for row in rows], pa.string())}
    )


@pytest.mark.spark
@pytest.mark.parametrize("name", WITH_FEED)
def test_changes_of_a_golden_table_with_a_feed_match_deltalake(spark: SparkSession, golden: Path, name: str) -> None:
    assert_as_deltalake(spark, golden, name)


@pytest.mark.parametrize("where", [None, "text = 'x'"], ids=str)
def test_values_of_a_partition_column_are_kept_if_its_name_changes_its_case(
    spark: SparkSession, tmp_path: Path, where: str | None
) -> None:
    old = [file(tmp_path, name, ids(n), partitionValues={"TEXT": name}) for n, name in enumerate("xy")]
    new = metadata(schemaString=ID_AND_TEXT, partitionColumns=["text"])
    versions = {0: old, 1: [new, *map(removed, old), file(tmp_path, "z", ids(2), partitionValues={"text": "x"})]}
    kinds = schema(field("id", "long"), field("TEXT", "string"))
    log = DeltaLog.for_table(spark, table_of(tmp_path, versions, schemaString=kinds, partitionColumns=["TEXT"]))
    expected = [(0, "x", "delete", 1), (0, "x", "insert", 0), (2, "x", "insert", 1)]
    if where is None:
        expected += [(1, "y", "delete", 1), (1, "y", "insert", 0)]
    assert changes(log.row_changes(0, 1, where=where)) == sorted(expected, key=repr)


@pytest.mark.parametrize("mode", ["id", "name"])
def test_files_of_change_data_have_the_physical_names_of_columns(spark: SparkSession, golden: Path, mode: str) -> None:
    name = {"id": "krs__cdf-column-mapping-id-mode", "name": "krs__cdf-column-mapping-name-mode-3-7"}[mode]
    log = DeltaLog.for_table(spark, golden / "tables" / name)
    people = {"id": ("Frank", "Grace"), "name": ("Bob", "Alice")}[mode]
    updated = changes(log.row_changes(2, 2, columns=["name"]))
    assert updated == [(people[0], "update_postimage", 2), (people[0], "update_preimage", 2)]
    assert changes(log.row_changes(4, 4, columns=["name"])) == [(people[1], "delete", 4)]


@pytest.mark.slow
@pytest.mark.parametrize("version", one_in(3, range(1, 6)))
def test_only_the_rows_that_a_vector_gained_or_lost_changed(spark: SparkSession, golden: Path, version: int) -> None:
    log = DeltaLog.for_table(spark, golden / "tables" / "krs__cdf-table-with-dv")
    before, after = (
        {row.value for row in log.get_snapshot_at(each).scan().to_df().collect()} for each in (version - 1, version)
    )
    found = changes(log.row_changes(version, version))
    deleted, inserted = ([(value, kind, version) for value in values] for kind, values in (
        ("delete", before - after), ("insert", after - before),
    ))  # fmt: skip
    assert found == sorted([*deleted, *inserted], key=repr)
    assert found


@pytest.mark.usefixtures("compiled")
def test_a_key_pairs_rows_and_no_row_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    old = file(tmp_path, "old", pairs((1, "a"), (2, "b"), (3, "c"), (4, "x"), (4, "y"), (4, "y"), (None, "n")))
    new = file(tmp_path, "new", pairs((1, "a"), (2, "B"), (4, "y"), (4, "z"), (5, "e"), (None, "N")))
    log = DeltaLog.for_table(spark, table_of(tmp_path, {0: [old], 1: [removed(old), new]}, schemaString=ID_AND_TEXT))
    pre, post = "update_preimage", "update_postimage"
    assert changes(log.row_changes(1, 1, key="ID")) == sorted(
        [
            (2, "b", pre, 1), (2, "B", post, 1), (3, "c", "delete", 1), (5, "e", "insert", 1),
            (4, "x", pre, 1), (4, "z", post, 1), (4, "y", "delete", 1), (None, "n", pre, 1), (None, "N", post, 1),
        ],
        key=repr,
    )  # fmt: skip


@pytest.mark.usefixtures("compiled")
def test_net_returns_one_change_per_key_with_its_last_version(spark: SparkSession, tmp_path: Path) -> None:
    steps = [
        [(1, "a"), (2, "b"), (3, "c"), (6, "f")],
        [(1, "A"), (2, "b"), (4, "d"), (6, "F")],
        [(1, "AA"), (2, "b"), (5, "e"), (6, "f")],
    ]
    files = [file(tmp_path, f"f{number}", pairs(*rows)) for number, rows in enumerate(steps)]
    versions = {0: [files[0]], 1: [removed(files[0]), files[1]], 2: [removed(files[1]), files[2]]}
    log = DeltaLog.for_table(spark, table_of(tmp_path, versions, schemaString=ID_AND_TEXT))
    assert changes(log.row_changes(1, 2, key=["id"], net=True)) == sorted(
        [
            (1, "a", "update_preimage", 2), (1, "AA", "update_postimage", 2), (3, "c", "delete", 1),
            (5, "e", "insert", 2),
        ],
        key=repr,
    )  # fmt: skip
    assert changes(log.row_changes(1, 2, net=True)) == sorted(
        [(1, "a", "delete", 1), (1, "AA", "insert", 2), (3, "c", "delete", 1), (5, "e", "insert", 2)], key=repr
    )


def test_net_of_equal_rows_of_two_appends_has_the_last_version(spark: SparkSession, tmp_path: Path) -> None:
    log = DeltaLog.for_table(spark, table_of(tmp_path, {n: [file(tmp_path, f"f{n}", ids(7))] for n in range(2)}))
    assert changes(log.row_changes(0, 1, net=True)) == [(7, "insert", 1)] * 2


@pytest.mark.slow
def test_copied_rows_are_left_out_unless_the_feed_was_enabled(spark: SparkSession, tmp_path: Path) -> None:
    old, new = file(tmp_path, "old", ids(1, 2, 2)), file(tmp_path, "new", ids(2, 2, 3))
    versions = {0: [old], 1: [removed(old), new]}
    log = DeltaLog.for_table(spark, table_of(tmp_path, versions))
    assert changes(log.row_changes(1, 1)) == [(1, "delete", 1), (3, "insert", 1)]
    with_feed = tmp_path / "with"
    shutil.copytree(tmp_path, with_feed, ignore=shutil.ignore_patterns("with", "_delta_log"))
    log = DeltaLog.for_table(spark, table_of(with_feed, versions, configuration=FEED))
    assert len(changes(log.row_changes(1, 1))) == 6
    assert changes(log.row_changes(1, 1, key="id")) == [(1, "delete", 1), (3, "insert", 1)]


@pytest.mark.parametrize(("reported", "found"), [(MERGED_ROWS, 0), (MERGED_ROWS[:2], 4)])
def test_a_merge_that_reports_no_changed_row_has_none_in_the_feed(
    spark: SparkSession, tmp_path: Path, reported: Sequence[str], found: int
) -> None:
    old, new = file(tmp_path, "old", ids(1, 2)), file(tmp_path, "new", ids(1, 2))
    merge = commit_info("MERGE", operationMetrics=dict.fromkeys(reported, "0"))
    log = DeltaLog.for_table(spark, table_of(tmp_path, {0: [old], 1: [merge, removed(old), new]}, configuration=FEED))
    assert len(changes(log.row_changes(1, 1))) == found


def test_a_condition_and_columns_apply_to_the_result(spark: SparkSession, tmp_path: Path) -> None:
    old, new = file(tmp_path, "old", pairs((1, "a"))), file(tmp_path, "new", pairs((1, "b"), (2, "c")))
    log = DeltaLog.for_table(spark, table_of(tmp_path, {0: [old], 1: [removed(old), new]}, schemaString=ID_AND_TEXT))
    found = log.row_changes(0, 1, key="id", where="text <> 'a' and _change_type like 'update%'", columns=["TEXT"])
    assert changes(found) == [("b", "update_postimage", 1)]
    assert found.columns == ["text", "_change_type", "_commit_version", "_commit_timestamp"]
    assert changes(log.row_changes(0, 1, where="_commit_version = 0")) == [(1, "a", "insert", 0)]
    with pytest.raises(PredicateError, match="no column nothing"):
        log.row_changes(0, 1, where="nothing = 1")
    with pytest.raises(ValueError, match="no column 'nothing'"):
        log.row_changes(0, 1, key=["nothing"])
    with pytest.raises(ValueError, match="Expected first <= last"):
        log.row_changes(1, 0)
    with pytest.raises(VersionNotFoundError):
        log.row_changes(0, 2)


def test_times_match_the_history(spark: SparkSession, tmp_path: Path) -> None:
    log = DeltaLog.for_table(spark, table_of(tmp_path, {0: [file(tmp_path, "a", ids(1))]}))
    (row,) = log.row_changes(0, 0).toArrow().to_pylist()
    assert row["_commit_timestamp"] == datetime.fromtimestamp(mtime_of(0) / 1000, UTC)
    own = tmp_path / "own"
    reported = commit_info(inCommitTimestamp=1_700_000_000_123)
    enabled = {"delta.enableInCommitTimestamps": "true"}
    described = metadata(schemaString=ID, configuration=enabled)
    write_log(own, {0: [reported, timed_protocol(), described, file(own, "a", ids(1))]})
    (row,) = DeltaLog.for_table(spark, own).row_changes(0, 0).toArrow().to_pylist()
    assert row["_commit_timestamp"] == datetime.fromtimestamp(1_700_000_000.123, UTC)


def test_the_later_schema_applies(spark: SparkSession, tmp_path: Path) -> None:
    narrow = schema(field("id", "integer"), field("gone", "string"))
    old = file(tmp_path, "old", pa.table({"id": pa.array([1, 2], pa.int32()), "gone": ["a", "b"]}))
    new = file(tmp_path, "new", pairs((2, None), (3, "t")))
    changed = metadata(schemaString=ID_AND_TEXT)
    log = DeltaLog.for_table(
        spark, table_of(tmp_path, {0: [old], 1: [changed, removed(old), new]}, schemaString=narrow)
    )
    assert changes(log.row_changes(0, 1)) == [
        (1, None, "delete", 1), (1, None, "insert", 0), (2, None, "insert", 0), (3, "t", "insert", 1),
    ]  # fmt: skip


def test_partition_columns_may_change(spark: SparkSession, tmp_path: Path) -> None:
    old = file(tmp_path, "old", ids(1), partitionValues={"text": "a"})
    new = file(tmp_path, "new", pairs((1, "a"), (2, "b")))
    again = metadata(schemaString=ID_AND_TEXT)
    versions = {0: [old], 1: [again, removed(old, partitionValues={"text": "a"}), new]}
    table = table_of(tmp_path, versions, schemaString=ID_AND_TEXT, partitionColumns=["text"])
    assert changes(DeltaLog.for_table(spark, table).row_changes(0, 1)) == [(1, "a", "insert", 0), (2, "b", "insert", 1)]


def net_of(rows: Sequence[tuple[Any, ...]]) -> Counter[int]:
    """How often the range inserted each id, minus how often it deleted it."""
    found: Counter[int] = Counter()
    for number, change, _ in rows:
        found[number] += 1 if change in ("insert", "update_postimage") else -1
    return found


IRREGULAR: dict[str, list[list[str]]] = {
    "removed-and-added-without-being-live": [["add a"], ["remove b", "add b"]],
    "removed-twice-then-added": [["add a", "add b"], ["remove b"], ["remove b", "add b"]],
    "live-file-added-again": [["add a"], ["add a"], ["remove a"], ["remove a"]],
    "never-live-file-removed": [["add a"], ["remove b"], ["add b"]],
}


@pytest.mark.spark
def test_changes_of_an_irregular_log_are_the_difference_of_its_versions(spark: SparkSession, tmp_path: Path) -> None:
    table, commits = tmp_path / "t", [*zip_longest(*IRREGULAR.values(), fillvalue=())]
    id_of = {f"{case}{name}": 10 * case + number for case in range(len(IRREGULAR)) for number, name in enumerate("ab")}
    files = {path: file(table, path, ids(number)) for path, number in id_of.items()}
    versions = {
        version: [
            files[f"{case}{path}"] if kind == "add" else removed(files[f"{case}{path}"])
            for case, actions in enumerate(commit)
            for kind, path in map(str.split, actions)
        ]
        for version, commit in enumerate(commits)
    }
    log = DeltaLog.for_table(spark, table_of(table, versions))
    last = len(commits) - 1
    states = replay([versions[version] for version in range(last + 1)])
    rows = [Counter(id_of[live["path"]] for live in state.files.values()) for state in states]
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", log, 0, last)
    ranges = [(0, last, False), (1, last, False), (2, last, False), (last, last, False), (1, last, True)]
    of_log = found_by({str(each): log.row_changes(*each[:2], net=each[2]).drop("_commit_timestamp") for each in ranges})
    for (first, to, _), changed in zip(ranges, of_log.values(), strict=True):
        expected = Counter(rows[to])
        expected.subtract(rows[first - 1] if first else {})
        assert net_of(changed) == Counter({i: n for i, n in expected.items() if n})
    shutil.rmtree(table / "_delta_log")
    DeltaLog.clear_cache()
    stored = {str(each): store.row_changes("t", *each[:2], net=each[2]).drop("_commit_timestamp") for each in ranges}
    assert found_by(stored) == of_log


def test_recorded_type_changes_of_elements_keys_and_values_are_read(spark: SparkSession, tmp_path: Path) -> None:
    def nested(kind: str, *changed: tuple[str, str, str]) -> str:
        inner = {"type": "array", "elementType": kind, "containsNull": True}
        kinds = {"type": "map", "keyType": kind, "valueType": inner, "valueContainsNull": True}
        changes = [{"fromType": old, "toType": new, "fieldPath": path} for path, old, new in changed]
        return schema({"name": "m", "type": kinds, "nullable": True, "metadata": {"delta.typeChanges": changes}})

    def data(kind: pa.DataType) -> pa.Table:
        return pa.table({"m": pa.array([[(1, [2])]], pa.map_(kind, pa.list_(kind)))})

    paths = ("key", "value.element")
    old, new = file(tmp_path, "old", data(pa.int32())), file(tmp_path, "new", data(pa.float64()))

    def found(*changed: tuple[str, str, str]) -> list[tuple[Any, ...]]:
        again = metadata(schemaString=nested("double", *changed))
        shutil.rmtree(tmp_path / "_delta_log", ignore_errors=True)
        DeltaLog.clear_cache()
        table = table_of(tmp_path, {0: [old], 1: [again, new]}, schemaString=nested("integer"))
        return changes(DeltaLog.for_table(spark, table).row_changes(0, 1))

    row = [(1.0, [2.0])]
    assert found(*((path, "integer", "double") for path in paths)) == [(row, "insert", 0), (row, "insert", 1)]
    with pytest.raises(RowChangesError, match=r"m\.value\.element changes from int to double"):
        found(("key", "integer", "double"), ("value", "integer", "double"))
    with pytest.raises(RowChangesError, match=r"m\.key changes from int to double"):
        found(("key", "short", "double"), ("value.element", "integer", "double"))


def test_no_changes_are_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    log = DeltaLog.for_table(spark, table_of(tmp_path, {0: [], 1: [commit_info("OPTIMIZE")]}))
    found = log.row_changes(0, 1, key="id", net=True)
    assert (found.columns, found.count()) == (["id", "_change_type", "_commit_version", "_commit_timestamp"], 0)


@pytest.mark.thorough
def test_a_store_returns_the_same_changes_with_and_without_the_log(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "t"
    first = file(table, "first", pairs((1, "a"), (2, "b"), (3, "c")))
    marked = add("first", size=first["add"]["size"], deletionVector=inline_vector(0))
    new, packed = file(table, "new", pairs((2, "B"))), file(table, "packed", pairs((2, "B")), dataChange=False)
    last = file(table, "last", pairs((2, "B"), (4, "d")))
    versions = {
        0: [first],
        1: [removed(first), marked],
        2: [
            removed(marked, deletionVector=inline_vector(0)),
            add("first", size=1, deletionVector=inline_vector(0, 1)),
            new,
        ],
        3: [removed(new, dataChange=False), packed],
        4: [removed(packed), last],
    }
    table_of(table, versions, schemaString=ID_AND_TEXT, features=["deletionVectors"])
    log = DeltaLog.for_table(spark, table)
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("t", log, 0, 4)
    options: list[dict[str, Any]] = [{}, {"key": ["id"]}, {"key": ["id"], "net": True}]
    expected = [changes(log.row_changes(1, 4, **each)) for each in options]
    assert expected[0] == [
        (1, "a", "delete", 1), (2, "B", "insert", 2), (2, "b", "delete", 2), (4, "d", "insert", 4),
    ]  # fmt: skip
    assert [changes(store.row_changes("t", 1, 4, **each)) for each in options] == expected
    every = [(2, "B", "insert", 3), (3, "c", "insert", 3)]
    for wanted in options:
        assert changes(store.row_changes_since("t", 0, 4, **wanted)) == changes(store.row_changes("t", 1, 4, **wanted))
        assert changes(store.row_changes_since("t", None, 3, **wanted)) == every
        assert changes(store.row_changes_since("t", 3, 3, **wanted)) == []
    some = store.row_changes_since("t", None, 3, where="id > 2", columns=["text"])
    assert changes(some) == [("c", "insert", 3)]
    assert store.row_changes_since("t", 3, 3).schema == store.row_changes_since("t", 2, 3).schema
    with pytest.raises(ValueError, match="Expected since <= last, found 4 and 3"):
        store.row_changes_since("t", 4, 3)
    times = store.row_changes("t", 4, 4).toArrow().to_pylist()
    shutil.rmtree(table / "_delta_log")
    DeltaLog.clear_cache()
    assert [changes(store.row_changes("t", 1, 4, **each)) for each in options] == expected
    assert store.row_changes("t", 4, 4).toArrow().to_pylist() == times
    assert changes(store.row_changes_since("t", None, 3)) == every
    with pytest.raises(StoredVersionNotFoundError):
        store.row_changes("t", 1, 5)


def test_schema_of_the_result(spark: SparkSession, tmp_path: Path) -> None:
    log = DeltaLog.for_table(spark, table_of(tmp_path, {0: [file(tmp_path, "a", ids(1))]}))
    kinds = {each["name"]: each["type"] for each in json.loads(log.row_changes(0, 0).schema.json())["fields"]}
    assert kinds == {
        "id": "long", "_change_type": "string", "_commit_version": "long", "_commit_timestamp": "timestamp",
    }  # fmt: skip


@pytest.mark.spark
def test_store_returns_the_changes_of_a_version_stored_from_a_checkpoint(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_driver_bases(monkeypatch)
    table = tmp_path / "t"
    first, last = file(table, "first", ids(1, 2)), file(table, "last", ids(3))
    table_of(table, {0: [first], 1: [removed(first), last]})
    unchanged = [
        {name: {**fields, "dataChange": False}} for each in (last, removed(first)) for name, fields in each.items()
    ]
    write_checkpoint(table / "_delta_log", 1, "classic", [protocol(1, 4), metadata(schemaString=ID), *unchanged])
    store, log = SnapshotStore.open(spark, tmp_path / "store"), DeltaLog.for_table(spark, table)
    store.write_range("t", log, 1, 1)
    store.write_range("t", log, 0, 0)
    shutil.rmtree(table / "_delta_log")
    DeltaLog.clear_cache()
    found = changes(store.row_changes("t", 1, 1))
    assert found == [(1, "delete", 1), (2, "delete", 1), (3, "insert", 1)]
