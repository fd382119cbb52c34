"""The rows of stored versions are the same on both engines, and after the log is gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings

from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore, TableLog, VersionManifest
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.replay.engine import EngineUse, ReplayEngine
from deltasnap_core.replay.sessions import provider_of
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.stored_row_changes import _actions
from deltasnap_core.store.stored_version import FileKind, StoredVersion
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import CheckpointStyle, write_checkpoint
from tests.core.store.rows.driver_rows_builders import driver_rows, empty_version
from tests.core.store.rows.spark_rows_builders import OLD, base, spark_rows
from tests.core.store.stored_row_changes_builders import COMMITS, check, write_versions
from tests.core.store.tables import check_version
from tests.driver_bases import use_driver_bases
from tests.oracle import replay
from tests.random_logs import RandomLog, random_logs, write
from tests.thorough import one_in
from tests.without_spark import log_without_spark

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


def test_files_and_tombstones_equal_on_both_engines(spark: SparkSession, tmp_path: Path, base: VersionManifest) -> None:
    manifest = replace(base, min_file_retention_timestamp=OLD)
    found = [both_rows(version(spark, tmp_path, manifest, engine)) for engine in ("spark", "auto")]
    assert found[0] == found[1]
    assert [len(each) for each in found[0]] == [4, 1]


def test_tombstones_are_those_within_a_retention(spark: SparkSession, tmp_path: Path, base: VersionManifest) -> None:
    found = version(spark, tmp_path, replace(base, min_file_retention_timestamp=OLD))
    assert [row.path for row in found.tombstones().collect()] == ["gone"]
    assert sorted(row.path for row in found.tombstones(KEEP_ALL).collect()) == ["expires", "gone", "lapses"]


def test_version_without_files_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    found = version(spark, tmp_path, empty_version())
    assert found.read_files == ((), [])
    for frame, column in ((found.all_files, "stats"), (found.tombstones(), "size")):
        assert column in frame.columns
        assert frame.count() == 0


if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STYLES: tuple[CheckpointStyle, ...] = "multipart", "classic", "v2-parquet-sidecars"
FILES = {1: 4, 2: 5, 3: 3, 4: 4}
"""The number of live files of each version."""


def write_table(table: Path, style: CheckpointStyle) -> None:
    """Write a table that begins with a checkpoint of version 1 in which a file is twice."""
    twice = add("a", size=5)
    log = write_log(table, {0: [protocol(), metadata()], 1: [], 2: [add("c")], 3: [remove("a")], 4: [twice]})
    write_checkpoint(log, 1, style, [protocol(), metadata(), twice, add("b"), add("x"), twice])
    (log / commit_file(0)).unlink()
    (log / commit_file(1)).unlink()


@pytest.mark.parametrize("style", STYLES)
def test_driver_counts_a_file_that_a_checkpoint_has_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: CheckpointStyle
) -> None:
    use_driver_bases(monkeypatch)
    write_table(tmp_path / "t", style)
    log = log_without_spark(TableLog.for_path(tmp_path / "t"))
    store = SnapshotStore.open(None, tmp_path / "store")
    store.write_range("t", log, 1, 4)
    for version, files in FILES.items():
        assert log.get_snapshot_at(version).computed_state.num_of_files == files
        assert store.computed_state("t", version).num_of_files == files
        assert store.read_arrow("t", version, "all_files").num_rows == files


@pytest.mark.parametrize("style", one_in(3, STYLES))
def test_views_agree_on_a_file_that_appears_twice(spark: SparkSession, tmp_path: Path, style: CheckpointStyle) -> None:
    write_table(tmp_path / "t", style)
    delta_log = DeltaLog.for_table(spark, tmp_path / "t", options=SnapshotOptions(engine="spark"))
    store = SnapshotStore.open(spark, tmp_path / "store", engine="spark")
    store.write_range("t", delta_log, 1, 4, materialize_as="table")
    assert {version: store.computed_state("t", version).num_of_files for version in FILES} == FILES
    check_version(store, "t", delta_log, 2)
    assert delta_log.get_snapshot_at(2).scan().files.count() == FILES[2]
    assert delta_log.get_snapshot_at(3).all_files.count() == FILES[3]
    (plain,) = (tmp_path / "store").rglob("all_files/version=3/*.parquet")
    assert sorted(pq.read_table(plain)["path"].to_pylist()) == ["b", "c", "x"]


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.thorough
def test_changed_actions_on_spark_equal_a_comparison_of_both_lists(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "t", dict(enumerate(COMMITS)))
    store = SnapshotStore.open(spark, tmp_path / "store", engine="spark")
    write_versions(store, DeltaLog.for_table(spark, tmp_path / "t"), (4,))
    check(store, 0, len(COMMITS) - 1, (1,))


@pytest.mark.spark
@pytest.mark.thorough
def test_changed_actions_with_new_bases_equal_a_comparison_of_both_lists(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "t", dict(enumerate(COMMITS)))
    store = SnapshotStore.open(spark, tmp_path / "store", policy=ChangePolicy(base_fraction=0.3, least_rows=1))
    write_versions(store, DeltaLog.for_table(spark, tmp_path / "t"), range(1, len(COMMITS)))
    bases = {store.manifest("t", version).base for version in range(len(COMMITS))}
    assert 1 < len(bases) < len(COMMITS)
    check(store, 0, len(COMMITS) - 1)


def test_rows_are_compared_if_the_store_lost_the_tombstone_of_a_file(spark: SparkSession, tmp_path: Path) -> None:
    at_once = metadata(configuration={"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    moved = [remove("a", dataChange=False), add("b", dataChange=False)]
    write_log(tmp_path / "t", {0: [protocol(), at_once, add("a")], 1: moved})
    store = SnapshotStore.open(spark, tmp_path / "store", policy=ChangePolicy(base_fraction=0.3, least_rows=1))
    write_versions(store, DeltaLog.for_table(spark, tmp_path / "t"), (1,))
    stored = [store._version("t", version) for version in range(2)]
    assert stored[1].manifest.base.last == 1
    assert {each.path: each.data_change for each in _actions(stored[0], stored[1:])} == {"a": True, "b": True}


@pytest.mark.slow
@settings(max_examples=6, deadline=None, suppress_health_check=[*HealthCheck])
@given(made=random_logs())
def test_changed_actions_of_random_logs_equal_a_full_comparison_of_both_lists(
    tmp_path_factory: pytest.TempPathFactory, made: RandomLog
) -> None:
    assume(made.checkpoints.get(made.versions.start) != "v2-json")  # Spark reads it
    folder = tmp_path_factory.mktemp("random")
    write(folder / "t", made, replay(made.commits))
    with pytest.MonkeyPatch.context() as patch:
        use_driver_bases(patch)
        store = SnapshotStore.open(None, folder / "store")
        store.write_range("t", DeltaLog.for_table(None, folder / "t"), made.versions.start, made.versions[-1])
        check(store, made.versions.start, made.versions[-1])
