"""Repairs of random logs with damaged commits. Plain Python decides which version gets the checkpoint."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import count as count_up
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from deltasnap_core import DeltaLog, SnapshotStore, TableLog
from deltasnap_core.errors import RepairRefusedError, SparkRequiredError
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT, commit_file
from tests.fuzz.damaged_logs import KINDS, break_commit
from tests.fuzz.made_tables import EXPIRED, MadeTable, make_table
from tests.oracle import counts_of
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def made(folder: Path, rng: Random, store: SnapshotStore, spark: SparkSession | None = None) -> MadeTable:
    """Make a table with a latest commit, and store all its versions."""
    while True:
        folder /= "t"
        table = make_table(folder, rng)
        latest = len(table.commits) - 1
        with suppress(SparkRequiredError):  # a base from a checkpoint in JSON
            if (table.log / commit_file(latest)).exists():
                opened = (
                    log_without_spark(TableLog.for_path(folder)) if spark is None else DeltaLog.for_table(spark, folder)
                )
                store.write_range("t", opened, table.first, latest)
                return table


def damage(table: MadeTable, rng: Random) -> int:
    """Damage some commits. Return the first version from which on all are whole."""
    existing = [v for v in range(len(table.commits)) if (table.log / commit_file(v)).exists()]
    for version in rng.sample(existing, k=min(rng.choice((1, 1, 2)), len(existing))):
        break_commit(table.log / commit_file(version), rng.choice(KINDS), table.commits[version], rng)
        existing.remove(version)
    whole = len(table.commits)
    while whole - 1 in existing:
        whole -= 1
    return whole


def expected(table: MadeTable, whole: int) -> int | None:
    """Return the version that gets a checkpoint; None: every reader can load the versions from `whole` on."""
    if whole == 0 or any(whole - 1 <= each <= min(whole, len(table.commits) - 1) for each in table.checkpoints):
        return None
    return whole


@pytest.mark.parametrize("seed", range(40))
def test_plan_follows_from_the_damage(seed: int, store: SnapshotStore, tmp_path: Path) -> None:
    rng = Random(seed)
    table = made(tmp_path / "table", rng, store)
    whole = damage(table, rng)
    right = expected(table, whole)
    log = log_without_spark(TableLog.for_path(table.folder))
    if right == len(table.commits):
        with pytest.raises(RepairRefusedError):
            store.repair("t", log)
    else:
        assert store.repair("t", log).version == right


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(40, 48))
def test_repaired_log_has_the_counts_of_the_oracle(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    rng = Random(seed)
    for attempt in count_up():
        store = SnapshotStore.open(spark, tmp_path / f"store{attempt}")
        table = made(tmp_path / f"table{attempt}", rng, store, spark)
        whole = damage(table, rng)
        if expected(table, whole) == whole < len(table.commits):
            break  # otherwise there is nothing to repair, or it is refused
    store.repair("t", DeltaLog.for_table(spark, table.folder), write=True)
    assert json.loads((table.log / LAST_CHECKPOINT).read_text())["version"] >= whole
    (table.log / LAST_CHECKPOINT).unlink()
    DeltaLog.clear_cache()
    log = log_without_spark(TableLog.for_path(table.folder))
    for version in range(whole, len(table.commits)):
        snapshot = log.get_snapshot_at(version, min_file_retention_timestamp=EXPIRED)
        found, right = counts_of(snapshot.computed_state), table.states[version].counts(EXPIRED)
        for counts in (found, right):
            counts.pop("num_tombstones")  # the store drops those that had expired at the time of the commit
        assert found == right
