"""A checkpoint with two actions in a row is damaged: every view of the version falls back, or is an error."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import CorruptLogError, DeltaLog, SnapshotOptions, SnapshotStore, TableLog
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.replay.engine import EngineUse
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.conftest import FixedClock
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = [add(f"f{number}", size=number) for number in range(20)]
ENGINES: tuple[EngineUse, ...] = ("auto", "spark")
VIEWS = [
    *(("spark", view) for view in ("computed_state", "all_files", "state", "scan", "filtered scan", "store")),
    *(pytest.param("auto", view, marks=pytest.mark.thorough) for view in ("filtered scan", "store")),
]


def make_table(table: Path, *, blanks: int, with_commits: bool = True, other: str = "remove") -> Path:
    """Write versions 0 to 2, a checkpoint at 1 in which one row of an add holds another action too."""
    log = write_log(table, {0: [protocol(), metadata()], 1: FILES, 2: [add("last", size=1)]})
    (file,) = write_checkpoint(log, 1, "classic", [protocol(), metadata(), *FILES])
    rows = pq.read_table(file)
    values: list[Any] = [None] * rows.num_rows
    values[-1] = {**remove("gone"), "txn": {"appId": "x", "version": 1}}[other]
    column = pa.array(values, rows.schema.field(other).type)
    rows = rows.set_column(rows.schema.get_field_index(other), other, column)
    nothing = pa.Table.from_pylist([{}] * blanks, schema=rows.schema)
    # The footer cannot tell where there are rows without an action.
    pq.write_table(pa.concat_tables([rows, nothing]), file)
    if not with_commits:
        for version in range(2):
            (log / file_names.commit_file(version)).unlink()
    return file


@pytest.mark.parametrize("other", ["remove", "txn"])
@pytest.mark.parametrize("blanks", [0, 5])
def test_version_falls_back_from_a_checkpoint_with_two_actions_in_a_row(
    tmp_path: Path, blanks: int, other: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = make_table(tmp_path, blanks=blanks, other=other)
    snapshot = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).get_snapshot_at(2)
    with caplog.at_level(logging.WARNING):
        assert (snapshot.computed_state.num_of_files, snapshot.computed_state.num_of_removes) == (21, 0)
    assert f"{file.name} cannot be used for version 2" in caplog.text
    assert not snapshot.transactions


@pytest.mark.parametrize("other", ["remove", "txn"])
@pytest.mark.parametrize("blanks", [0, 5])
def test_error_names_a_damaged_checkpoint_without_fallback(tmp_path: Path, blanks: int, other: str) -> None:
    file = make_table(tmp_path, blanks=blanks, other=other, with_commits=False)
    with pytest.raises(CorruptLogError, match="at most one action in a row") as caught:
        _ = log_without_spark(TableLog.for_path(tmp_path, clock=FixedClock())).get_snapshot_at(2).computed_state
    assert caught.value.path == file.as_uri()


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "view"), VIEWS)
def test_each_view_falls_back_when_used_first(
    spark: SparkSession, tmp_path: Path, engine: EngineUse, view: str
) -> None:
    make_table(tmp_path / "t", blanks=5)
    options = SnapshotOptions(engine=engine, check_pages=True)
    log = DeltaLog.for_table(spark, tmp_path / "t", clock=FixedClock(), options=options)
    snapshot = log.get_snapshot_at(2)
    match view:
        case "computed_state":
            count = snapshot.computed_state.num_of_files
        case "all_files":
            count = snapshot.all_files.count()
        case "state":
            count = snapshot.state.where("add is not null").count()
        case "scan":
            count = snapshot.scan().files.count()
        case "filtered scan":
            count = snapshot.scan("1 = 1").report.files_after_statistics
        case _:
            store = SnapshotStore.open(spark, tmp_path / "store")
            store.write_range("t", log, 2, 2)
            count = store.computed_state("t", 2).num_of_files
            assert count == store.all_files("t", 2).count()
    assert count == 21


@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_names_a_damaged_checkpoint_without_fallback(
    spark: SparkSession, tmp_path: Path, engine: EngineUse
) -> None:
    file = make_table(tmp_path, blanks=5, with_commits=False)
    options = SnapshotOptions(engine=engine)
    snapshot = DeltaLog.for_table(spark, tmp_path, clock=FixedClock(), options=options).snapshot
    with pytest.raises(CorruptLogError, match="at most one action in a row") as caught:
        _ = snapshot.computed_state
    assert caught.value.path == file.as_uri()
