"""A store, and the table it is of, on S3, which pip's Spark does not reach by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.store.snapshot_store import SnapshotStore
from tests.core.store.tables import as_rows, check_version, make_table

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]


def test_store_on_s3_answers_as_the_snapshots_do(
    spark: SparkSession, tmp_path: Path, s3_options: dict[str, Any]
) -> None:
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
    assert store.usage("events").num_files == before.num_files - report.num_files
    check_version(store, "events", log, latest)
