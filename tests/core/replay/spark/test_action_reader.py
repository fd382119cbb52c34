"""What Spark reads of checkpoints and commits: columns, statistics, measures."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, FileStatus, SnapshotOptions, TableLog
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.commits import commit_batch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.log_files.file_names import CheckpointKind
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.replay.spark import measured_files
from deltasnap_core.replay.spark.measured_files import measure_files
from deltasnap_core.replay.spark.reading.action_reader import PARSED, ActionReader
from deltasnap_core.replay.spark.reading.file_action_layout import FULL
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.replay.spark.state_deltas import counted
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.texts.statistics_schema import StatsPolicy
from deltasnap_core.scan import scan
from deltasnap_core.scan.planning import ScanReport, condition_on_files, report_of
from deltasnap_core.scan.skipping.data_skipping import Skipping
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
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


@pytest.mark.parametrize("limit", [10, 10_000], ids=["read by path", "kept"])
def test_asked_actions_of_commits_are_found_by_an_escaped_name_too(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", limit)
    log = write_log(tmp_path, {0: [*FIRST, add("a"), remove("b")], 1: [remove("c")]})
    commit = log / "00000000000000000001.json"
    commit.write_text(commit.read_text().replace('"remove"', r'"r\u0065move"'))
    commits = read_commits(STORE, [status_of(file) for file in sorted(log.glob("*.json"))])
    actions = reader(spark, log).commit_actions(commits, ("remove",))
    assert actions is not None
    found = actions.selectExpr("coalesce(add.path, remove.path) as name").collect()
    assert {row.name for row in found} == {"b", "c"}


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


if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VECTOR = "deletionVector:struct<storageType:string,pathOrInlineDv:string,offset:int{}>"
ADD = f"path:string,size:bigint,{{}}{VECTOR.format(',cardinality:bigint')}"
REMOVE = f"path:string,deletionTimestamp:bigint,{VECTOR.format('')}"
JSON, STRUCT = "stats:string,", ",stats_parsed:struct<numRecords:bigint>"


def plan_of(frame: DataFrame) -> str:
    frame.sparkSession.conf.set("spark.sql.maxMetadataStringLength", "10000")
    try:
        jvm: Any = frame.sparkSession.sparkContext._jvm
        return str(jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "simple"))
    finally:
        frame.sparkSession.conf.unset("spark.sql.maxMetadataStringLength")


def columns_read(plan: str) -> list[str]:
    return re.findall("ReadSchema: (.*)", plan)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("records", "fields"),
    [((7, 1), ADD.format("") + STRUCT), ((7, None), ADD.format(JSON) + STRUCT), (None, ADD.format(JSON))],
    ids=["a struct value of every file", "of one file", "no struct"],
)
def test_computed_state_reads_the_fewest_columns_of_a_checkpoint_and_shuffles_nothing(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: tuple[int | None, ...] | None,
    fields: str,
) -> None:
    actions = [protocol(), metadata(), *(add(name, stats='{"numRecords":1}') for name in "ab")]
    log = write_log(tmp_path, {0: actions, 1: [remove("a"), add("c", stats='{"numRecords":3}')]})
    (file,) = write_checkpoint(log, 0, "classic", actions)
    if records is not None:
        structs = [None, None, *({"numRecords": number} for number in records)]
        put_parsed_statistics(file, pa.array(structs, pa.struct([("numRecords", pa.int64())])), keep_json=True)
    found: list[DataFrame] = []

    def count(rows: DataFrame, non_file: NonFileActions, retention: Retention) -> StateDelta:
        found.append(rows)
        return counted(rows, non_file, retention)

    monkeypatch.setattr(measured_files, "counted", count)
    options = SnapshotOptions(engine="spark", cache_state=False)
    state = DeltaLog.for_table(spark, tmp_path, options=options).snapshot.computed_state
    plan = plan_of(found[0])
    assert (state.num_of_files, state.num_known_records) == (2, 4)
    assert columns_read(plan) == [f"struct<add:struct<{fields}>,remove:struct<{REMOVE}>>"]
    assert "Exchange hashpartitioning" not in plan


def write_bounds_in_a_struct(table: Path) -> None:
    """Write a table whose checkpoint has the rows with id 1 and with id 9. Only a struct has their statistics."""
    actions = [protocol(), metadata(), add("a"), add("b"), remove("old")]
    log = write_log(table, {0: actions, 1: [remove("c")]})
    (file,) = write_checkpoint(log, 0, "classic", actions)
    bounds = [("id", pa.int64()), ("name", pa.string())]
    kinds = [(kind, pa.struct(bounds)) for kind in ("minValues", "maxValues", "nullCount")]
    values = [{"numRecords": 1, **{kind: {"id": n} for kind, _ in kinds[:2]}, "nullCount": {"id": 0}} for n in (1, 9)]
    put_parsed_statistics(
        file, pa.array([None, None, *values, None], pa.struct([("numRecords", pa.int64()), *kinds])), keep_json=True
    )


@pytest.mark.parametrize(("where", "paths"), [("id < 5", ["a"]), ("id > 5", ["b"]), ("id > 9", [])])
def test_scan_on_spark_skips_files_by_statistics_in_a_struct(
    spark: SparkSession, tmp_path: Path, where: str, paths: list[str]
) -> None:
    write_bounds_in_a_struct(tmp_path)
    found = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine="spark")).snapshot.scan(where)
    assert [row.path for row in found.files.collect()] == paths
    assert found.report.files_after_statistics == len(paths)


@pytest.mark.spark
def test_scan_by_statistics_in_a_struct_reads_only_these_and_no_json(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bounds_in_a_struct(tmp_path)
    found: list[DataFrame] = []

    def report(files: DataFrame, skipping: Skipping, totals: tuple[int, int] | None) -> ScanReport:
        found.append(files.selectExpr("size", f"{condition_on_files(skipping, parsed=True)} as is_kept"))
        return report_of(files, skipping, totals)

    monkeypatch.setattr(scan, "report_of", report)
    options = SnapshotOptions(engine="spark")
    _ = DeltaLog.for_table(spark, tmp_path, options=options).snapshot.scan("id < 5").report
    key = VECTOR.format("")
    statistics = "minValues:struct<id:bigint>,nullCount:struct<id:bigint>,numRecords:bigint"
    assert columns_read(plan_of(found[0])) == [
        f"struct<add:struct<path:string,size:bigint,{key},stats_parsed:struct<{statistics}>>,"
        f"remove:struct<path:string,{key}>>"
    ]


if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Cache:
    """Records what is cached and released."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def cached(self, rows: Any) -> Any:
        self.calls.append(rows)
        return rows

    def release(self) -> None:
        self.calls.append("released")


@pytest.mark.parametrize(
    ("actions", "is_cached"), [([add("a", size=7), remove("b")], True), ([], False)], ids=["files", "no files"]
)
def test_measures_are_cached_until_they_are_released(
    spark: SparkSession, tmp_path: Path, actions: list[Action], is_cached: bool
) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), *actions]})
    table, cache = TableLog.for_path(tmp_path), Cache()
    reader = ActionReader(spark=spark, files=SparkFiles(None, lambda _: True), log_path=table.log_path)
    log, given = table.at(0).replayable, cast("Any", cache)
    found = measure_files(reader, log, given, partitions=None)
    assert cache.calls == ([found.rows] if is_cached else [])
    assert found.count(log, KEEP_ALL).applied_to(None).size_in_bytes == (7 if is_cached else 0)
    found.release()
    assert cache.calls[-1] == "released"
    measure_files(reader, log, None, partitions=None).release()  # there is nothing to release


def test_files_of_all_commits_are_counted(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 1000)
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")], 1: [add(f"b{number}") for number in range(20)]})
    table = TableLog.for_path(tmp_path)
    reader = ActionReader(spark=spark, files=SparkFiles(None, lambda _: True), log_path=table.log_path)
    log = table.at(1).replayable
    assert [commit.is_large for commit in log.batch.commits] == [False, True]
    found = measure_files(reader, log, None, partitions=None)
    assert found.count(log, KEEP_ALL).applied_to(None).num_of_files == 21
