"""Which files row changes read, where those of earlier versions are, and changes that cannot be returned."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.errors import DataFileNotFoundError, RowChangesError
from deltasnap_core.log.commits import commit_batch
from deltasnap_core.snapshot.replayed_version import ReplayedVersion
from deltasnap_core.support import SPARK_FAILURES
from tests.builders import add, commit_info, mapped, metadata, remove, schema
from tests.core.scan.changes.row_changes_builders import FEED, ID_AND_TEXT, changes, removed, table_of
from tests.core.scan.files.deletion_vectors_builders import inline_vector
from tests.core.scan.scan_builders import file, found_by, ids

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core.support import EngineUse


@pytest.mark.spark
@pytest.mark.parametrize("feed", [False, True], ids=["no feed", "feed"])
def test_files_shared_by_versions_are_not_opened(spark: SparkSession, tmp_path: Path, feed: bool) -> None:
    shared = [file(tmp_path, f"shared{number}", ids(number)) for number in range(5)]
    gained = file(tmp_path, "gained", ids(10, 11, 12))
    marked = add("gained", size=gained["add"]["size"], deletionVector=inline_vector(1))
    more = add("gained", size=gained["add"]["size"], deletionVector=inline_vector(0, 2))
    new, moved = file(tmp_path, "new", ids(20)), file(tmp_path, "moved", ids(0), dataChange=False)
    recorded = pa.table({"id": [10, 11, 12, 20], "_change_type": ["delete", "insert", "delete", "insert"]})
    changed = file(tmp_path, "changed", recorded)
    data = {"path": "changed", "partitionValues": {}, "size": changed["add"]["size"], "dataChange": False}
    log = DeltaLog.for_table(
        spark,
        table_of(
            tmp_path,
            {
                0: [*shared, gained],
                1: [removed(gained), marked],
                2: [removed(marked, deletionVector=inline_vector(1)), more, new, *([{"cdc": data}] if feed else [])],
                3: [removed(shared[0], dataChange=False), moved],
            },
            features=["deletionVectors"],
            configuration={"delta.enableChangeDataFeed": "true"} if feed else {},
        ),
    )
    for each in (*shared, moved, *([new] if feed else [changed])):
        (tmp_path / each["add"]["path"]).unlink()
    found = log.row_changes(1, 3)
    opened = Counter(Path(name).name for name in found.inputFiles())
    assert opened == {"gained": 1, "changed" if feed else "new": 1}
    assert changes(found) == [
        (10, "delete", 2), (11, "delete", 1), (11, "insert", 2), (12, "delete", 2), (20, "insert", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("feed", [False, True], ids=["no feed", "feed"])
def test_files_of_other_partitions_are_opened_only_for_pairs(spark: SparkSession, tmp_path: Path, feed: bool) -> None:
    files = {
        name: file(tmp_path, name, ids(number, 10), partitionValues={"text": name[0]})
        for number, name in enumerate(["a0", "b0", "a1", "b1"])
    }
    recorded = {
        name: file(tmp_path, f"{name}.cdc", pa.table({"id": [number], "_change_type": ["insert"]}))
        for number, name in ((2, "a1"), (3, "b1"))
    }
    data = [
        {"cdc": {"path": f"{name}.cdc", "partitionValues": {"text": name[0]}, "size": each["add"]["size"]}}
        for name, each in recorded.items()
    ]
    gone = [removed(files[name], partitionValues={"text": name[0]}) for name in ("a0", "b0")]
    configuration = {"delta.enableChangeDataFeed": "true"} if feed else {}
    table = table_of(
        tmp_path,
        {0: [files["a0"], files["b0"]], 1: [*gone, files["a1"], files["b1"], *(data if feed else [])]},
        schemaString=ID_AND_TEXT,
        partitionColumns=["text"],
        configuration=configuration,
    )
    expected = [(0, "a", "insert", 0), (10, "a", "insert", 0), (2, "a", "insert", 1)]
    for path in tmp_path.glob("b*"):
        path.unlink()
    log = DeltaLog.for_table(spark, table)
    found = changes(log.row_changes(0, 1, where="text = 'a' and _commit_version >= 0"))
    assert found == sorted([*expected, *([] if feed else [(0, "a", "delete", 1)])], key=repr)
    with pytest.raises(DataFileNotFoundError):
        log.row_changes(0, 1, where="text = 'a'", key="id")


def test_files_live_in_the_checkpoint_before_are_found_in_any_spelling(spark: SparkSession, tmp_path: Path) -> None:
    values: dict[str, Any] = {"partitionValues": {"text": "x"}}
    first, second = file(tmp_path, "a b", ids(1, 2), **values), file(tmp_path, "c", ids(3), **values)
    marked = add("c", deletionVector=inline_vector(0), **values)
    versions = {
        0: [first, second],
        1: [removed(second), marked],
        2: [file(tmp_path, "d", ids(4), **values)],
        3: [add("%61%20b", **values), add("d", **values), second, remove("%61%20%62")],
        4: [remove("a%20%62"), remove("e"), removed(marked, deletionVector=inline_vector(0))],
    }
    parts: dict[str, Any] = {"schemaString": ID_AND_TEXT, "partitionColumns": ["text"], "features": ["deletionVectors"]}
    table_of(tmp_path, versions, **parts)
    DeltaLog.for_table(spark, tmp_path).checkpoint(1)
    deleted = [(1, "x", "delete", 4), (2, "x", "delete", 4)]
    engines: tuple[EngineUse, ...] = "auto", "spark"
    for engine in engines:
        DeltaLog.clear_cache()
        log = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine=engine))
        frames = {first: log.row_changes(first, 4).drop("_commit_timestamp") for first in (3, 4)}
        found = found_by({str(first): frame for first, frame in frames.items()})
        assert found == {"3": sorted([*deleted, (3, "x", "insert", 3)], key=repr), "4": deleted}


def test_small_tables_look_up_live_files_without_spark_and_only_if_data_changes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = file(tmp_path, "old", ids(1)), file(tmp_path, "new", ids(2))
    packed = [removed(new, dataChange=False), file(tmp_path, "packed", ids(2), dataChange=False)]
    versions = {0: [old], 1: [commit_info()], 2: [removed(old), new], 3: packed}
    log = DeltaLog.for_table(spark, table_of(tmp_path, versions))
    log.checkpoint(1)
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    DeltaLog.clear_cache()
    log = DeltaLog.for_table(spark, tmp_path)

    def unexpected(*_: object) -> NoReturn:
        raise AssertionError("another engine")

    monkeypatch.setattr(ReplayedVersion, "_live_files_on_spark", unexpected)
    assert changes(log.row_changes(2, 3)) == [(1, "delete", 2), (2, "insert", 2)]
    monkeypatch.setattr(ReplayedVersion, "_live_files_in_driver", unexpected)
    assert changes(log.row_changes(3, 3)) == []


def test_partition_values_of_a_remove_come_from_an_add_beside_change_data(spark: SparkSession, tmp_path: Path) -> None:
    values: dict[str, Any] = {"partitionValues": {"text": "x"}}
    recorded = file(tmp_path, "recorded", pa.table({"id": [1], "_change_type": ["insert"]}))
    data = {"path": "recorded", "size": recorded["add"]["size"], "dataChange": False, **values}
    versions = {0: [], 1: [file(tmp_path, "a", ids(1), **values), {"cdc": data}], 2: [remove("a")]}
    parts: dict[str, Any] = {"schemaString": ID_AND_TEXT, "partitionColumns": ["text"], "configuration": FEED}
    log = DeltaLog.for_table(spark, table_of(tmp_path, versions, **parts))
    assert changes(log.row_changes(1, 2)) == [(1, "x", "delete", 2), (1, "x", "insert", 1)]


@pytest.mark.slow
@pytest.mark.parametrize("is_large", [False, True], ids=["use-spark", "large-commit"])
def test_spark_reads_actions_that_the_driver_does_not_support(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if is_large:
        monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 10)
    values: dict[str, Any] = {"partitionValues": {"text": "b c/ü"}}
    old, new = file(tmp_path, "old", ids(1, 2), **values), file(tmp_path, "new", ids(2, 3), **values)
    marked = add("new", deletionVector=inline_vector(1), **values)
    versions = {0: [old], 1: [removed(old, **values), new], 2: [removed(new, **values), marked]}
    parts: dict[str, Any] = {"schemaString": ID_AND_TEXT, "partitionColumns": ["text"], "features": ["deletionVectors"]}
    table = table_of(tmp_path, versions, **parts)
    log = DeltaLog.for_table(spark, table, options=SnapshotOptions(engine="auto" if is_large else "spark"))
    assert changes(log.row_changes(1, 2)) == [
        (1, "b c/ü", "delete", 1), (3, "b c/ü", "delete", 2), (3, "b c/ü", "insert", 1),
    ]  # fmt: skip


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_file_deleted_by_vacuum_is_named(spark: SparkSession, tmp_path: Path) -> None:
    old = file(tmp_path, "old file.parquet", ids(1))
    log = DeltaLog.for_table(spark, table_of(tmp_path, {0: [old], 1: [removed(old)]}))
    (tmp_path / "old file.parquet").unlink()
    with pytest.raises(DataFileNotFoundError, match=r"lost the file .*old%20file\.parquet|old file\.parquet"):
        log.row_changes(1, 1)


def test_files_of_change_data_that_vacuum_removed_are_named(spark: SparkSession, golden: Path, tmp_path: Path) -> None:
    shutil.copytree(golden / "tables" / "dat__cdf", tmp_path / "t")
    shutil.rmtree(tmp_path / "t" / "_change_data")
    with pytest.raises(DataFileNotFoundError, match="_change_data"):
        DeltaLog.for_table(spark, tmp_path / "t").row_changes(0, 2)


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "options"), [("INSERT", {}), ("deleted", {"key": "id"}), (None, {"columns": ["id"]})])
def test_change_data_of_an_unknown_type_is_an_error(
    spark: SparkSession, tmp_path: Path, kind: str | None, options: dict[str, Any]
) -> None:
    rows = pa.table({"id": [1, 2], "_change_type": pa.array(["insert", kind], pa.string())})
    data = {**file(tmp_path, "a.cdc", rows)["add"], "partitionValues": {}}
    table = table_of(tmp_path, {0: [file(tmp_path, "a", ids(1)), {"cdc": data}]}, configuration=FEED)
    found = DeltaLog.for_table(spark, table).row_changes(0, 0, **options)
    for read in found.toArrow, found.count:
        with pytest.raises(SPARK_FAILURES, match=f"version 0 has an unknown _change_type: {kind or 'null'}"):
            read()


@pytest.mark.parametrize(
    ("later", "reported"),
    [
        pytest.param([mapped("number", "long", 1, "p1"), mapped("b", "long", 2, "p2")], "id is renamed", id="renamed"),
        pytest.param([mapped("b", "long", 2, "p2")], "id is dropped", id="dropped"),
        pytest.param([mapped("id", "string", 1, "p1"), mapped("b", "long", 2, "p2")], "from bigint", id="another-type"),
    ],
)
def test_a_schema_that_cannot_read_earlier_versions_is_named_with_its_version(
    spark: SparkSession, tmp_path: Path, later: list[dict[str, Any]], reported: str
) -> None:
    fields = schema(mapped("id", "long", 1, "p1"), mapped("b", "long", 2, "p2"))
    configuration = {"delta.columnMapping.mode": "name"}
    versions = {
        0: [file(tmp_path, "a", pa.table({"p1": [1], "p2": [2]}))],
        1: [file(tmp_path, "b", pa.table({"p1": [3], "p2": [4]}))],
        2: [metadata(schemaString=schema(*later), configuration=configuration)],
        3: [file(tmp_path, "c", pa.table({"p2": [6]}))],
    }
    table = table_of(tmp_path, versions, schemaString=fields, configuration=configuration, features=["columnMapping"])
    log = DeltaLog.for_table(spark, table)
    with pytest.raises(RowChangesError, match=reported) as raised:
        log.row_changes(0, 3)
    assert raised.value.version == 2
    assert len(changes(log.row_changes(0, 1))) == 2
    assert len(changes(log.row_changes(2, 3))) == 1


@pytest.mark.slow
def test_overwrite_with_another_type_is_read_neither_alone_nor_with_others(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    for number, values in enumerate(([1], [2], ["x"], ["y"])):
        mode: dict[str, Any] = {"mode": "overwrite", "schema_mode": "overwrite"} if number == 2 else {"mode": "append"}
        deltalake.write_deltalake(str(tmp_path), pa.table({"a": values}), **mode)
    log = DeltaLog.for_table(spark, tmp_path)
    for first, last in ((2, 2), (1, 2), (0, 3)):
        with pytest.raises(RowChangesError, match="those up to version 1, and those from version 3 on") as raised:
            log.row_changes(first, last)
        assert raised.value.version == 2
    assert [row[0] for row in changes(log.row_changes(0, 1))] == [1, 2]
    assert [row[0] for row in changes(log.row_changes(3, 3))] == ["y"]


def test_removed_files_of_an_earlier_schema_that_the_log_lost_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    columns = {"id": pa.array([1, 2], pa.int64()), "p": ["a", "b"]}
    deltalake.write_deltalake(path, pa.table(columns), partition_by=["p"])
    deltalake.write_deltalake(
        path, pa.table(columns).slice(1), mode="overwrite", schema_mode="overwrite", partition_by=["id"]
    )
    deltalake.DeltaTable(path).create_checkpoint()
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").unlink()
    DeltaLog.clear_cache()
    with pytest.raises(RowChangesError, match="the log no longer has the schema before it"):
        DeltaLog.for_table(spark, path).row_changes(1, 1)
