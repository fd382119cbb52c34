"""The tombstones that expire at a stored version depend only on its commit, not on how it was stored."""

from __future__ import annotations

import os
import shutil
import tempfile
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from pyspark.sql import DataFrame, SparkSession

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.store.format.change_sets import ChangePolicy
from tests.builders import Action, add, metadata, mtime_of, protocol, remove, timed_protocol, write_log
from tests.core.scan.scan_builders import found_by
from tests.core.store.tables import as_rows
from tests.driver_bases import use_driver_bases
from tests.oracle import OracleState, comparable, comparable_rows, replay

RETENTION_MS = 2 * 60_000
"""Two versions: they are a minute apart."""
CONFIGURATION = {"delta.deletedFileRetentionDuration": "interval 2 minutes"}
COMMITS: list[list[Action]] = [
    [protocol(), metadata(configuration=CONFIGURATION), add("a"), add("b", size=7), add("c d")],
    [remove("a", deletion_timestamp=mtime_of(1)), {"txn": {"appId": "app", "version": 1, "lastUpdated": mtime_of(1)}}],
    [remove("b", deletion_timestamp=None), add("e")],
    [remove("c d", deletion_timestamp=mtime_of(3)), remove("never added", deletion_timestamp=mtime_of(1))],
    [{"commitInfo": {"operation": "NOTHING"}}],
    [add("a", size=3), remove("e", deletion_timestamp=mtime_of(5))],
    [metadata(table_id="another", configuration=CONFIGURATION)],
    [{"txn": {"appId": "app", "version": 0, "lastUpdated": mtime_of(7)}}, remove("a", deletion_timestamp=mtime_of(6))],
]
LATEST = len(COMMITS) - 1


def expired_at(version: int) -> int:
    return mtime_of(version) - RETENTION_MS


@pytest.fixture(scope="module")
def log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DeltaLog:
    table = tmp_path_factory.mktemp("tables") / "events"
    write_log(table, dict(enumerate(COMMITS)))
    return DeltaLog.for_table(spark, table)


@pytest.fixture(scope="module")
def states() -> list[OracleState]:
    return replay(COMMITS)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("ranges", "policy"),
    [
        ([(0, LATEST)], ChangePolicy()),
        ([(version, version) for version in range(LATEST + 1)], ChangePolicy(base_fraction=9, least_rows=99, fan_in=3)),
        ([(0, 2), (3, 4), (5, LATEST)], ChangePolicy(base_fraction=0.1, least_rows=1, fan_in=2)),
        ([(4, LATEST), (0, 3)], ChangePolicy()),
    ],
    ids=["one range", "one by one", "a base each time", "backwards"],
)
def test_tombstones_expire_by_the_time_of_the_commit(
    spark: SparkSession,
    tmp_path: Path,
    log: DeltaLog,
    states: list[OracleState],
    ranges: list[tuple[int, int]],
    policy: ChangePolicy,
) -> None:
    store = SnapshotStore.open(spark, tmp_path, policy=policy)
    for first, last in ranges:
        store.write_range("events", log, first, last)
    assert store.versions("events") == list(range(LATEST + 1))
    for version, state in enumerate(states):
        expected = state.actions(expired_at(version))
        assert comparable_rows(store.state("events", version)) == comparable(expected)
        computed = store.computed_state("events", version)
        assert computed.num_of_removes == sum("remove" in action for action in expected)
        assert computed.num_of_files == len(state.files)
        assert store.manifest("events", version).min_file_retention_timestamp == expired_at(version)
        assert store.manifest("events", version).timestamp == mtime_of(version)


def test_plain_tables_contain_only_unexpired_rows_of_each_version(
    spark: SparkSession, tmp_path: Path, log: DeltaLog, states: list[OracleState]
) -> None:
    store = SnapshotStore.open(spark, tmp_path)
    manifests = store.write_range("events", log, 0, LATEST, materialize_as="table")
    assert [manifest.version for manifest in manifests if manifest.plain_parquet is not None] == [*range(LATEST + 1)]
    frames = {f"removes of {version}": store.tombstones("events", version) for version in (1, 3, 5, LATEST)}
    frames |= {f"files of {version}": store.all_files("events", version) for version in (0, 4, LATEST)}
    frames["all removes of 1"] = store.tombstones("events", 1, min_file_retention_timestamp=0)
    found = found_by({name: frame.select("path") for name, frame in frames.items()})
    assert found.pop("all removes of 1") == [("a",)]
    for name, paths in found.items():
        version, kind = int(name.rpartition(" ")[2]), "remove" if name.startswith("removes") else "add"
        actions = states[version].actions(expired_at(version))
        assert paths == sorted((action[kind]["path"],) for action in actions if kind in action), name


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds", [[0, 3, 5, LATEST + 1], [2, 3, 4, 5, 6, 7, LATEST + 1]], ids=["ranges", "one by one"]
)
def test_versions_of_applied_commits_count_the_unexpired_tombstones_of_earlier_ones(
    tmp_path: Path, store: SnapshotStore, states: list[OracleState], bounds: list[int]
) -> None:
    write_log(tmp_path / "events", dict(enumerate(COMMITS)))
    log = DeltaLog.for_table(None, tmp_path / "events")
    for first, end in pairwise(bounds):
        store.write_range("events", log, first, end - 1)
    for version in range(bounds[0], LATEST + 1):
        removes = [action for action in states[version].actions(expired_at(version)) if "remove" in action]
        computed = store.computed_state("events", version)
        assert (computed.num_of_files, computed.num_of_removes) == (len(states[version].files), len(removes))


PATHS = st.sampled_from("abc")


@pytest.mark.slow
@settings(max_examples=8, derandomize=True, deadline=None)
@given(st.lists(st.lists(st.tuples(PATHS, st.booleans()), max_size=2, unique_by=itemgetter(0)), min_size=4, max_size=7))
def test_versions_of_applied_commits_count_what_a_replay_counts(history: list[list[tuple[str, bool]]]) -> None:
    commits: list[list[Action]] = [
        [add(path) if is_add else remove(path, deletion_timestamp=mtime_of(version)) for path, is_add in actions]
        for version, actions in enumerate(history)
    ]
    commits[0] = [protocol(), metadata(configuration=CONFIGURATION), *commits[0]]
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        use_driver_bases(patch)
        write_log(Path(folder, "events"), dict(enumerate(commits)))
        log = DeltaLog.for_table(None, Path(folder, "events"))
        keeps_changes = ChangePolicy(base_fraction=9, least_rows=99, fan_in=3)
        store = SnapshotStore.open(None, Path(folder, "store"), policy=keeps_changes)
        for version, state in enumerate(replay(commits)):
            store.write_range("events", log, version, version)
            removes = [action for action in state.actions(expired_at(version)) if "remove" in action]
            computed = store.computed_state("events", version)
            assert (computed.num_of_files, computed.num_of_removes) == (len(state.files), len(removes))


def test_id_that_changes_within_a_log_starts_no_generation(tmp_path: Path, store: SnapshotStore) -> None:
    write_log(tmp_path / "events", dict(enumerate(COMMITS)))
    log = DeltaLog.for_table(None, tmp_path / "events")
    store.write_range("events", log, 4, 5)
    store.write_range("events", log, 6, 7)
    store.write_range("events", log, 3, 3)
    assert store.versions("events") == [3, 4, 5, 6, 7]
    assert [store.manifest("events", version).table_id for version in (5, 6)] == ["table-id", "another"]


def test_transactions_expire_by_the_time_of_the_commit(tmp_path: Path, store: SnapshotStore) -> None:
    configuration = {"delta.setTransactionRetentionDuration": "interval 2 minutes"}
    commits: list[list[Action]] = [
        [protocol(), metadata(configuration=configuration), {"txn": {"appId": "timeless", "version": 1}}],
        [{"txn": {"appId": "app", "version": 5, "lastUpdated": mtime_of(1)}}],
        [],
        [add("a")],
    ]
    write_log(tmp_path / "events", dict(enumerate(commits)))
    log = DeltaLog.for_table(None, tmp_path / "events")
    store.write_range("events", log, 0, 2)
    store.write_range("events", log, 3, 3)
    found = [[txn.app_id for txn in store.computed_state("events", v).set_transactions] for v in range(4)]
    assert found == [[], ["app"], ["app"], []]
    states = [store.read_arrow("events", version, "state", ["txn"])["txn"].to_pylist() for version in range(4)]
    assert [[txn["appId"] for txn in state if txn] for state in states] == found


RANGES = [[(0, 4)], [(0, 0), (1, 4)], [(0, 1), (2, 2), (3, 4)], [(v, v) for v in range(5)]]


@pytest.mark.parametrize("ranges", RANGES, ids=str)
def test_expired_transaction_stays_away_however_the_versions_were_divided_into_ranges(
    tmp_path: Path, store: SnapshotStore, ranges: list[tuple[int, int]]
) -> None:
    def kept_for(minutes: int | None) -> Action:
        properties = {} if minutes is None else {"delta.setTransactionRetentionDuration": f"interval {minutes} minutes"}
        return metadata(configuration=properties)

    def transaction(name: str) -> Action:
        return {"txn": {"appId": name, "version": 1, "lastUpdated": mtime_of(0)}}

    commits: list[list[Action]] = [
        [protocol(), kept_for(None), transaction("once"), transaction("again")],
        [],
        [kept_for(1)],
        [kept_for(None), transaction("again")],
        [kept_for(60)],
    ]
    write_log(tmp_path / "events", dict(enumerate(commits)))
    log = DeltaLog.for_table(None, tmp_path / "events")
    for first, last in ranges:
        store.write_range("events", log, first, last)
    found = [sorted(txn.app_id for txn in store.computed_state("events", v).set_transactions) for v in range(5)]
    assert found == [["again", "once"], ["again", "once"], [], ["again"], ["again"]]


@pytest.mark.parametrize("ranges", [[(0, 3)], [(0, 1), (2, 3)], [(2, 3)]], ids=str)
def test_nothing_expires_before_its_time_because_of_a_commit_dated_in_the_future(
    tmp_path: Path, store: SnapshotStore, ranges: list[tuple[int, int]]
) -> None:
    configuration = {
        "delta.enableInCommitTimestamps": "true",
        "delta.setTransactionRetentionDuration": "interval 1 hour",
    }
    now = mtime_of(3)
    transaction = {"txn": {"appId": "app", "version": 1, "lastUpdated": now - 60_000}}
    commits: list[list[Action]] = [
        [{"commitInfo": {"inCommitTimestamp": 5}}, timed_protocol(), metadata(configuration=configuration), add("a")],
        [{"commitInfo": {"inCommitTimestamp": 6}}, remove("a", deletion_timestamp=now - 60_000), transaction],
        [{"commitInfo": {"inCommitTimestamp": now * 2}}],
        [{"commitInfo": {"inCommitTimestamp": now * 2 + 1}}, add("b")],
    ]
    write_log(tmp_path / "events", dict(enumerate(commits)))
    log = DeltaLog.for_table(None, tmp_path / "events", clock=lambda: now)
    for first, last in ranges:
        store.write_range("events", log, first, last)
    for version in (2, 3):
        state = store.computed_state("events", version)
        assert (state.num_of_removes, [txn.app_id for txn in state.set_transactions]) == (1, ["app"])
        assert store.manifest("events", version).timestamp >= now * 2


def test_in_commit_timestamps_apply_from_the_enabling_version(spark: SparkSession, tmp_path: Path) -> None:
    enabled = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "1",
        "delta.inCommitTimestampEnablementTimestamp": "5",
    }
    commits: list[list[Action]] = [
        [protocol(), metadata()],
        [{"commitInfo": {"inCommitTimestamp": 5}}, timed_protocol(), metadata(configuration=enabled)],
        [{"commitInfo": {"inCommitTimestamp": 6}}, add("a")],
    ]
    write_log(tmp_path / "events", dict(enumerate(commits)))
    store, log = SnapshotStore.open(spark, tmp_path / "store"), DeltaLog.for_table(spark, tmp_path / "events")
    manifests = store.write_range("events", log, 0, 2)
    assert [manifest.timestamp for manifest in manifests] == [mtime_of(0), 5, 6]
    assert [manifest.timestamp for manifest in manifests] == [
        log.get_snapshot_at(version=v).timestamp for v in range(3)
    ]
    expected = {commit.version: commit.timestamp for commit in log.history.get_history()}
    assert expected == {0: mtime_of(0), 1: 5, 2: 6}
    assert shown_times(store.tables("events").versions) == expected
    shutil.rmtree(tmp_path / "events")
    assert shown_times(store.tables("events").history) == expected


def shown_times(frame: DataFrame) -> dict[int, int]:
    return {row.version: round(row.timestamp.timestamp() * 1000) for row in frame.collect()}


def test_version_without_files_is_stored(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "events", {0: [protocol(), metadata()], 1: [], 2: [metadata(name="named")]})
    store, log = SnapshotStore.open(spark, tmp_path / "store"), DeltaLog.for_table(spark, tmp_path / "events")
    store.write_range("events", log, 0, 1)
    store.write_range("events", log, 2, 2, materialize_as="table")
    for version in range(3):
        assert store.all_files("events", version).collect() == store.tombstones("events", version).collect() == []
        assert store.all_files("events", version).columns[:3] == ["path", "partitionValues", "size"]
        expected = log.get_snapshot_at(version=version)
        assert as_rows(store.state("events", version)) == as_rows(expected.state)
        assert store.computed_state("events", version) == expected.computed_state


def test_plain_tables_without_file_actions_have_the_earlier_files(spark: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path / "events", {0: [protocol(), metadata(), add("a")], 1: [metadata(name="named")], 2: []})
    store, log = SnapshotStore.open(spark, tmp_path / "store"), DeltaLog.for_table(spark, tmp_path / "events")
    store.write_range("events", log, 0, 2, materialize_as="table")
    found = found_by({str(version): store.all_files("events", version).select("path") for version in range(3)})
    assert found == {str(version): [("a",)] for version in range(3)}


def test_times_of_copied_commits_increase_in_the_store_as_in_the_history(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_log(tmp_path / "events", {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")], 3: [add("c")]})
    start = mtime_of(0)
    for version, ms in enumerate([start, start, start - 5000, start + 1]):
        os.utime(folder / commit_file(version), (ms / 1000, ms / 1000))
    log = DeltaLog.for_table(spark, tmp_path / "events")
    expected = {version: start + version for version in range(4)}
    assert log.history.commit_timestamps() == expected
    store = SnapshotStore.open(spark, tmp_path / "store")
    store.write_range("events", log, 0, 3)
    shutil.rmtree(folder)
    tables = store.tables("events", 3)
    for frame in (tables.history, tables.versions):
        rows = frame.selectExpr("version", "unix_millis(timestamp) as ms").collect()
        assert {row.version: row.ms for row in rows} == expected
