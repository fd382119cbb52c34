"""The law of StateDelta, state(x) + delta(x, y) = state(y), in and across both engines, and when it is used."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from deltasnap_core import SnapshotState, TableLog
from deltasnap_core.log.commits import commit_batch
from deltasnap_core.log.commits.commit_batch import CommitBatch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.loaded_log import LoadedLog, load_log
from deltasnap_core.log.non_file_actions import NonFileActions, load_non_file_actions
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.replay.driver import state_deltas as driver
from deltasnap_core.replay.driver.reconciliation import newest_file_actions, with_path_keys
from deltasnap_core.replay.known_state import KnownFiles, KnownState
from deltasnap_core.replay.spark import state_deltas as spark_deltas
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.reading.file_action_layout import MEASURED
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.expiry import unexpired
from deltasnap_core.rules.totals.aggregates import groups_of
from tests.builders import LOG_PATH, Action, MemoryLogStore, add, metadata, protocol, remove
from tests.oracle import counts_of, replay
from tests.random_logs import EXPIRED, RandomLog, random_logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL, LATER = KEEP_ALL, Retention.after(EXPIRED)


def law(examples: int) -> settings:
    return settings(
        max_examples=int(os.environ.get("DELTASNAP_EXAMPLES", str(examples))),
        derandomize="DELTASNAP_EXAMPLES" not in os.environ,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
    )


class Log:
    """The commits of a log, from version 0 on."""

    def __init__(self, commits: list[list[Action]]) -> None:
        self.store = MemoryLogStore()
        files = [self.store.put_commit(version, *commit) for version, commit in enumerate(commits)]
        self.batch = read_commits(self.store, files)
        self.last = len(commits) - 1
        self.rows, self.state = cache(self._rows), cache(self._state)

    def non_file(self, version: int) -> NonFileActions:
        return load_non_file_actions(self.store, None, self.batch.up_to(version))

    def measured(self, batch: CommitBatch) -> pa.Table:
        return with_path_keys(batch.measures, LOG_PATH)

    def _rows(self, version: int) -> pa.Table:
        """The reconciled files of a version."""
        return newest_file_actions(self.measured(self.batch.up_to(version))).drop_columns(
            ["commit_version", "line_number"]
        )

    def _state(self, version: int, retention: Retention) -> SnapshotState:
        groups = groups_of(unexpired(self.rows(version), retention))
        return driver.counted(groups, self.non_file(version)).applied_to(None)

    def delta(self, files_of: int, first: int, last: int, before: Retention, after: Retention) -> StateDelta:
        """The changes of the versions (first, last] by the driver, from the files of an earlier version."""
        since = self.batch.after(files_of).up_to(last)
        earlier, newer = (self.measured(each) for each in (since.up_to(first), since.after(first)))
        begun, ended = driver.totals_between(self.rows(files_of), earlier, newer, before, after)
        return StateDelta(begun=begun, ended=ended, non_file=self.non_file(last))


@pytest.mark.slow
@law(10)
@given(made=random_logs())
def test_driver_state_plus_delta_is_the_later_state(made: RandomLog) -> None:
    log, oracle = Log(made.commits), replay(made.commits)
    for first in range(log.last):
        for before, after in ((ALL, ALL), (ALL, LATER), (LATER, LATER)):
            delta = log.delta(0, first, log.last, before, after)
            found = delta.applied_to(log.state(first, before))
            assert found == log.state(log.last, after)
            assert counts_of(found) == oracle[-1].counts(EXPIRED if after is LATER else 0)


@pytest.mark.slow
@law(10)
@given(made=random_logs())
def test_two_deltas_add_up_to_the_combined_delta(made: RandomLog) -> None:
    log = Log(made.commits)
    for middle in range(log.last + 1):
        one, two = log.delta(0, 0, middle, ALL, ALL), log.delta(0, middle, log.last, ALL, LATER)
        start = log.state(0, ALL)
        assert (one + two).applied_to(start) == two.applied_to(one.applied_to(start))
        assert (one + two).applied_to(start) == log.state(log.last, LATER)


@pytest.mark.slow
@law(10)
@given(made=random_logs())
def test_deltas_of_a_range_equal_the_deltas_of_its_versions(made: RandomLog) -> None:
    log = Log(made.commits)
    versions = range(1, log.last + 1)
    retentions = {0: ALL, **dict.fromkeys(versions, LATER)}
    states = {version: log.non_file(version) for version in versions}
    if not states:
        return
    deltas = driver.deltas_of_range(log.rows(0), log.measured(log.batch.after(0)), states, retentions)
    state = log.state(0, ALL)
    for version in versions:
        state = deltas[version].applied_to(state)
        assert state == log.state(version, LATER)
    assert sum((deltas[v] for v in versions[1:]), deltas[1]).applied_to(log.state(0, ALL)) == state


def test_rows_of_a_file_that_a_checkpoint_has_twice_end_together() -> None:
    log = Log([[add("a", size=5), add("b")], [add("c")], [remove("a")]])
    files = pa.concat_tables([log.rows(0)] * 2)
    deltas = driver.deltas_of_range(
        files, log.measured(log.batch.after(0)), {1: log.non_file(1), 2: log.non_file(2)}, dict.fromkeys(range(3), ALL)
    )
    assert [deltas[version].ended["num_of_files"] for version in (1, 2)] == [0, -2]


@pytest.mark.usefixtures("compiled")
@law(4)
@given(made=random_logs())
def test_spark_deltas_match_the_driver(spark: SparkSession, made: RandomLog) -> None:
    from deltasnap_core.replay.spark.session.spark_files import SparkFiles
    from deltasnap_core.rules.texts.statistics_schema import StatsPolicy

    log = Log(made.commits)
    files = SparkFiles(None, lambda _: True)
    reader = ActionReader(spark=spark, files=files, log_path=LOG_PATH, stats=StatsPolicy.NUM_RECORDS)

    def reconciled(version: int) -> DataFrame | None:
        return MEASURED.reconcile(None, reader.commit_measures(log.batch.up_to(version)), broadcast=True)

    middle = log.last // 2
    counted = spark_deltas.counted(reconciled(middle), log.non_file(middle), ALL)
    assert counted.applied_to(None) == log.state(middle, ALL)
    earlier, newer = (
        reader.commit_measures(each) for each in (log.batch.after(0).up_to(middle), log.batch.after(middle))
    )
    begun, ended = spark_deltas.totals_between(reconciled(0), earlier, newer, ALL, LATER)
    change = StateDelta(begun=begun, ended=ended, non_file=log.non_file(log.last))
    # Across the engines: the driver's state, Spark's change.
    assert change.applied_to(log.state(middle, ALL)) == log.state(log.last, LATER)
    assert change.applied_to(log.state(middle, ALL)) == log.delta(0, middle, log.last, ALL, LATER).applied_to(
        log.state(middle, ALL)
    )


def test_file_actions_too_many_to_hold_are_read_again_by_spark(spark: SparkSession) -> None:
    from deltasnap_core.replay.spark.session.spark_files import SparkFiles
    from deltasnap_core.rules.texts.statistics_schema import StatsPolicy

    batch = Log([[add("a", size=5), add("b")], [remove("a"), add("c%20d", size=7)]]).batch
    files = SparkFiles(None, lambda _: True)
    reader = ActionReader(spark=spark, files=files, log_path=LOG_PATH, stats=StatsPolicy.NUM_RECORDS)
    held, read = (reader.commit_measures(each) for each in (batch, replace(batch, large_measures=None)))
    assert held is not None
    assert read is not None
    assert sorted(read.select(held.columns).collect(), key=str) == sorted(held.collect(), key=str)
    assert held.count() == 4
    keys = reader.commit_keys(batch)
    assert keys is not None
    assert sorted(row.path_key for row in keys.collect()) == ["a", "a", "b", "c d"]


@pytest.fixture
def store() -> MemoryLogStore:
    store = MemoryLogStore()
    store.put_commit(0, protocol(), metadata())
    for version in (1, 2, 3):
        store.put_commit(version, add(f"f{version}"))
    return store


def load(store: MemoryLogStore, version: int, known: LoadedLog | None = None) -> LoadedLog:
    log = TableLog(store, LOG_PATH)
    return load_log(log.builder, log.builder.build(version), known)


def known_of(log: LoadedLog, retention: Retention) -> KnownState:
    files = cast(KnownFiles, SimpleNamespace(version=log.version))
    return KnownState(log=log, state=cast(Any, None), retention=retention, files=files, computed_by="driver")


def test_state_advances_to_a_later_version_of_the_same_log(store: MemoryLogStore) -> None:
    known = known_of(first := load(store, 1), Retention.after(100))
    for retention in (Retention.after(100), Retention.after(200)):
        assert known.can_advance_to(load(store, 3, first), retention)


def test_state_advances_neither_to_its_own_version_nor_to_an_earlier_one(store: MemoryLogStore) -> None:
    known = known_of(load(store, 2), KEEP_ALL)
    assert [known.can_advance_to(load(store, version), KEEP_ALL) for version in (1, 2)] == [False, False]


@pytest.mark.parametrize("retention", [KEEP_ALL, Retention.after(99)], ids=repr)
def test_state_does_not_advance_if_expired_tombstones_come_back(store: MemoryLogStore, retention: Retention) -> None:
    known = known_of(first := load(store, 1), Retention.after(100))
    assert not known.can_advance_to(load(store, 2, first), retention)


def test_state_does_not_advance_to_a_log_with_other_commits(store: MemoryLogStore) -> None:
    known = known_of(load(store, 1), KEEP_ALL)
    store.put_commit(1, add("another"))
    assert not known.can_advance_to(load(store, 2), KEEP_ALL)


def test_large_changes_are_not_added_but_counted_again(store: MemoryLogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    known = known_of(first := load(store, 1), KEEP_ALL)
    later = load(store, 2, first)
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 1)
    assert not known.can_advance_to(later, KEEP_ALL)


def test_changes_since_the_version_of_the_files_count(store: MemoryLogStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_commit(1, *(add(f"f{number}") for number in range(100)))
    known = known_of(first := load(store, 1), KEEP_ALL)
    later = load(store, 2, first)
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 1_000)
    assert known.can_advance_to(later, KEEP_ALL)
    counted_before = cast(KnownFiles, SimpleNamespace(version=0))
    assert not replace(known, files=counted_before).can_advance_to(later, KEEP_ALL)
