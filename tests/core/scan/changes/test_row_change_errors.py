"""Row changes that cannot be returned: missing files, unknown kinds of changes, schemas that exclude earlier rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog
from deltasnap_core.errors import DataFileNotFoundError, RowChangesError
from deltasnap_core.support import SPARK_FAILURES
from tests.builders import mapped, metadata, schema
from tests.core.scan.changes.row_changes_builders import FEED, changes, removed, table_of
from tests.core.scan.scan_builders import file, ids

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
def test_an_overwrite_with_another_type_can_be_read_neither_alone_nor_with_others(
    spark: SparkSession, tmp_path: Path
) -> None:
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
