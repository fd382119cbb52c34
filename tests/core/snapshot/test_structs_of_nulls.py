"""A checkpoint may have a struct of nulls in place of a null. Both mean that there is no such action or vector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.replay.engine import EngineUse
from tests.builders import metadata, protocol, remove, write_log
from tests.checkpoint_files import put_structs_of_nulls, write_checkpoint
from tests.conftest import FixedClock
from tests.core.scan.files.deletion_vectors_builders import inline_vector
from tests.core.scan.scan_builders import file, ids

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltasnap_core import Snapshot

FEATURES = ["deletionVectors"]


def of_snapshot(read: Callable[[Snapshot], DataFrame]) -> Callable[[DeltaLog], list[str]]:
    return lambda log: sorted(map(repr, read(log.snapshot).collect()))


VIEWS: dict[str, Callable[[DeltaLog], Any]] = {
    "files": of_snapshot(lambda snapshot: snapshot.all_files),
    "state": of_snapshot(lambda snapshot: snapshot.state),
    "tombstones": of_snapshot(lambda snapshot: snapshot.tombstones),
    "rows": of_snapshot(lambda snapshot: snapshot.scan().to_df()),
    "candidates": of_snapshot(lambda snapshot: snapshot.tables.optimize_candidates.drop("partition")),
    "others": lambda log: (log.snapshot.transactions, log.snapshot.domain_metadata, log.snapshot.computed_state),
}


def write_table(table: Path) -> Path:
    """Write a version with a checkpoint and one with a commit. Return the checkpoint file."""
    files = [file(table, "a", ids(1, 2)), file(table, "b", ids(3, 4), deletionVector=inline_vector(0))]
    gone = [remove("c", deletionVector=inline_vector(0)), remove("d")]
    others = [
        protocol(3, 7, readerFeatures=FEATURES, writerFeatures=[*FEATURES, "domainMetadata"]),
        metadata(),
        {"txn": {"appId": "app", "version": 7}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    ]
    log = write_log(table, {0: [*others, *files, *gone], 1: [remove("e"), file(table, "f", ids(5))]})
    (log / file_names.commit_file(0)).unlink()
    (checkpoint,) = write_checkpoint(log, 0, "classic", [*others, *files, *gone])
    return checkpoint


@pytest.mark.slow
def test_struct_of_nulls_counts_as_null(spark: SparkSession, tmp_path: Path) -> None:
    def views(engine: EngineUse) -> dict[str, Any]:
        log = DeltaLog.for_table(spark, tmp_path, clock=FixedClock(), options=SnapshotOptions(engine=engine))
        found = {name: view(log) for name, view in VIEWS.items()}
        DeltaLog.clear_cache()
        return found

    checkpoint = write_table(tmp_path)
    before = views("auto")
    put_structs_of_nulls(checkpoint)
    assert views("auto") == before
    assert views("spark") == before


@pytest.mark.slow
def test_stored_and_written_files_have_no_struct_of_nulls(spark: SparkSession, tmp_path: Path) -> None:
    put_structs_of_nulls(write_table(tmp_path / "t"))
    log = DeltaLog.for_table(spark, tmp_path / "t", clock=FixedClock())
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_versions("t", log, [0, 1])
    assert log.checkpoint().is_new
    DeltaLog.clear_cache()
    written = DeltaLog.for_table(spark, tmp_path / "t", clock=FixedClock()).snapshot.all_files
    for rows in (store.read_arrow("t", 1), store.all_files("t", 1).toArrow(), written.toArrow()):
        assert [row["path"] for row in rows.to_pylist() if row["deletionVector"] is not None] == ["b"]
    DeltaLog.clear_cache()
