"""A store and its table on S3, which PySpark from pip cannot read without a connector."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.replay.spark.session.spark_files import SparkFiles, can_read
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from tests.builders import write_log
from tests.core.store.manifests import commit_actions
from tests.core.store.tables import as_rows, check_version, make_table
from tests.flaky_s3 import FlakyS3
from tests.killing import KilledError, MortalFiles

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


def test_store_on_s3_matches_the_snapshots(spark: SparkSession, tmp_path: Path, s3_options: dict[str, Any]) -> None:
    latest = 6
    make_table(tmp_path / "events", latest + 1)
    filesystem = fsspec.filesystem("s3", **s3_options)
    filesystem.put(str(tmp_path / "events"), "lake/events", recursive=True)
    log = DeltaLog.for_table(spark, "s3://lake/events", storage_options=s3_options)
    store = SnapshotStore.open(spark, "s3://lake/a store", storage_options=s3_options)
    assert store.versions("events") == []
    store.write_range("events", log, 0, 4)
    store.write_range("events", log, 5, latest, materialize_as="table")
    assert store.versions("events") == list(range(latest + 1))
    for version in (0, 4, latest):
        check_version(store, "events", log, version)
    assert as_rows(store.all_files("events", latest)) == as_rows(log.get_snapshot_at(version=latest).all_files)
    (path,) = filesystem.glob(f"lake/a store/events/*/all_files/version={latest}/*.parquet")
    plain = pd.read_parquet(f"s3://{path}", storage_options=s3_options)
    assert len(plain) == store.computed_state("events", latest).num_of_files
    manifests = store.write_range("events", log, 0, latest)
    assert manifests[-1].plain_parquet is not None
    before = store.usage("events")
    assert before.num_unreferenced_files == 0
    report = store.prune("events", keep=2, min_age_ms=-60_000)
    assert report.versions == tuple(range(latest - 1))
    marker = 1  # records which versions were pruned
    assert store.usage("events").num_files == before.num_files - report.num_files + marker
    check_version(store, "events", log, latest)


LATEST = 3


@pytest.fixture
def table(tmp_path: Path, s3_options: dict[str, Any]) -> str:
    """A table with the versions 0 to LATEST on S3, in a separate folder."""
    log = write_log(tmp_path / "small", {version: commit_actions(version) for version in range(LATEST + 1)})
    folder = f"lake/{tmp_path.name}"
    fsspec.filesystem("s3", **s3_options).put(str(log), f"{folder}/small/_delta_log", recursive=True)
    return f"s3://{folder}/small"


def test_refresh_on_s3_makes_few_requests_and_survives_throttling(
    spark: SparkSession, table: str, tmp_path: Path, flaky_s3: tuple[FlakyS3, dict[str, Any]]
) -> None:
    flaky, options = flaky_s3
    store = SnapshotStore.open(spark, f"s3://lake/{tmp_path.name}/store", storage_options=options)
    log = DeltaLog.for_table(spark, table, storage_options=options)
    store.write_range("events", log, 0, 1)
    flaky.reset()
    store.write_range("events", log, 2, LATEST)
    assert flaky.count("GET", "small%2F_delta_log%2F") == 2
    assert [flaky.count("GET", f"{version:020d}.json") for version in (0, 1)] == [0, 2]  # its manifest, and its commit
    assert flaky.count("HEAD", "_delta_log") == 0
    assert sum(flaky.requested.values()) <= 60
    flaky.reset(refusals=1, code="ServiceUnavailable")
    throttled = SnapshotStore.open(spark, f"s3://lake/{tmp_path.name}/throttled", storage_options=options)
    throttled.write_range("events", log, 0, LATEST)
    assert flaky.refused > 10
    flaky.reset()
    for version in (0, LATEST):
        assert as_rows(throttled.state("events", version)) == as_rows(store.state("events", version))


def test_two_refreshes_at_once_on_s3_store_the_same(
    spark: SparkSession, table: str, tmp_path: Path, s3_options: dict[str, Any]
) -> None:
    log = DeltaLog.for_table(spark, table, storage_options=s3_options)
    root = f"s3://lake/{tmp_path.name}/two"
    stores = [SnapshotStore.open(spark, root, storage_options=s3_options) for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda store: store.write_range("events", log, 0, LATEST), stores))
    assert stores[0].versions("events") == list(range(LATEST + 1))
    for version in (0, LATEST):
        check_version(stores[0], "events", log, version)


def test_run_killed_on_s3_is_repaired_by_the_next(
    spark: SparkSession, table: str, tmp_path: Path, s3_options: dict[str, Any]
) -> None:
    log = DeltaLog.for_table(spark, table, storage_options=s3_options)
    root = f"s3://lake/{tmp_path.name}/killed"
    reader = SnapshotStore.open(spark, root, storage_options=s3_options)
    for steps in (0, 1, 3):  # before the base is known, before the changes are, among the manifests
        files = MortalFiles(root, s3_options, steps=steps)
        spark_files = SparkFiles(s3_options, partial(can_read, spark))
        session = GivenSession(spark)
        parquet = ParquetFiles(sessions=session, storage=files, spark_files=spark_files, folder=root)
        mortal = SnapshotStore(ReplayEngine(session), parquet)
        with pytest.raises(KilledError):
            mortal.write_range("events", log, 0, LATEST)
        assert len(reader.versions("events")) <= LATEST
        stored = reader.table("events")
        stored.computed_states(stored.manifests().values())
    reader.write_range("events", log, 0, LATEST)
    reader.prune("events", min_age_ms=-60_000)
    assert reader.usage("events").num_unreferenced_files == 0
    check_version(reader, "events", log, LATEST)
