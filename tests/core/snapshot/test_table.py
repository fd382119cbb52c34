"""`open_table`: one version of a table for users. Most of it needs no Spark."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings, strategies as st

from deltasnap_core import CorruptLogError, DeltaTableNotFoundError, Table, TableRows, VersionNotFoundError, open_table
from deltasnap_core.errors import MissingPackageError, PredicateError, SparkRequiredError, TimestampNotFoundError
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.rules.file_actions import ADDS
from deltasnap_core.scan.tables.history_frame import HISTORY
from tests.builders import Action, add, metadata, mtime_of, protocol, write_log
from tests.core.scan.files.deletion_vectors_builders import inline_vector
from tests.core.scan.scan_builders import file, ids
from tests.oracle import OracleState, replay
from tests.random_logs import RandomLog, random_logs, write
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROPERTY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
)
VECTORS = ("deletionVectors",)


def opened(path: Path, **chosen: Any) -> Table:
    """Open a table with a session that raises SparkRequiredError when it is needed."""
    return open_table(path, spark=GivenSession(None), **chosen)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A table with the versions 0 to 2. Each adds two rows."""
    for version in range(3):
        rows = pa.table({"id": [2 * version, 2 * version + 1], "day": ["a", "b"]})
        write_deltalake(tmp_path / "events", rows, mode="append", configuration={"delta.appendOnly": "true"})
    return tmp_path / "events"


def test_latest_version_is_opened_unless_another_is_requested(events: Path) -> None:
    assert opened(events).version == 2
    assert opened(events, version=1).version == 1
    assert repr(opened(events, version=1)) == f"Table(snapshot=Snapshot(path=file://{events}/_delta_log, version=1))"


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [
        (mtime_of(1), 1),
        (mtime_of(2) - 1, 1),
        (mtime_of(9), 2),
        (datetime.fromtimestamp(mtime_of(1) / 1000, UTC), 1),
        (datetime.fromtimestamp(mtime_of(1) / 1000, UTC).isoformat(), 1),
    ],
)
def test_version_at_a_time_is_the_last_one_committed_by_then(tmp_path: Path, timestamp: Any, version: int) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    assert opened(tmp_path, timestamp=timestamp).version == version


def test_versions_that_do_not_exist_are_errors(events: Path, tmp_path: Path) -> None:
    with pytest.raises(DeltaTableNotFoundError):
        opened(tmp_path / "nothing")
    with pytest.raises(VersionNotFoundError):
        opened(events, version=3)
    with pytest.raises(TimestampNotFoundError):
        opened(events, timestamp="1999-01-01")
    with pytest.raises(ValueError, match="either a version or a timestamp"):
        opened(events, version=1, timestamp=5)
    with pytest.raises(ValueError, match="tomorrow"):
        opened(events, timestamp="tomorrow")


def test_schema_history_files_and_properties_need_no_spark(events: Path) -> None:
    table = opened(events)
    assert table.schema.simpleString() == "struct<id:bigint,day:string>"
    history = table.history(limit=2).to_arrow()
    assert (history.schema, history["version"].to_pylist()) == (HISTORY, [2, 1])
    assert opened(events, version=1).history().to_arrow()["version"].to_pylist() == [1, 0]
    files = table.files().to_arrow()
    assert files.schema == ADDS
    assert sorted(files["path"].to_pylist()) == sorted(path.name for path in events.glob("*.parquet"))
    assert table.properties().to_arrow().to_pylist()[0] == {"key": "delta.appendOnly", "value": "true"}


def test_versions_and_log_files_need_no_spark(events: Path) -> None:
    table = opened(events, version=1)
    versions, files = table.versions().to_arrow().to_pydict(), table.log_files().to_arrow().to_pydict()
    assert (versions["version"], versions["has_commit"], versions["loadable"]) == ([0, 1], [True] * 2, [True] * 2)
    assert versions["timestamp"] == table.history().to_arrow()["timestamp"].to_pylist()[::-1]
    commits = zip(files["version"], files["kind"], files["in_segment"], strict=True)
    assert [*commits] == [(0, "commit", True), (1, "commit", True), (2, "commit", False)]
    assert files["modification_time"][0].tzinfo is not None


def test_count_without_a_predicate_needs_no_spark(events: Path) -> None:
    scan = opened(events).scan()
    assert (scan.count(), scan.select("id").count(), scan.limit(4).count(), scan.limit(9).count()) == (6, 6, 4, 6)
    assert (opened(events, version=0).scan().count(), opened(events).files().limit(2).count()) == (2, 2)


def test_rows_and_predicates_say_that_they_need_spark(events: Path) -> None:
    for read in (TableRows.to_arrow, TableRows.to_pandas, TableRows.to_arrow_batches, TableRows.to_spark):
        with pytest.raises(SparkRequiredError, match="Pass a Spark session"):
            read(opened(events).scan())
    with pytest.raises(SparkRequiredError):
        opened(events).scan("id = 1")


def test_columns_and_limits_are_checked_before_rows_are_read(events: Path) -> None:
    table = opened(events)
    for rows, known in ((table.scan(), "id, day"), (table.properties(), "key, value")):
        with pytest.raises(ValueError, match=f"no column 'x'; .* {known}"):
            rows.select("x")
        with pytest.raises(ValueError, match="0 rows or more, found -1"):
            rows.limit(-1)


def test_metadata_table_has_every_form(events: Path) -> None:
    files = opened(events).files().select("size", "path")
    rows = files.to_arrow()
    assert rows.column_names == ["size", "path"]
    assert files.limit(2).limit(1).to_arrow() == rows.slice(0, 1)
    assert files.limit(1).limit(2).to_arrow() == rows.slice(0, 1)
    assert files.to_pandas().to_dict("list") == rows.to_pydict()
    assert files.to_polars().equals(pl.DataFrame(rows.to_pydict()))
    assert files.to_arrow_batches().read_all() == rows


def test_rows_are_a_relation_of_the_default_or_of_another_connection_of_duckdb(events: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    files = opened(events).files()
    assert sorted(files.select("path").to_duckdb().fetchall()) == sorted(
        (path.name,) for path in events.glob("*.parquet")
    )
    with duckdb.connect() as connection:
        assert files.to_duckdb(connection).aggregate("count(*)").fetchall() == [(3,)]


@pytest.mark.parametrize("package", ["polars", "duckdb"])
def test_missing_package_is_named_with_its_extra(events: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError) as raised:
        getattr(opened(events).files(), f"to_{package}")()
    assert str(raised.value) == (
        f"The package {package} is not installed, which to_{package} needs: pip install {package}."
    )


def stated(state: OracleState) -> int | None:
    """Return the number of rows by the statistics; None: some file does not state it."""
    counts = state.counts(0)
    return None if counts["num_records"] is None else counts["num_records"] - counts["num_deleted_records"]


@PROPERTY
@given(made=random_logs())
def test_count_is_that_of_the_statistics_or_else_reads_rows(made: RandomLog) -> None:
    states = replay(made.commits)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), made, states)
        for version in made.versions:
            rows = opened(Path(folder), version=version).scan()
            expected = stated(states[version])
            if expected is None:
                with pytest.raises(SparkRequiredError):
                    rows.count()
            else:
                assert rows.count() == expected


@st.composite
def data_files(draw: st.DrawFn) -> list[tuple[str | None, int, bool, list[int]]]:
    """Return files: the value of the partition, the number of rows, whether it has statistics, the deleted rows."""
    values = st.sampled_from([None, "1", "2"])
    return [
        (draw(values), rows, draw(st.booleans()), sorted(draw(st.sets(st.integers(0, rows - 1), max_size=rows))))
        for rows in draw(st.lists(st.integers(1, 3), max_size=3))
    ]


PREDICATES: dict[str | None, Callable[[int, str | None], bool]] = {
    None: lambda _row, _p: True,
    "p = 1": lambda _row, p: p == "1",
    "p is null or p > 1": lambda _row, p: p in (None, "2"),
    "p = 1 and id = 0": lambda row, p: p == "1" and row == 0,
    "id > 0": lambda row, _p: row > 0,
    "false": lambda _row, _p: False,
}


@pytest.mark.spark
@settings(PROPERTY, max_examples=5)
@given(files=data_files())
def test_count_equals_the_number_of_rows_for_every_predicate(
    spark: SparkSession, files: list[tuple[str | None, int, bool, list[int]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder), {0: [*of_vectors(), *written(Path(folder), files)]})
        table = open_table(folder, spark=spark)
        for where, accepts in PREDICATES.items():
            kept = [
                (row, value)
                for value, rows, _, deleted in files
                for row in range(rows)
                if row not in deleted and accepts(row, value)
            ]
            assert table.scan(where).count() == len(kept)


def of_vectors() -> list[Action]:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("p", "integer"))
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    return [
        protocol(3, 7, readerFeatures=VECTORS, writerFeatures=VECTORS),
        metadata(schemaString=schema, partitionColumns=["p"]),
    ]


def written(table: Path, files: list[tuple[str | None, int, bool, list[int]]]) -> list[Action]:
    return [
        file(
            table,
            f"f{number}.parquet",
            ids(*range(rows)),
            partitionValues={"p": value},
            stats=json.dumps({"numRecords": rows}) if has_statistics else None,
            deletionVector=inline_vector(*deleted) if deleted else None,
        )
        for number, (value, rows, has_statistics, deleted) in enumerate(files)
    ]


def test_count_by_partitions_reads_no_data_file(spark: SparkSession, tmp_path: Path) -> None:
    adds = written(tmp_path, [("1", 3, True, [1]), ("2", 2, True, []), ("1", 2, True, [])])
    write_log(tmp_path, {0: [*of_vectors(), *adds]})
    for data_file in tmp_path.glob("*.parquet"):
        data_file.write_bytes(b"")
    table = open_table(tmp_path, spark=spark)
    assert (table.scan("p = 1").count(), table.scan("p > 1").limit(1).count(), table.scan().count()) == (4, 1, 6)


def test_rows_of_a_file_with_a_negative_number_of_rows_are_read_and_counted(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = [
        file(tmp_path, name, ids(*range(3)), stats=json.dumps({"numRecords": stated}))
        for name, stated in (("a.parquet", -5), ("b.parquet", 13))
    ]
    write_log(tmp_path, {0: [*of_vectors(), *data]})
    table = open_table(tmp_path, spark=spark)
    assert (table.scan().count(), table.snapshot.computed_state.num_records) == (6, None)


def test_number_of_rows_below_the_deleted_ones_is_an_error_that_names_the_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = [file(tmp_path, name, ids(*range(4)), stats='{"numRecords":2}') for name in ("a.parquet", "b.parquet")]
    data[0]["add"]["deletionVector"] = inline_vector(0, 1, 2)
    write_log(tmp_path, {0: [*of_vectors(), *data]})
    with pytest.raises(CorruptLogError, match=r"a\.parquet: .* deletes row 2, counted from 0, of 2 rows"):
        open_table(tmp_path, spark=spark).scan().count()


def test_rows_of_an_invalid_schema_are_not_counted(tmp_path: Path) -> None:
    fields: list[dict[str, object]] = [
        {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "ID")
    ]
    schema = metadata(schemaString=json.dumps({"type": "struct", "fields": fields}))
    write_log(tmp_path, {0: [protocol(), schema, add("a", stats='{"numRecords":3}')]})
    with pytest.raises(CorruptLogError, match="found also 'id'"):
        opened(tmp_path).scan().count()


@pytest.mark.spark
def test_limit_may_exceed_every_number_of_rows(spark: SparkSession, events: Path) -> None:
    table = open_table(events, spark=spark)
    for rows in (table.scan(), table.files(), table.partitions()):
        many = rows.limit(2**70)
        assert rows.count() == many.count() == many.to_arrow().num_rows == many.to_spark().count()


def test_first_lines_of_the_guide_return_the_rows(spark: SparkSession, events: Path) -> None:
    table = open_table(events, spark=spark)
    rows = table.scan("day = 'a'").select("day", "id")
    assert sorted(rows.to_pandas()["id"]) == [0, 2, 4]
    assert rows.to_arrow().column_names == ["day", "id"] == rows.to_polars().columns == rows.to_spark().columns
    assert rows.limit(2).to_arrow().num_rows == rows.limit(2).to_arrow_batches().read_all().num_rows == 2
    with pytest.raises(PredicateError):
        table.scan("nothing = 1")


@pytest.mark.spark
@pytest.mark.slow
def test_rows_of_a_table_on_s3_are_read_with_its_storage_options(
    spark: SparkSession, events: Path, s3_options: dict[str, Any]
) -> None:
    fsspec.filesystem("s3", **s3_options).put(str(events), f"lake/{events.parent.name}", recursive=True)
    table = open_table(f"s3://lake/{events.parent.name}", spark=spark, storage_options=s3_options)
    assert (table.version, table.scan().count()) == (2, 6)
    assert sorted(table.scan("day = 'a'").select("id").to_arrow()["id"].to_pylist()) == [0, 2, 4]


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    one_in(3, ["partitions", "column_stats", "tombstones", "entries", "versions", "log_files", "vacuum_candidates",
               "optimize_candidates", "file_problems", "storage_files"]),
)  # fmt: skip
def test_metadata_table_of_spark_has_the_rows_of_its_dataframe(spark: SparkSession, events: Path, name: str) -> None:
    table = open_table(events, spark=spark)
    rows, frame = getattr(table, name)(), getattr(table.snapshot.tables, name)
    frame = frame() if callable(frame) else frame
    assert rows.to_arrow().column_names == rows.to_spark().columns == frame.columns
    assert rows.count() == rows.to_arrow().num_rows == frame.count()
    first = frame.columns[0]
    assert rows.select(first).limit(1).to_arrow().column_names == [first]


def test_rows_in_parts_equal_those_at_once(spark: SparkSession, events: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltasnap_core.scan.scan._PART_BYTES", 1)
    rows = open_table(events, spark=spark).scan("id > 0")
    batches = list(rows.to_arrow_batches())
    assert len(batches) == 3
    assert sorted(pa.Table.from_batches(batches)["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert open_table(events, spark=spark).scan("false").to_arrow_batches().read_all().schema == rows.to_arrow().schema


@pytest.mark.spark
def test_times_are_in_utc_in_any_session(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    inner = pa.array([{"t": noon, "l": [noon], "m": [(noon, noon)]}], type=pa.struct(
        [("t", UTC_TIME), ("l", pa.list_(UTC_TIME)), ("m", pa.map_(UTC_TIME, UTC_TIME))]
    ))  # fmt: skip
    write_deltalake(tmp_path, pa.table({"t": pa.array([noon], UTC_TIME), "n": [noon.replace(tzinfo=None)], "s": inner}))
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
        rows = open_table(tmp_path, spark=spark).scan()
        found = rows.to_arrow()
        frame = rows.to_pandas()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before or "UTC")
    assert found.equals(DeltaTable(tmp_path).to_pyarrow_table())
    assert list(map(str, frame.dtypes)) == ["datetime64[us, UTC]", "datetime64[us]", "object"]


UTC_TIME = pa.timestamp("us", tz="UTC")
