"""The statistics of the file actions that Spark reads from checkpoints, and commits that it reads by path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.commits import commit_batch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.protocol.log_files.file_names import CheckpointKind
from deltasnap_core.replay.spark.reading.action_reader import PARSED, ActionReader
from deltasnap_core.replay.spark.reading.file_action_layout import FULL
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.rules.texts.statistics_schema import StatsPolicy
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus
from tests.builders import Action, add, metadata, protocol, remove, write_log
from tests.checkpoint_files import put_parsed_statistics, write_checkpoint
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STORE = FsspecLogStore()
FIRST = [protocol(), metadata()]
PARTS = pa.struct([("numRecords", pa.int64()), ("minValues", pa.struct([("id", pa.int64())]))])


def reader(spark: SparkSession, log: Path, **options: Any) -> ActionReader:
    return ActionReader(spark=spark, files=SparkFiles(None, lambda _: True), log_path=f"file://{log}", **options)


def checkpoint(log: Path, actions: list[Action], *statistics: dict[str, Any] | None, keep_json: bool = True) -> Path:
    """Write a checkpoint whose adds have statistics as a struct; without statistics it has no such column."""
    log.mkdir(exist_ok=True)
    (file,) = write_checkpoint(log, 0, "classic", [*FIRST, *actions])
    if statistics:
        rows = [None] * len(FIRST) + [*statistics] + [None] * (len(actions) - len(statistics))
        put_parsed_statistics(file, pa.array(rows, PARTS), keep_json=keep_json)
    return file


def contents(log: Path, *files: Path) -> CheckpointContents:
    statuses = tuple(map(status_of, files))
    kind = CheckpointKind.CLASSIC if len(files) == 1 else CheckpointKind.MULTIPART
    provider = CheckpointProvider(version=0, files=statuses, kind=kind, format="parquet")
    return open_checkpoint(STORE, provider, f"file://{log}")


def status_of(file: Path) -> FileStatus:
    found = STORE.status(f"file://{file}")
    assert found is not None
    return found


def statistics_of(actions: DataFrame | None, field: str = "stats") -> dict[str, Any]:
    """Return statistics by the name of their file; JSON is parsed."""
    assert actions is not None
    rows = actions.where("add.path is not null").selectExpr("add.path", f"add.{field} as found").collect()
    return {row.path: json.loads(row.found) if isinstance(row.found, str) else row.found for row in rows}


@pytest.mark.slow
def test_statistics_that_a_checkpoint_has_only_as_a_struct_are_json(spark: SparkSession, tmp_path: Path) -> None:
    stated = {"numRecords": 5, "minValues": {"id": 7}}
    file = checkpoint(tmp_path, [add("a"), add("b"), remove("c")], stated, None, keep_json=False)
    actions = reader(spark, tmp_path).checkpoint_actions(contents(tmp_path, file))
    assert statistics_of(actions) == {"a": {"numRecords": 5, "minValues": {"id": 7}}, "b": None}


def test_bounds_of_variants_in_a_struct_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    (file,) = write_checkpoint(tmp_path, 0, "classic", [*FIRST, add("a")])
    variant = {"metadata": b"\1\0\0", "value": b"\4"}
    shredded = {**variant, "typed_value": {"a": 5}}
    bounds = {"minValues": {"id": 7, "v": variant, "w": shredded}, "maxValues": {"s": {"v": variant}}}
    struct = pa.array([None, None, {"numRecords": 1, **bounds, "nullCount": {"v": 0}}])
    put_parsed_statistics(file, struct, keep_json=False)
    actions = reader(spark, tmp_path).checkpoint_actions(contents(tmp_path, file))
    assert statistics_of(actions) == {"a": {"numRecords": 1, "minValues": {"id": 7}, "nullCount": {"v": 0}}}


def test_parts_with_and_without_json_are_read_together(spark: SparkSession, tmp_path: Path) -> None:
    actions = [add("a"), add("b"), add("c", stats='{"numRecords":2}'), remove("d")]
    files = write_checkpoint(tmp_path, 0, "multipart", [*FIRST, *actions])
    struct = pa.array([None, {"numRecords": 1}, {"numRecords": 2}], PARTS)
    put_parsed_statistics(files[0], struct, keep_json=False)
    found = reader(spark, tmp_path).checkpoint_actions(contents(tmp_path, *files))
    assert found is not None
    stated = statistics_of(found)
    assert {path: stats and stats["numRecords"] for path, stats in stated.items()} == {"a": 1, "b": None, "c": 2}


def test_number_of_records_comes_from_the_struct_and_then_from_json(spark: SparkSession, tmp_path: Path) -> None:
    actions = [add("a", stats='{"numRecords":9}'), add("b", stats='{"numRecords":8}'), add("c", stats="")]
    file = checkpoint(tmp_path, actions, {"numRecords": 5}, {"numRecords": None}, None)
    of_checkpoint = contents(tmp_path, file)
    numbers = reader(spark, tmp_path, stats=StatsPolicy.NUM_RECORDS)
    found = numbers.checkpoint_actions(of_checkpoint)
    assert found is not None
    assert numbers.add_schema.names == ["path", "size", "stats", "deletionVector"]
    rows = {row.path: row.stats for row in found.selectExpr("add.path", "add.stats").collect()}
    assert rows == {"a": '{"numRecords":5,"nullCount":{}}', "b": '{"numRecords":8}', "c": ""}
    nothing = reader(spark, tmp_path, stats=StatsPolicy.NONE).checkpoint_actions(of_checkpoint)
    assert statistics_of(nothing) == {"a": None, "b": None, "c": None}


@pytest.mark.slow
def test_requested_statistics_are_values_only_if_the_checkpoint_has_them(spark: SparkSession, tmp_path: Path) -> None:
    file = checkpoint(tmp_path, [add("a"), add("b")], {"numRecords": 5, "minValues": {"id": 7}}, None)
    write_log(tmp_path.parent / "t", {1: [add("c", stats='{"numRecords":6}')]})
    batch = read_commits(STORE, [status_of(tmp_path.parent / "t/_delta_log/00000000000000000001.json")])
    paths = frozenset({("numRecords",), ("minValues", "id")})
    parsed = reader(spark, tmp_path, parsed=paths)
    values = statistics_of(parsed.checkpoint_actions(contents(tmp_path, file)), PARSED)
    assert {path: value and value.asDict(recursive=True) for path, value in values.items()} == {
        "a": {"minValues": {"id": "7"}, "numRecords": 5},
        "b": None,
    }
    of_commits = parsed.commit_actions(batch)
    assert (statistics_of(of_commits, PARSED), statistics_of(of_commits)) == ({"c": None}, {"c": {"numRecords": 6}})
    other = reader(spark, tmp_path, parsed=frozenset({("maxValues", "id")}))
    assert statistics_of(other.checkpoint_actions(contents(tmp_path, file)), PARSED) == {"a": None, "b": None}


@pytest.mark.parametrize("limit", [10, 10_000], ids=["read by path", "kept"])
def test_actions_of_commits_have_their_version_and_the_last_value_of_a_repeated_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", limit)
    log = write_log(tmp_path, {0: [*FIRST, add("a"), remove("b")], 1: [add("c", size=3)], 2: [metadata()]})
    commit = log / "00000000000000000001.json"
    commit.write_text(commit.read_text().replace('"partitionValues":{}', '"partitionValues":{"p":"1","p":"2","q":"3"}'))
    commits = read_commits(STORE, [status_of(file) for file in sorted(log.glob("*.json"))])
    actions = reader(spark, log).commit_actions(commits)
    assert actions is not None
    rows = actions.selectExpr("commit_version", "coalesce(add.path, remove.path) as name", "add.partitionValues as p")
    found = {(row.commit_version, row.name): row.p for row in rows.collect()}
    assert found == {(0, "a"): {}, (0, "b"): None, (1, "c"): {"p": "2", "q": "3"}}


@pytest.mark.slow
@pytest.mark.parametrize("task_bytes", one_in(2, ["200", "1g"]), ids=["many tasks", "one task"])
def test_lines_of_commits_that_are_read_by_path_keep_their_order(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task_bytes: str
) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 400)
    sizes = range(30)
    adds = [add("a", size=size) for size in sizes]
    log = write_log(tmp_path, {0: FIRST, 1: adds, 2: [add("b")], 3: [*adds, *adds[:3]]})
    commits = read_commits(STORE, [status_of(file) for file in sorted(log.glob("*.json"))])
    assert len(commits.large) == 2
    spark.conf.set("spark.sql.files.maxPartitionBytes", task_bytes)
    try:
        actions = reader(spark, log).commit_actions(commits)
        assert actions is not None
        rows = actions.orderBy("commit_version", "line_number").selectExpr("commit_version", "add.size").collect()
        newest = FULL.newest(actions).selectExpr("add.path", "add.size").collect()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert [row.size for row in rows if row.commit_version == 1] == [*sizes]
    assert [row.size for row in rows if row.commit_version == 3] == [*sizes, 0, 1, 2]
    assert {row.path: row.size for row in newest} == {"a": 2, "b": 1}


def test_log_without_file_actions_has_no_frame(spark: SparkSession, tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: FIRST})
    found = reader(spark, log)
    assert found.commit_actions(read_commits(STORE, [status_of(log / "00000000000000000000.json")])) is None


@pytest.mark.spark
def test_nulls_that_the_schema_excludes_leave_no_values_of_other_files(spark: SparkSession) -> None:
    file = Path(__file__).with_name("null_partition_values.checkpoint.parquet")  # by delta-rs 1.0.2
    actions = reader(spark, file.parent).checkpoint_actions(contents(file.parent, file))
    assert actions is not None
    found = {row.remove.path[:3]: row.remove for row in actions.where("remove.path is not null").collect()}
    assert {path: each.partitionValues for path, each in found.items()} == {"p=_": None, "p=a": None, "p=b": None}
    assert {each.size for each in found.values()} == {499}
