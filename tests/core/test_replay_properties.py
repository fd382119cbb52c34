"""Logs made at random: every way to replay one gives, at every version, what the oracle says."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltasnap_core import DeltaLog, SnapshotOptions, SnapshotStore
from deltasnap_core.log.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol import file_names
from deltasnap_core.snapshot.snapshot_loader import SnapshotLoader
from tests.builders import (
    FIRST_COMMIT_MS,
    Action,
    add,
    commit_info,
    content,
    metadata,
    mtime_of,
    protocol,
    remove,
    write_log,
)
from tests.checkpoint_files import STYLES, CheckpointStyle, write_checkpoint
from tests.conftest import FixedClock
from tests.golden import counts
from tests.oracle import OracleState, comparable, replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core import Snapshot

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("interpreted")]

# More with DELTASNAP_EXAMPLES=200, which then also differ from run to run.
EXAMPLES = int(os.environ.get("DELTASNAP_EXAMPLES", "6"))
PROPERTY = settings(
    max_examples=EXAMPLES,
    derandomize="DELTASNAP_EXAMPLES" not in os.environ,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

KEEP_ALL = 0
# Deletion times lie around it: the time up to which tombstones have expired.
EXPIRED = FIRST_COMMIT_MS + 3

PATHS = (
    "plain.parquet",
    "p=a%20b/x+y.parquet",
    "p=a%2520b/x.parquet",
    "s3://else/where/f.parquet",
    "line\u2028.parquet",
)
FILE_VECTOR = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40}
INLINE = "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"
VECTORS: tuple[dict[str, Any] | None, ...] = (
    None,
    {**FILE_VECTOR, "offset": 4, "cardinality": 6},
    {**FILE_VECTOR, "offset": 0, "cardinality": 7},
    {**FILE_VECTOR, "cardinality": 8},
    {"storageType": "i", "pathOrInlineDv": INLINE, "sizeInBytes": 9, "cardinality": 2},
)
NO_PART: tuple[Action, ...] = (
    commit_info("WRITE", operationParameters={"add": '{"add":1}'}),
    {"cdc": {"path": "_change_data/x", "partitionValues": {}, "size": 1, "dataChange": False}},
    {"checkpointMetadata": {"version": 3}},
    {"unheardOf": {"add": {"path": "not one"}}},
    {"remove": None, "add": None},
)


@dataclass(frozen=True)
class RandomLog:
    """What a log is made of.

    checkpoints: by version, how written. first_commit: older commits are gone. hint: content of `_last_checkpoint`.
    """

    commits: list[list[Action]]
    checkpoints: dict[int, CheckpointStyle]
    compactions: list[tuple[int, int]]
    first_commit: int
    hint: bytes | None

    @property
    def versions(self) -> range:
        return range(self.first_commit, len(self.commits))


def small(limit: int) -> st.SearchStrategy[int]:
    return st.integers(0, limit)


vectors = st.sampled_from(VECTORS)
adds = st.builds(
    lambda path, size, records, vector, value: add(
        path,
        size=size,
        partitionValues={"p": value},
        stats=None if records is None else json.dumps({"numRecords": records}),
        deletionVector=vector,
    ),
    st.sampled_from(PATHS),
    st.sampled_from((0, 9_000, 2**53 + 1)),
    st.none() | small(9),
    vectors,
    st.sampled_from((None, "", "a b")),
)
removes = st.builds(
    lambda path, deleted, vector: remove(path, deletion_timestamp=deleted, deletionVector=vector),
    st.sampled_from(PATHS),
    st.none() | st.integers(EXPIRED - 1, EXPIRED + 1),
    vectors,
)
others = st.one_of(
    st.builds(lambda app, version: {"txn": {"appId": app, "version": version}}, st.sampled_from("ab"), small(9)),
    st.builds(
        lambda name, value, removed: {"domainMetadata": {"domain": name, "configuration": value, "removed": removed}},
        st.sampled_from(("d", "delta.x")),
        st.sampled_from(("{}", '{"v":1}')),
        st.booleans(),
    ),
    st.builds(lambda table_id: metadata(table_id=table_id), st.sampled_from(("one", "two"))),
    st.just(protocol(3, 7, readerFeatures=["deletionVectors", "v2Checkpoint"], writerFeatures=["deletionVectors"])),
    st.sampled_from(NO_PART),
)


def identity(action: Action) -> tuple[str, ...]:
    """What a commit may hold once: the protocol lets no two actions of a kind speak of one thing."""
    ((kind, values),) = list(action.items())[:1]
    subject = values and (
        values.get("path"),
        str(values.get("deletionVector")),
        values.get("appId"),
        values.get("domain"),
    )
    return kind, str(subject)


commits = st.lists(adds | adds | removes | others, max_size=6, unique_by=identity)


@st.composite
def random_logs(draw: st.DrawFn) -> RandomLog:
    later = draw(st.lists(commits, min_size=1, max_size=5))
    versions = [[protocol(), metadata(), *draw(commits)], *later]
    last = len(versions) - 1
    checkpoints = draw(st.dictionaries(st.integers(0, last), st.sampled_from(STYLES), max_size=2))
    first_commit = draw(st.sampled_from([0, *checkpoints]))
    pairs = [(first, end) for first in range(last) for end in range(first + 1, last + 1)]
    hints = [None, b"", b"{}", b'{"version":9999,"size":1}'] + [b'{"version":%d,"size":1}' % v for v in checkpoints]
    return RandomLog(
        commits=versions,
        checkpoints=checkpoints,
        compactions=draw(st.lists(st.sampled_from(pairs), max_size=2, unique=True)),
        first_commit=first_commit,
        hint=draw(st.sampled_from(hints)),
    )


def write(table: Path, made: RandomLog, states: list[OracleState]) -> None:
    """Write a log; a checkpoint leaves out tombstones that have expired, as writers do."""
    log = write_log(table, dict(enumerate(made.commits)))
    for version, style in made.checkpoints.items():
        write_checkpoint(log, version, style, states[version].actions(EXPIRED))
    for first, end in made.compactions:
        state = replay([[action for commit in made.commits[first : end + 1] for action in commit]])[-1]
        (log / file_names.compaction_file(first, end)).write_bytes(content(state.actions(KEEP_ALL)))
    for version in range(made.first_commit):
        (log / file_names.commit_file(version)).unlink()
    if made.hint is not None:
        (log / file_names.LAST_CHECKPOINT).write_bytes(made.hint)


def rows(frame: Any) -> list[Action]:
    return [
        {name: values for name, values in row.items() if values is not None}
        for row in frame.toArrow().to_pylist(maps_as_pydicts="strict")
    ]


def assert_agrees(snapshot: Snapshot, state: OracleState) -> None:
    assert comparable(rows(snapshot.state)) == comparable(state.actions(EXPIRED))
    assert comparable([{"protocol": snapshot.protocol.to_json()}]) == comparable([{"protocol": state.protocol}])
    assert snapshot.transactions == {name: txn["version"] for name, txn in state.transactions.items()}


@PROPERTY
@given(made=random_logs())
def test_replay_range_pass_and_store_agree_with_the_oracle_at_every_version(
    spark: SparkSession, made: RandomLog
) -> None:
    states = replay(made.commits)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "a table")
        write(table, made, states)
        log = DeltaLog.for_table(spark, table, clock=FixedClock(), options=SnapshotOptions(cache_state=False))
        for version in made.versions:
            snapshot = log.get_snapshot_at(version, min_file_retention_timestamp=EXPIRED)
            assert_agrees(snapshot, states[version])
        assert counts(snapshot.computed_state) == states[-1].counts(EXPIRED)

        store = SnapshotStore.open(spark, Path(folder, "store"))
        store.write_range("t", log, made.versions[0], made.versions[-1])
        assert store.versions("t") == list(made.versions)
        for version in made.versions:
            stored = counts(store.computed_state("t", version))
            # The store counts tombstones by a time of its own, compared below.
            assert stored | {"num_tombstones": 0} == states[version].counts(EXPIRED) | {"num_tombstones": 0}
        for version in {made.versions[0], made.versions[-1]}:
            state = store.state("t", version, min_file_retention_timestamp=EXPIRED)
            assert comparable(rows(state)) == comparable(states[version].actions(EXPIRED))
        DeltaLog.clear_cache()


@PROPERTY
@given(made=random_logs())
def test_every_legal_checkpoint_gives_the_same_state(spark: SparkSession, made: RandomLog) -> None:
    states = replay(made.commits)
    last = made.versions[-1]
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        write(table, made, states)
        log = DeltaLog.for_table(spark, table, clock=FixedClock(), options=SnapshotOptions(cache_state=False))
        builder = LogSegmentBuilder(store=log.context.log.store, log_path=log.path)
        loader = SnapshotLoader(context=log.context, clock=FixedClock())
        names = {v: {f.name for f in builder.build(v).checkpoint_provider.files} for v in made.checkpoints}
        for version in [*made.checkpoints, *([-1] if made.first_commit == 0 else [])]:
            others = frozenset(name for other, files in names.items() if other != version for name in files)
            segment = builder.build(last, exclude_checkpoints=others)
            assert segment.checkpoint_provider.version == version
            assert_agrees(loader.load(segment, min_file_retention_timestamp=EXPIRED), states[last])
        DeltaLog.clear_cache()


@PROPERTY
@given(made=random_logs())
def test_following_a_log_gives_what_a_cold_load_gives(spark: SparkSession, made: RandomLog) -> None:
    states = replay(made.commits)
    clock = FixedClock(EXPIRED + 7 * 24 * 60 * 60 * 1000)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        log = DeltaLog.for_table(spark, table, clock=clock, options=SnapshotOptions(cached_counts_from=0))
        assert log.update().version == -1
        for version, commit in enumerate(made.commits):
            write_log(table, {version: commit})
            if version in made.checkpoints:
                folder_of_log = table / file_names.LOG_FOLDER
                write_checkpoint(folder_of_log, version, made.checkpoints[version], states[version].actions(EXPIRED))
            snapshot = log.update()
            assert (snapshot.version, snapshot.timestamp) == (version, mtime_of(version))
            assert counts(snapshot.computed_state) == states[version].counts(EXPIRED)
        assert_agrees(snapshot, states[-1])
        DeltaLog.clear_cache()
