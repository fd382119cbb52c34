"""The rows of a stored version are the same on both engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.replay.engine import EngineUse, ReplayEngine
from deltasnap_core.replay.sessions import provider_of
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.stored_version import FileKind, StoredVersion
from tests.core.store.rows.driver_rows_builders import driver_rows, empty_version
from tests.core.store.rows.spark_rows_builders import OLD, base, spark_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["base"]
UNUSED: Any = None


def version(spark: SparkSession, folder: Path, manifest: VersionManifest, engine: EngineUse = "spark") -> StoredVersion:
    return StoredVersion(
        engine=ReplayEngine(provider_of(spark), engine),
        stored=UNUSED,
        manifest=manifest,
        spark_rows=spark_rows(spark, folder),
        driver_rows=driver_rows(folder),
        check_files=False,
    )


def both_rows(stored: StoredVersion) -> list[list[dict[str, Any]]]:
    """The rows of a few columns of files and tombstones."""
    with stored.files_and_tombstones(("size", "path"), ("path", "deletionTimestamp")) as found:
        return [rows(each if isinstance(each, pa.Table) else each.toArrow()) for each in found]


def rows(found: pa.Table) -> list[dict[str, Any]]:
    return sorted(found.to_pylist(maps_as_pydicts="strict"), key=repr)


@pytest.mark.parametrize(
    ("kind", "columns"), [("all_files", None), ("tombstones", None), ("all_files", ["size", "path"])]
)
def test_rows_are_the_same_on_both_engines(
    spark: SparkSession, tmp_path: Path, base: VersionManifest, kind: FileKind, columns: list[str] | None
) -> None:
    manifest = replace(base, min_file_retention_timestamp=OLD)
    by_spark = version(spark, tmp_path, manifest).arrow(kind, columns)
    by_driver = version(spark, tmp_path, manifest, "auto").arrow(kind, columns)
    assert rows(by_spark) == rows(by_driver)
    assert by_spark.schema == by_driver.schema
    assert by_spark.num_rows == (4 if kind == "all_files" else 1)


@pytest.mark.slow
def test_files_and_tombstones_are_the_same_on_both_engines(
    spark: SparkSession, tmp_path: Path, base: VersionManifest
) -> None:
    manifest = replace(base, min_file_retention_timestamp=OLD)
    found = [both_rows(version(spark, tmp_path, manifest, engine)) for engine in ("spark", "auto")]
    assert found[0] == found[1]
    assert [len(each) for each in found[0]] == [4, 1]


def test_tombstones_are_those_that_a_retention_keeps(
    spark: SparkSession, tmp_path: Path, base: VersionManifest
) -> None:
    found = version(spark, tmp_path, replace(base, min_file_retention_timestamp=OLD))
    assert [row.path for row in found.tombstones().collect()] == ["gone"]
    assert sorted(row.path for row in found.tombstones(KEEP_ALL).collect()) == ["expires", "gone", "lapses"]


def test_version_without_files_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    found = version(spark, tmp_path, empty_version())
    assert found.read_files == ((), [])
    for frame, column in ((found.all_files, "stats"), (found.tombstones(), "size")):
        assert column in frame.columns
        assert frame.count() == 0
