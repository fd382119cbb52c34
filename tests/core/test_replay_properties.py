"""Random logs: every replay equals the oracle at every version."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from deltasnap_core import DeltaLog, Snapshot, SnapshotOptions, SnapshotStore
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.log_files import file_names
from tests.builders import mtime_of, write_log
from tests.checkpoint_files import write_checkpoint
from tests.conftest import FixedClock
from tests.oracle import OracleState, comparable, comparable_rows, counts_of, replay
from tests.random_logs import EXPIRED, RandomLog, random_logs, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core import Snapshot


# More with DELTASNAP_EXAMPLES=200, which then also differ from run to run.
EXAMPLES = int(os.environ.get("DELTASNAP_EXAMPLES", "6"))
PROPERTY = settings(
    max_examples=EXAMPLES,
    derandomize="DELTASNAP_EXAMPLES" not in os.environ,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

IN_SPARK = SnapshotOptions(cache_state=False, engine="spark")


def assert_agrees(snapshot: Snapshot, state: OracleState) -> None:
    assert comparable_rows(snapshot.state) == comparable(state.actions(EXPIRED))
    assert comparable([{"protocol": snapshot.protocol.to_json()}]) == comparable([{"protocol": state.protocol}])
    assert snapshot.transactions == {name: txn["version"] for name, txn in state.transactions.items()}


@pytest.mark.thorough
@PROPERTY
@given(made=random_logs())
def test_replay_range_pass_and_store_equal_the_oracle_at_every_version(spark: SparkSession, made: RandomLog) -> None:
    states = replay(made.commits)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "a table")
        write(table, made, states)
        log = DeltaLog.for_table(spark, table, clock=FixedClock(), options=IN_SPARK)
        for version in made.versions:
            snapshot = log.get_snapshot_at(version, min_file_retention_timestamp=EXPIRED)
            assert_agrees(snapshot, states[version])
        assert counts_of(snapshot.computed_state) == states[-1].counts(EXPIRED)

        store = SnapshotStore.open(spark, Path(folder, "store"))
        store.write_range("t", log, made.versions[0], made.versions[-1])
        assert store.versions("t") == list(made.versions)
        for version in made.versions:
            stored = counts_of(store.computed_state("t", version))
            # The store counts tombstones at a separate time, compared below.
            assert stored | {"num_tombstones": 0} == states[version].counts(EXPIRED) | {"num_tombstones": 0}
        for version in {made.versions[0], made.versions[-1]}:
            state = store.state("t", version, min_file_retention_timestamp=EXPIRED)
            assert comparable_rows(state) == comparable(states[version].actions(EXPIRED))
        DeltaLog.clear_cache()


@pytest.mark.spark
@settings(PROPERTY, max_examples=EXAMPLES * 2 // 3)
@given(made=random_logs())
def test_every_valid_checkpoint_gives_the_same_state(spark: SparkSession, made: RandomLog) -> None:
    states = replay(made.commits)
    last = made.versions[-1]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        write(table, made, states)
        log = DeltaLog.for_table(spark, table, clock=FixedClock(), options=IN_SPARK)
        builder = LogSegmentBuilder(store=log.context.table_log.store, log_path=log.path)
        names = {v: {f.name for f in builder.build(v).checkpoint_provider.files} for v in made.checkpoints}
        # Of a log that was cleaned up, older checkpoints lack the commits after them.
        starts = [version for version in (-1, *made.checkpoints) if version + 1 >= made.first_commit]
        for version in starts:
            others = frozenset(name for other, files in names.items() if other != version for name in files)
            segment = replace(builder, exclude_checkpoints=others).build(last)
            assert segment.checkpoint_provider.version == version
            snapshot = Snapshot.load(
                log.context, log.context.table_log.version_log(segment), min_file_retention_timestamp=EXPIRED
            )
            assert_agrees(snapshot, states[last])
        DeltaLog.clear_cache()


@pytest.mark.thorough
@PROPERTY
@given(made=random_logs())
def test_following_a_log_matches_a_cold_load(spark: SparkSession, made: RandomLog) -> None:
    states = replay(made.commits)
    clock = FixedClock(EXPIRED + 7 * 24 * 60 * 60 * 1000)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        log = DeltaLog.for_table(
            spark, table, clock=clock, options=SnapshotOptions(engine="spark", cached_counts_from=0)
        )
        assert log.update().version == -1
        for version, commit in enumerate(made.commits):
            write_log(table, {version: commit})
            if version in made.checkpoints:
                folder_of_log = table / file_names.LOG_FOLDER
                write_checkpoint(folder_of_log, version, made.checkpoints[version], states[version].actions(EXPIRED))
            snapshot = log.update()
            assert (snapshot.version, snapshot.timestamp) == (version, mtime_of(version))
            assert counts_of(snapshot.computed_state) == states[version].counts(EXPIRED)
        assert_agrees(snapshot, states[-1])
        DeltaLog.clear_cache()
