"""The replay's rules, each on a log of a few lines, in Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.log.checkpoints.checkpoint_contents import open_checkpoint
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.non_file_actions import NonFileActions, load_non_file_actions, non_file_actions_by_version
from deltasnap_core.protocol.log_files.file_names import CheckpointKind
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention, monotonic_retentions
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.replay.driver import state_deltas as driver_deltas
from deltasnap_core.replay.driver.reconciliation import newest_file_actions, with_path_keys
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.reading.file_action_layout import FULL, MEASURED, FileActionLayout, measured
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.replay.spark.state_deltas import changes_of_versions, counted, deltas_of_range
from deltasnap_core.replay.spark.state_reconstruction import live_files, state_actions, unexpired_tombstones
from deltasnap_core.replay.state_delta import StateDelta
from tests.builders import (
    FIRST_COMMIT_MS,
    LOG_PATH,
    UUIDS,
    Action,
    MemoryLogStore,
    add,
    content,
    metadata,
    protocol,
    remove,
)
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("compiled")

VECTOR = {"storageType": "u", "pathOrInlineDv": "abc", "sizeInBytes": 10, "cardinality": 3}


class Replay:
    """A log of commits (a list of actions each), perhaps after a checkpoint, and its replay."""

    def __init__(self, spark: SparkSession, *commits: list[Action], base: list[Action] | None = None) -> None:
        self.spark, self.store = spark, MemoryLogStore()
        self.reader = ActionReader(spark=spark, files=SparkFiles(None, lambda _: True), log_path=LOG_PATH)
        self.contents, first = None, 0
        if base is not None:
            file = self.store.put(
                f"{9:020d}.checkpoint.{UUIDS[0]}.json", content([{"checkpointMetadata": {"version": 9}}, *base])
            )
            provider = CheckpointProvider(version=9, files=(file,), kind=CheckpointKind.UUID, format="json")
            self.contents, first = open_checkpoint(self.store, provider, LOG_PATH), 10
        files = [self.store.put_commit(version, *actions) for version, actions in enumerate(commits, start=first)]
        self.batch = read_commits(self.store, files)

    @property
    def non_file(self) -> NonFileActions:
        return load_non_file_actions(self.store, self.contents, self.batch)

    @property
    def files(self) -> DataFrame:
        base = None if self.contents is None else self.reader.checkpoint_actions(self.contents)
        commits = self.reader.commit_actions(self.batch)
        files = FULL.reconcile(base, commits, broadcast=True, changed=self.reader.commit_keys(self.batch))
        assert files is not None
        return files

    def live(self) -> dict[str, Any]:
        return {row.path: row for row in live_files(self.files).collect()}

    def tombstones(self, retention: int = 0) -> set[str]:
        return {row.path for row in unexpired_tombstones(self.files, Retention.after(retention)).collect()}

    def computed(self, retention: int = 0) -> SnapshotState:
        return counted(measured(self.files), self.non_file, Retention.after(retention)).applied_to(None)


@pytest.mark.slow
def test_newest_action_of_a_logical_file_counts(spark: SparkSession) -> None:
    """In one commit, the add counts. The same path with another deletion vector is another logical file."""
    at_0 = {**VECTOR, "offset": 0}  # not the same as no offset
    replay = Replay(
        spark,
        [
            add("removed"),
            add("again", size=1),
            add("one commit"),
            remove("one commit"),
            add("v"),
            add("w", deletionVector=at_0),
        ],
        [remove("removed"), remove("again"), remove("another"), add("another"), remove("w", deletionVector=VECTOR)],
        [add("again", size=7, stats='{"numRecords":5}'), remove("v"), add("v", deletionVector=VECTOR)],
    )

    live = replay.live()
    assert set(live) == {"again", "one commit", "another", "v", "w"}
    assert (live["again"].size, live["v"].deletionVector.cardinality) == (7, VECTOR["cardinality"])
    assert live["w"].deletionVector.offset == 0
    assert replay.tombstones() == {"removed", "v", "w"}


def test_filesystem_name_may_need_quoting_in_sql(spark: SparkSession) -> None:
    replay = Replay(spark, [add("/x")])
    replay.reader = replace(replay.reader, log_path="s3://it's\\nice/t/_delta_log")

    assert set(replay.live()) == {"s3://it's\\nice/x"}


@pytest.mark.slow
def test_commits_replace_files_of_the_checkpoint_and_keep_the_rest(spark: SparkSession) -> None:
    base = [protocol(), metadata(), add("a"), add("b"), add("v", deletionVector=VECTOR), remove("old")]
    replay = Replay(spark, [remove("a"), add("old"), remove("v", deletionVector=VECTOR)], base=base)

    assert (set(replay.live()), replay.tombstones()) == ({"b", "old"}, {"a", "v"})


@pytest.mark.spark
@pytest.mark.parametrize("layout", one_in(2, [MEASURED, FULL]), ids=["digest", "full"])
def test_actions_too_many_to_broadcast_are_shuffled_into_the_configured_number_of_partitions(
    spark: SparkSession, layout: FileActionLayout
) -> None:
    replay = Replay(spark, [remove("a"), add("c")], base=[protocol(), metadata(), add("a"), add("b")])
    assert replay.contents is not None
    base, commits = replay.reader.checkpoint_actions(replay.contents), replay.reader.commit_actions(replay.batch)
    assert base is not None
    assert commits is not None
    if layout is MEASURED:
        base, commits = measured(base), measured(commits, "commit_version", "line_number")

    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        files = layout.reconcile(base, commits, broadcast=False, partitions=3)
        assert files is not None
        assert files.where(layout.is_add).count() == 2
        jvm: Any = files.sparkSession.sparkContext._jvm
        plan = jvm.PythonSQLUtils.explainString(files._jdf.queryExecution(), "simple")
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
    assert plan.count(", 3)") == plan.count("Exchange ") >= 2


def test_state_has_one_action_per_row(spark: SparkSession) -> None:
    replay = Replay(spark, [protocol(), metadata(), add("a"), remove("b"), {"txn": {"appId": "x", "version": 1}}])

    rows = state_actions(spark, replay.files, replay.non_file, KEEP_ALL).collect()

    set_columns = sorted(name for row in rows for name, value in row.asDict().items() if value is not None)
    assert set_columns == ["add", "metaData", "protocol", "remove", "txn"]


@pytest.mark.slow
def test_computed_state_counts_files_bytes_records_and_deletion_vectors(spark: SparkSession) -> None:
    vector = {**VECTOR, "cardinality": 12}
    state = Replay(
        spark,
        [protocol(), metadata(), add("a", size=10_000, stats='{"numRecords":5}')],
        [add("b", size=9 << 20, stats='{"nullCount":{},"numRecords":70}', deletionVector=vector), remove("c")],
    ).computed()

    assert (state.num_of_files, state.size_in_bytes, state.num_of_removes) == (2, 10_000 + (9 << 20), 1)
    assert (state.num_records, state.num_deletion_vectors, state.num_deleted_records) == (75, 1, 12)
    histogram = state.file_size_histogram
    counted = [start for start, n in zip(histogram.sorted_bin_boundaries, histogram.file_counts, strict=True) if n]
    assert counted == [8 << 10, 8 << 20]
    assert state.deleted_record_counts_histogram.deleted_record_counts[:4] == (1, 0, 1, 0)


@pytest.mark.slow
def test_the_number_of_records_is_unknown_if_one_file_has_no_count(spark: SparkSession) -> None:
    replay = Replay(spark, [add("a", stats='{"numRecords":5}'), add("b"), add("c", stats='{"minValues":{}}')])

    state = replay.computed()

    assert (state.num_records, state.num_known_records, state.num_files_without_records) == (None, 5, 2)


HISTORY: list[list[Action]] = [
    [protocol(), metadata(), add("a", size=1, stats='{"numRecords":1}'), add("b", size=2)],
    [remove("a"), add("c", size=4, stats='{"numRecords":3}')],
    [add("b", size=2, stats='{"numRecords":2}')],
    [{"txn": {"appId": "x", "version": 1}}],
    [add("a", size=8), remove("c"), remove("never-there")],
    [remove("a"), remove("b"), add("b", size=2, deletionVector=VECTOR)],
    [remove("b", deletionVector=VECTOR), add("d", size=16)],
]


def ranged(
    spark: SparkSession, first: int, last: int, retention: dict[int, int]
) -> list[tuple[StateDelta, SnapshotState]]:
    """Return the versions first to last, each with its change, from a base that is the replay of the earlier ones."""
    base, rest = Replay(spark, *HISTORY[:first]), Replay(spark, *HISTORY[: last + 1])
    start = retention.get(first - 1, 0)
    after = rest.batch.after(first - 1)
    commits = rest.reader.commit_actions(after)
    non_file, states = base.non_file if first else NonFileActions(), {}
    by_version = non_file_actions_by_version(after)
    for version in range(first, last + 1):
        non_file = states[version] = non_file.advanced(by_version.get(version, ()))
    state = base.computed(start) if first else counted(None, NonFileActions(), KEEP_ALL).applied_to(None)
    retentions = {version: Retention.after(retention.get(version, 0)) for version in range(first - 1, last + 1)}
    changes = None if commits is None else changes_of_versions(commits)
    in_force = monotonic_retentions(retentions)
    on_spark = deltas_of_range(base.files if first else None, changes, states, in_force, broadcast=True)
    files, actions = (with_path_keys(each.measures, LOG_PATH) for each in (rest.batch.up_to(first - 1), after))
    held = newest_file_actions(files).drop_columns(["commit_version", "line_number"])
    assert driver_deltas.deltas_of_range(held, actions, states, in_force) == on_spark
    changed = [on_spark[version] for version in range(first, last + 1)]
    return [(delta, state := delta.applied_to(state)) for delta in changed]


@pytest.mark.slow
def test_a_range_reports_the_added_and_removed_files_of_each_version(spark: SparkSession) -> None:
    retention = {**dict.fromkeys((1, 2), 0), 3: FIRST_COMMIT_MS - 1, **dict.fromkeys((4, 5, 6), FIRST_COMMIT_MS)}
    versions = ranged(spark, 1, 6, retention)

    reported = [
        tuple(abs(files[name]) for files in (delta.begun, delta.ended) for name in ("num_of_files", "size_in_bytes"))
        for delta, _ in versions
    ]
    assert reported == [(1, 4, 1, 1), (1, 2, 1, 2), (0, 0, 0, 0), (1, 8, 1, 4), (1, 2, 2, 10), (1, 16, 1, 2)]
    assert [state.num_of_removes for _, state in versions] == [1, 1, 1, 0, 0, 0]
