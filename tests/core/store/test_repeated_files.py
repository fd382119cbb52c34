"""A checkpoint that has the same file twice: each row counts, in every view, until a commit replaces the file."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.replay.engine import EngineUse
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import CheckpointStyle, write_checkpoint
from tests.core.store.tables import check_version
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

STYLES: tuple[CheckpointStyle, ...] = "classic", "multipart", "v2-parquet-sidecars"
ENGINES: tuple[EngineUse, ...] = "auto", "spark"


@pytest.mark.parametrize("form", one_in(3, product(STYLES, ENGINES)), ids="-".join)
def test_all_views_agree_on_a_file_that_a_checkpoint_has_twice(
    spark: SparkSession, tmp_path: Path, form: tuple[CheckpointStyle, EngineUse]
) -> None:
    style, engine = form
    table, twice = tmp_path / "t", add("a", size=5)
    log = write_log(table, {0: [protocol(), metadata()], 1: [], 2: [add("c")], 3: [remove("a")], 4: [twice]})
    write_checkpoint(log, 1, style, [protocol(), metadata(), twice, add("b"), add("x"), twice])
    (log / commit_file(0)).unlink()
    (log / commit_file(1)).unlink()
    delta_log = DeltaLog.for_table(spark, table, options=SnapshotOptions(engine=engine))
    store = SnapshotStore.open(spark, tmp_path / "store", engine=engine)
    store.write_range("t", delta_log, 1, 4, materialize_as="table")
    for version, files in {1: 4, 2: 5, 3: 3, 4: 4}.items():
        snapshot = delta_log.get_snapshot_at(version=version)
        assert snapshot.computed_state.num_of_files == files
        assert snapshot.all_files.count() == snapshot.scan().files.count() == files
        if version in (2, 4):
            check_version(store, "t", delta_log, version)
    (plain,) = (tmp_path / "store").rglob("all_files/version=3/*.parquet")
    assert sorted(pq.read_table(plain)["path"].to_pylist()) == ["b", "c", "x"]
