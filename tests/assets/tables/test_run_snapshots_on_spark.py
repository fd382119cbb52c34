"""Which versions of a run Spark computes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core.replay.sessions import GivenSession
from tests.assets.tables.run_snapshots_builders import refresh, run_of, settings_of
from tests.builders import write_log
from tests.core.store.manifests import commit_actions

pytestmark = pytest.mark.spark


def test_first_version_is_computed_by_spark_and_later_ones_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "events", {version: commit_actions(version) for version in range(2)})
    snapshots, table = run_of(spark, tmp_path)
    first = snapshots.ensure_stored(table, [0, 1], lambda *_: None)
    assert str(first[0].computed_by).startswith(f"Spark {spark.version}, local")
    assert str(first[1].computed_by).endswith(" applied to version 0")
    write_log(tmp_path / "events", {version: commit_actions(version) for version in (2, 3)})
    later = RunSnapshots(settings_of(tmp_path), GivenSession(None), queries_ahead=True)
    refresh(later, table, (2, 3))
    files = later.versions.states(table.name, [3])[3].num_of_files
    assert sum(partition.num_files for partition in later.facts.of(table).files.partitions) == files
    assert later.facts.of(table).version == 3
    assert str(later.versions.manifests(table.name, [3])[3].computed_by).startswith("driver: ")


def test_spark_computes_everything_if_always_used(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "events", {version: commit_actions(version) for version in range(2)})
    snapshots, table = run_of(spark, tmp_path, use="always")
    stored = snapshots.ensure_stored(table, range(2), lambda *_: None)
    assert {str(manifest.computed_by)[:6] for manifest in stored.values()} == {"Spark "}
