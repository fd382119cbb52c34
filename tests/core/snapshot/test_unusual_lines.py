"""Any valid JSON: every query returns the same correct result, or an error with file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import CorruptLogError, DeltaLog, SnapshotOptions, SnapshotStore, TableLog
from deltasnap_core.log.commits import commit_batch
from tests.builders import add, commit_info, content, metadata, protocol, remove, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltasnap_core.replay.engine import EngineUse


TAIL = b'"partitionValues":{},"modificationTime":1,"dataChange":true'
UNUSUAL = [
    rb'{"\u0061dd":{"p\u0061th":"escaped","size":1,%s}}' % TAIL,
    b' { "add" : {"path":"spaced","size":2,%s} } \r' % TAIL,
    b"\t",
    b'{"zzz":{"add":1},"remove":null,"add":{"path":"beside","size":4,%s}}' % TAIL,
    b'{"add":{"path":"exponent","size":8e0,%s}}' % TAIL,
    b'{"add":{"path":"fraction","size":16.0,%s}}' % TAIL,
    b'{"add":{"path":"no","path":"twice","size":32,%s}}' % TAIL,
    b'{"add":null,"add":{"path":"again","size":64,%s}}' % TAIL,
    b'{"ADD":{"path":"no","size":1},"add":{"PATH":"no","path":"case","size":128,%s}}' % TAIL,
    rb'{"add":{"path":"nul\u0000\udbff\udfff","size":256,%s}}' % TAIL,
    '{"add":{"path":"line\u2028feed","size":512,%s}}'.encode() % TAIL,
    b'{"add":{"path":"numbers","size":1024,"big":1e999,"long":%s,%s}}' % (b"9" * 2000, TAIL),
    b'{"add":{"path":"map","size":2048,"partitionValues":{"a":"1","b":null,"a":"2"},"modificationTime":1,"dataChange":true}}',
    b'{"add":{"path":"} null, Infinity {\\"remove\\":{}}","size":4096,%s}}' % TAIL,
    rb'{"r\u0065move":{"path":"before","deletionTimestamp":17e11,"dataChange":true}}',
    rb'{"t\u0078n":{"appId":"app","version":7.0}}',
    rb'{"commit\u0049nfo":{"operation":"UNUSUAL","timestamp":1e3}}',
    b'{"unknown":{"add":{"path":"no"}}}',
]
PATHS = {
    "escaped", "spaced", "beside", "exponent", "fraction", "twice", "again", "case", "nul\0\U0010ffff",
    "line\u2028feed", "numbers", "map", '} null, Infinity {"remove":{}}',
}  # fmt: skip
REFUSED = {
    "two objects": b'{"add":{"path":"a","size":1,%s}}{"add":{"path":"b","size":1,%s}}' % (TAIL, TAIL),
    "two actions": b'{"add":{"path":"a","size":1,%s},"remove":{"path":"before","dataChange":true}}' % TAIL,
    "null": b"null",
    "NaN": b'{"add":{"path":"a","size":1,"x":NaN,%s}}' % TAIL,
    "nested": b'{"add":{"path":"a","size":1,"x":%s%s,%s}}' % (b"[" * 100_000, b"]" * 100_000, TAIL),
    "2^63": b'{"add":{"path":"a","size":9223372036854775808,%s}}' % TAIL,
    "33 bits": b'{"remove":{"path":"a","dataChange":true,"deletionVector":{"offset":4294967296}}}',
    "surrogate": rb'{"add":{"path":"\ud800","size":1,%s}}' % TAIL,
    "no UTF-8": b'{"add":{"path":"\xff","size":1,%s}}' % TAIL,
}


@pytest.fixture(params=[False, True], ids=["in memory", "large"])
def is_large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    if request.param:
        monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
    yield request.param
    DeltaLog.clear_cache()


def table_with(folder: Path, lines: list[bytes]) -> str:
    log = write_log(folder, {0: [commit_info("CREATE"), protocol(), metadata(), add("before", size=7)], 1: []})
    (log / "00000000000000000001.json").write_bytes(b"\n".join(lines))
    return str(folder)


@pytest.mark.spark  # Sail parses no such numbers, and no text after an object
@pytest.mark.thorough
def test_every_query_reads_unusual_lines_the_same_way(spark: SparkSession, tmp_path: Path, is_large: bool) -> None:
    path = table_with(tmp_path / "table", UNUSUAL)
    snapshot = DeltaLog.for_table(spark, path).get_snapshot_at(version=1, min_file_retention_timestamp=0)
    store = SnapshotStore.open(spark, str(tmp_path / "store"))
    store.write_range("t", DeltaLog.for_table(spark, path), 0, 1)

    for files in (snapshot.all_files, store.all_files("t", 1)):
        rows = {row.path: row for row in files.collect()}
        assert rows.keys() == PATHS
        assert sum(row.size for row in rows.values()) == 2**13 - 1
        assert rows["map"].partitionValues == {"a": "2", "b": None}
        assert files.where("path = 'map'").selectExpr("size(partitionValues)", "partitionValues['a']").first() == (
            2,
            "2",
        )
    for state in (snapshot.computed_state, store.computed_state("t", 1)):
        assert (state.num_of_files, state.size_in_bytes, state.num_of_set_transactions) == (13, 2**13 - 1, 1)
    assert [row.deletionTimestamp for row in snapshot.tombstones.collect()] == [1_700_000_000_000]
    assert snapshot.state.where("add is not null").count() == 13
    assert snapshot.transactions == {"app": 7}
    assert TableLog.for_path(path).at(version=1).set_transactions[0].version == 7
    assert [commit.operation for commit in TableLog.for_path(path).history.get_history()] == ["UNUSUAL", "CREATE"]


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "computed_state": lambda snapshot: snapshot.computed_state,
    "all_files": lambda snapshot: snapshot.all_files.collect(),
    "state": lambda snapshot: snapshot.state.collect(),
    "transactions": lambda snapshot: snapshot.transactions,
}


@pytest.mark.thorough
@pytest.mark.parametrize("line", REFUSED.values(), ids=REFUSED.keys())
def test_every_query_rejects_ambiguous_lines(spark: SparkSession, tmp_path: Path, line: bytes, is_large: bool) -> None:
    path = table_with(tmp_path / "table", [content([remove("x")]).strip(), line])

    for ask in QUESTIONS.values():
        with pytest.raises(CorruptLogError) as caught:
            ask(DeltaLog.for_table(spark, path).get_snapshot_at(version=1))
        assert (Path(caught.value.path).name, caught.value.line) == ("00000000000000000001.json", 2)
    with pytest.raises(CorruptLogError):
        SnapshotStore.open(spark, str(tmp_path / "store")).write_range("t", DeltaLog.for_table(spark, path), 0, 1)
    with pytest.raises(CorruptLogError):
        _ = TableLog.for_path(path).at(version=1).set_transactions


ACTIONS = [
    commit_info("CREATE"),
    protocol(),
    metadata(),
    add("a", size=1, stats='{"numRecords":1}'),
    add("b}x", size=2),
]


def with_marks(file: Path) -> None:
    """End each line of a commit in `x`, as Databricks runtimes of 2020 did."""
    file.write_bytes(file.read_bytes().replace(b"\n", b"x\n"))


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["auto", "spark"])
@pytest.mark.parametrize("is_large", [False, pytest.param(True, marks=pytest.mark.spark)], indirect=True)  # as above
def test_lines_of_old_databricks_runtimes_are_read_with_one_warning(
    spark: SparkSession, tmp_path: Path, is_large: bool, engine: EngineUse, caplog: pytest.LogCaptureFixture
) -> None:
    log = write_log(tmp_path / "t", {0: ACTIONS, 1: [commit_info("DELETE"), remove("a")], 2: [commit_info("WRITE")]})
    with_marks(log / "00000000000000000000.json")
    with_marks(log / "00000000000000000001.json")

    opened = DeltaLog.for_table(spark, tmp_path / "t", options=SnapshotOptions(engine=engine))
    state = opened.snapshot.computed_state

    assert (state.num_of_files, state.size_in_bytes) == (1, 2)
    assert [row.path for row in opened.snapshot.all_files.collect()] == ["b}x"]
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"Commits in {log.as_uri()} have lines that end in an x after the object, as old Databricks runtimes wrote "
        "them: it is ignored. Other readers may refuse these commits."
    ]
    assert [commit.operation for commit in opened.context.table_log.history.get_history()] == [
        "WRITE", "DELETE", "CREATE"
    ]  # fmt: skip


@pytest.mark.slow
def test_schema_nested_too_deeply_fails_every_query_that_needs_it(spark: SparkSession, tmp_path: Path) -> None:
    schemas = [
        '{"type":"struct","fields":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"type":"struct","fields":[{"name":"a","type":' + '{"type":"array","elementType":' * 100_000,
    ]
    for number, schema in enumerate(schemas):
        write_log(tmp_path / str(number), {0: [protocol(), metadata(schemaString=schema), add("a")]})
        snapshot = DeltaLog.for_table(spark, str(tmp_path / str(number))).snapshot

        assert snapshot.computed_state.num_of_files == 1
        with pytest.raises(CorruptLogError, match=r"metaData\.schemaString: expected JSON"):
            _ = snapshot.schema
