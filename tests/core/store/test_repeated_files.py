"""A checkpoint that has the same file twice: each row counts, in every view, until a commit replaces the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore, TableLog
from deltasnap_core.protocol.log_files.file_names import commit_file
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import CheckpointStyle, write_checkpoint
from tests.core.store.tables import check_version
from tests.driver_bases import use_driver_bases
from tests.thorough import one_in
from tests.without_spark import log_without_spark

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


@pytest.mark.slow
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


@pytest.mark.spark
@pytest.mark.parametrize("style", one_in(3, STYLES))
def test_all_views_agree_on_a_file_that_a_checkpoint_has_twice(
    spark: SparkSession, tmp_path: Path, style: CheckpointStyle
) -> None:
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
