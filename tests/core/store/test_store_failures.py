"""A run killed at any moment: readers see only complete versions, and the next run succeeds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.errors import StorageError
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.replay.spark.session.spark_files import SparkFiles, can_read
from deltasnap_core.storage.urls import to_url
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from tests.core.store.tables import as_rows, content, make_table
from tests.killing import KilledError, MortalFiles

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

LATEST = 2
EAGER = ChangePolicy(base_fraction=0.1, least_rows=1, fan_in=2)


@pytest.fixture(scope="module")
def log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DeltaLog:
    path = tmp_path_factory.mktemp("tables") / "events"
    make_table(path, LATEST + 1)
    return DeltaLog.for_table(spark, path)


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, log: DeltaLog) -> SnapshotStore:
    store = SnapshotStore.open(spark, tmp_path_factory.mktemp("store"))
    store.write_range("events", log, 0, LATEST)
    return store


@pytest.fixture(scope="module")
def expected(whole: SnapshotStore) -> list[tuple[object, ...]]:
    return [content(whole, "events", version) for version in range(LATEST + 1)]


def mortal(spark: SparkSession, root: Path, steps: int) -> SnapshotStore:
    """Return a store whose process is killed after this many steps."""
    files, spark_files = MortalFiles(to_url(root), steps=steps), SparkFiles({}, partial(can_read, spark))
    session = GivenSession(spark)
    parquet = ParquetFiles(sessions=session, storage=files, spark_files=spark_files, folder=to_url(root))
    return SnapshotStore(ReplayEngine(session), parquet, EAGER)


def survives(work: Callable[[], object]) -> bool:
    try:
        work()
    except KilledError:
        return False
    return True


def test_run_killed_at_any_step_leaves_complete_versions_and_the_next_run_succeeds(
    spark: SparkSession, tmp_path: Path, log: DeltaLog, expected: list[tuple[object, ...]]
) -> None:
    reader, kills, seen = SnapshotStore.open(spark, tmp_path), 0, set[tuple[int, ...]]()
    while not survives(partial(mortal(spark, tmp_path, kills).write_range, f"killed_{kills}", log, 0, LATEST)):
        versions = reader.versions(f"killed_{kills}")
        seen.add(tuple(versions))
        for version in versions[-1:]:
            assert content(reader, f"killed_{kills}", version) == expected[version]
        kills += 1
    assert kills > 5
    assert {(), (0,), (0, 1)} <= seen
    for name in ("killed_0", f"killed_{kills - 1}"):
        reader.write_range(name, log, 0, LATEST)
        reader.prune(name, min_age_ms=-60_000)
        assert reader.usage(name).num_unreferenced_files == 0
        assert [content(reader, name, version) for version in range(LATEST + 1)] == expected


def test_plain_tables_survive_a_kill_at_any_step(
    spark: SparkSession, tmp_path: Path, log: DeltaLog, whole: SnapshotStore, expected: list[tuple[object, ...]]
) -> None:
    shutil.copytree(whole.root.removeprefix("file://"), tmp_path / "store")
    reader, kills = SnapshotStore.open(spark, tmp_path / "store"), 0
    write = partial(SnapshotStore.write_range, table="events", log=log, first=0, last=1, materialize_as="table")
    while not survives(partial(write, mortal(spark, tmp_path / "store", kills))):
        assert reader.versions("events") == list(range(LATEST + 1))
        kills += 1
    assert kills > 6
    assert [manifest.plain_parquet is not None for manifest in write(reader)] == [True, True]
    assert content(reader, "events", 1) == expected[1]
    assert as_rows(reader.all_files("events", 1)) == as_rows(whole.all_files("events", 1))
    assert reader.all_files("events", 1).count() == reader.computed_state("events", 1).num_of_files


def test_root_that_became_a_file_is_a_storage_fault(spark: SparkSession, tmp_path: Path) -> None:
    make_table(tmp_path / "events", 1)
    log = DeltaLog.for_table(spark, tmp_path / "events")
    root = tmp_path / "store"
    store = SnapshotStore.open(spark, root)
    assert store.versions("events") == []
    root.write_text("a file", encoding="utf-8")
    with pytest.raises(StorageError, match="Spark cannot write there"):
        store.write_range("events", log, 0, 0)
