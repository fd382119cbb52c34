"""The file actions of stored versions without a log equal a comparison of the complete lists of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, assume, given, settings

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.stored_row_changes import _actions
from tests.builders import add, metadata, protocol, remove, write_log
from tests.core.store.stored_row_changes_builders import COMMITS, check, write_versions
from tests.driver_bases import use_driver_bases
from tests.oracle import replay
from tests.random_logs import RandomLog, random_logs, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.thorough
def test_changed_actions_read_by_spark_equal_a_full_comparison_of_both_lists(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_log(tmp_path / "t", dict(enumerate(COMMITS)))
    store = SnapshotStore.open(spark, tmp_path / "store", engine="spark")
    write_versions(store, DeltaLog.for_table(spark, tmp_path / "t"), (4,))
    check(store, 0, len(COMMITS) - 1, (1,))


@pytest.mark.spark
@pytest.mark.thorough
def test_changed_actions_with_new_bases_equal_a_full_comparison_of_both_lists(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_log(tmp_path / "t", dict(enumerate(COMMITS)))
    store = SnapshotStore.open(spark, tmp_path / "store", policy=ChangePolicy(base_fraction=0.3, least_rows=1))
    write_versions(store, DeltaLog.for_table(spark, tmp_path / "t"), range(1, len(COMMITS)))
    bases = {store.manifest("t", version).base for version in range(len(COMMITS))}
    assert 1 < len(bases) < len(COMMITS)
    check(store, 0, len(COMMITS) - 1)


@pytest.mark.spark
def test_rows_are_compared_if_the_store_no_longer_has_the_tombstone_of_a_file(
    spark: SparkSession, tmp_path: Path
) -> None:
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
