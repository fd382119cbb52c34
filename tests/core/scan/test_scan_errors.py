"""What a scan refuses: invalid arguments, damaged logs, files that are missing or cannot be read."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from deltasnap_core import DeltaLog, ScanOptions
from deltasnap_core.errors import (
    CorruptLogError,
    DataFileError,
    DataFileNotFoundError,
    DataPathError,
    PredicateError,
    UnsupportedServerError,
    UnsupportedSettingError,
)
from deltasnap_core.scan import scan as scan_module
from deltasnap_core.scan.predicate_analysis import predicate_failures
from deltasnap_core.support import SPARK_FAILURES
from tests.builders import add, field, metadata, protocol, schema, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.files.deletion_vectors_builders import encode_z85, inline_vector
from tests.core.scan.scan_builders import file, found, ids, snapshot_of, stats
from tests.core.snapshot.damage_builders import flip
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_invalid_partition_value_is_an_error_even_if_the_file_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    days = [{"p": "y", "q": "abc", "r": "1"}, {"p": "x", "q": "5", "r": "1"}]
    adds = [
        file(tmp_path, f"f{n}", ids(n), partitionValues=values, stats=stats(n, n, rows=1))
        for n, values in enumerate(days)
    ]
    kinds = schema(field("id", "long"), field("p", "string"), field("q", "integer"), field("r", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=kinds, partitionColumns=["p", "q", "r"])
    with pytest.raises(CorruptLogError, match="abc"):
        snapshot.scan("q = 5 or p = 'x' and id = 3").to_df()


@pytest.mark.parametrize("text", ["12:30", "abc"])
def test_invalid_partition_value_of_an_old_type_is_an_error(spark: SparkSession, tmp_path: Path, text: str) -> None:
    kinds = {"schemaString": schema(field("id", "long"), field("p", "timestamp_ltz")), "partitionColumns": ["p"]}
    adds = [file(tmp_path, "a", ids(1), partitionValues={"p": text})]
    with pytest.raises(CorruptLogError, match=f"column p: expected a value of type timestamp, found '{text}'"):
        snapshot_of(spark, tmp_path, adds, **kinds).scan().to_df()


@pytest.mark.parametrize("where", [None, "p = 'y'", "id = 2 or p is null"], ids=str)
def test_partition_value_in_another_case_is_an_error(spark: SparkSession, tmp_path: Path, where: str | None) -> None:
    kinds = {"schemaString": schema(field("id", "long"), field("p", "string")), "partitionColumns": ["P"]}
    adds = [
        file(tmp_path, f"f{n}", ids(n), partitionValues=values) for n, values in enumerate(({"p": "y"}, {"P": "x"}))
    ]
    with pytest.raises(CorruptLogError, match=r"version 0, file f1, partition column p: .* key 'p', found 'P'"):
        snapshot_of(spark, tmp_path / "t", adds, **kinds).scan(where).to_df()
    right = file(tmp_path / "right", "f0", ids(0), partitionValues={"p": "y"})
    assert found(snapshot_of(spark, tmp_path / "right", [right], **kinds).scan("p = 'y'")) == [(0, "y")]


def test_damaged_deletion_vector_is_a_corrupt_log(spark: SparkSession, tmp_path: Path) -> None:
    vector = {"storageType": "i", "pathOrInlineDv": encode_z85(b"12345678"), "sizeInBytes": 8, "cardinality": 2}
    snapshot = snapshot_of(
        spark, tmp_path, [file(tmp_path, "a", ids(1), deletionVector=vector)], features=["deletionVectors"]
    )
    with pytest.raises(CorruptLogError, match="magic number"):
        snapshot.scan().to_df()


def test_missing_file_is_reported_with_path_and_version(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1)), add("gone.parquet")])
    with pytest.raises(DataFileNotFoundError, match=r"Version 0 of .*gone\.parquet") as raised:
        snapshot.scan().to_df()
    assert raised.value.version == 0


def test_file_outside_the_table_is_read_only_with_permission(spark: SparkSession, tmp_path: Path) -> None:
    action = file(tmp_path / "source", (tmp_path / "source" / "a").as_uri(), ids(1), name="a")
    snapshot = snapshot_of(spark, tmp_path / "clone", [action])
    with pytest.raises(DataPathError, match="is outside"):
        snapshot.scan().to_df()
    allowed = ScanOptions(data_roots=(str(tmp_path / "source"),))
    assert found(snapshot.scan(options=allowed)) == [(1,)]


@pytest.mark.parametrize("is_relative", [True, False])
def test_folder_that_the_refusal_shows_can_be_allowed_as_it_is_shown(
    spark: SparkSession, tmp_path: Path, is_relative: bool
) -> None:
    source = tmp_path / "the source"
    shown = "../the%20source" if is_relative else source.as_uri()
    snapshot = snapshot_of(spark, tmp_path / "clone", [file(source, f"{shown}/a%20b", ids(1), name="a b")])
    with pytest.raises(DataPathError) as refused:
        snapshot.scan().to_df()
    (path,) = re.findall(r"the path '(\S+)/a%20b'", str(refused.value))
    allowed = source.as_uri() if is_relative else path
    assert found(snapshot.scan(options=ScanOptions(data_roots=(allowed,)))) == [(1,)]


@pytest.mark.spark
@pytest.mark.parametrize("text", [None, "x"])
def test_data_file_that_spark_cannot_read_is_named(spark: SparkSession, tmp_path: Path, text: str | None) -> None:
    damaged = file(tmp_path, "a b.parquet", pa.table({"id": [text]}))
    if text is None:
        (tmp_path / "a b.parquet").write_bytes(b"no Parquet")
    scan = snapshot_of(spark, tmp_path, [damaged], schemaString=schema(field("id", "long"))).scan()
    with pytest.raises(DataFileError, match=rf"the data file file:///\S+/a%20b\.parquet of version 0 .*{tmp_path}: "):
        scan.take(1)


def test_failure_of_spark_names_its_file(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1))], schemaString=schema(field("id", "long"))).scan()
    read = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///t/a%20b. SQLSTATE: KD001"
    for message, path in {read: "file:///t/a%20b", "[FAILED_READ_FILE.NO_HINT] A file.": None}.items():
        monkeypatch.setattr(scan_module, "collected_rows", raising(message))
        with pytest.raises(DataFileError) as raised:
            scan.take(1)
        assert (raised.value.path, raised.value.version) == (path, 0)
        assert raised.value.table == f"file://{tmp_path}"
    monkeypatch.setattr(scan_module, "collected_rows", raising("[OUT_OF_MEMORY] No space."))
    with pytest.raises(PySparkException, match="No space"):
        scan.to_arrow()


@pytest.mark.parametrize(
    "setting", ["spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead"]
)
def test_setting_that_refuses_old_dates_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    scan = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1))], schemaString=schema(field("id", "long"))).scan()
    refused = (
        f'[INCONSISTENT_BEHAVIOR_CROSS_VERSION.READ_ANCIENT_DATETIME] Old.\nYou can set the SQL config "{setting}" or'
    )
    monkeypatch.setattr(scan_module, "collected_rows", raising(refused))
    with pytest.raises(UnsupportedSettingError, match=f"{setting}=EXCEPTION .* refuses dates before 1582") as raised:
        scan.take(1)
    assert isinstance(raised.value.__cause__, SPARK_FAILURES)


@pytest.mark.spark
def test_old_date_that_the_session_refuses_is_an_error_with_the_setting(spark: SparkSession, tmp_path: Path) -> None:
    dates = pa.table({"d": [date(1500, 3, 1), date(2024, 3, 1)]})
    scan = snapshot_of(spark, tmp_path, [file(tmp_path, "a", dates)], schemaString=schema(field("d", "date"))).scan()
    setting = "spark.sql.parquet.datetimeRebaseModeInRead"
    before = spark.conf.get(setting) or ""
    spark.conf.set(setting, "EXCEPTION")
    try:
        with pytest.raises(UnsupportedSettingError, match=f"{setting}=EXCEPTION"):
            scan.to_arrow()
    finally:
        spark.conf.set(setting, before)
    assert scan.to_arrow().to_pydict()["d"] == [date(1500, 3, 1), date(2024, 3, 1)]


@pytest.mark.spark
def test_data_file_with_a_text_that_is_not_utf_8_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    names = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])
    added = file(tmp_path, "a", pa.table({"name": names}))
    scan = snapshot_of(spark, tmp_path, [added], schemaString=schema(field("name", "string"))).scan()
    for read in (scan.to_arrow, lambda: scan.take(1)):
        with pytest.raises(DataFileError, match=rf"of version 0 .*{tmp_path}: .*UTF-8 in column name") as raised:
            read()
        assert raised.value.table == f"file://{tmp_path}"


@pytest.mark.parametrize(
    ("kind", "where"),
    [("timestamp", "id > 5"), ({"type": "array", "elementType": "timestamp", "containsNull": True}, None)],
)
def test_session_that_shifts_timestamps_is_refused_only_for_rows_with_timestamps(
    spark: SparkSession, tmp_path: Path, kind: Any, where: str | None
) -> None:
    one = file(tmp_path, "a", ids(1), stats=stats(1, 1, rows=1))
    timed = snapshot_of(spark, tmp_path / "timed", [one], schemaString=schema(field("id", "long"), field("t", kind)))
    plain = [file(tmp_path / "plain", "a", pa.table({"id": [1], "timestamp": [1]}))]
    others = schema(field("id", "long"), field("timestamp", "long"))
    setting = "spark.sql.parquet.int96TimestampConversion"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(UnsupportedSettingError, match=f"{setting}=true .* shifts the timestamps"):
            timed.scan(where).to_df()
        assert timed.scan(where).report.files == 1
        assert found(snapshot_of(spark, tmp_path / "plain", plain, schemaString=others).scan()) == [(1, 1)]
    finally:
        spark.conf.unset(setting)


def test_session_that_misses_columns_in_another_case_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    added = file(tmp_path, "a", pa.table({"ID": [1]}))
    snapshot = snapshot_of(spark, tmp_path, [added], schemaString=schema(field("id", "long")))
    setting = "spark.sql.caseSensitive"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(UnsupportedSettingError, match=f"{setting}=true .* columns as null"):
            snapshot.scan().to_df()
    finally:
        spark.conf.unset(setting)


def test_spark_that_reads_structs_as_null_is_refused_only_for_rows_with_structs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": [1], "s": [{"a": 1}]})
    kind = {"type": "struct", "fields": [field("a", "long"), field("b", "long")]}
    evolved = [file(tmp_path / "evolved", "a", rows)]
    nested = snapshot_of(
        spark, tmp_path / "evolved", evolved, schemaString=schema(field("id", "long"), field("s", kind))
    )
    flat = snapshot_of(spark, tmp_path / "flat", [file(tmp_path / "flat", "a", ids(1))])
    setting = "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing"
    spark.conf.set(setting, "true")
    try:
        with pytest.raises(UnsupportedSettingError, match=f"{setting}=true .* reads structs as null"):
            nested.scan("s is not null", columns=["id", "s.b"]).to_df()
        assert found(flat.scan()) == [(1,)]
    finally:
        spark.conf.unset(setting)
    assert found(nested.scan("s is not null", columns=["id", "s.b"])) == [(1, None)]
    monkeypatch.setattr(spark, "version", "4.0.5")
    with pytest.raises(UnsupportedServerError, match=r"^Spark 4\.0\.5 cannot read rows with structs: "):
        nested.scan().to_df()
    assert found(flat.scan()) == [(1,)]


def raising(message: str) -> Callable[..., NoReturn]:
    """Return a function that fails like Spark."""

    return Mock(side_effect=PySparkException(message))


def test_failure_on_a_value_is_a_predicate_error_only_with_a_predicate() -> None:
    divided = raising("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\nstack")
    message = r"it fails for some row: .*Division by zero\.\n1 / id > 0$"
    with pytest.raises(PredicateError, match=message) as raised, predicate_failures("1 / id > 0"):
        divided()
    assert raised.value.predicate == "1 / id > 0"
    for where, failing in ((None, divided), ("1 / id > 0", raising("[OUT_OF_MEMORY] No space."))):
        with pytest.raises(PySparkException), predicate_failures(where):
            failing()


@pytest.mark.parametrize("other", ["./a", "file:///{table}/a", "/{table}//a"])
@pytest.mark.parametrize("values", [("x", "x"), ("x", "y")])
def test_data_file_live_under_two_spellings_is_a_corrupt_log(
    spark: SparkSession, tmp_path: Path, other: str, values: tuple[str, str]
) -> None:
    other = other.format(table=str(tmp_path)[1:])
    first, second = ({"p": value} for value in values)
    adds = [file(tmp_path, "a", ids(1), partitionValues=first), add(other, partitionValues=second)]
    fields = schema(field("p", "string"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    with pytest.raises(CorruptLogError, match="name the same data file") as raised:
        snapshot.scan().to_df()
    assert "a and " in raised.value.reason or "and a " in raised.value.reason
    assert other.removeprefix("file://") in raised.value.reason


@pytest.mark.parametrize("path", ["day", "day/"])
def test_folder_in_place_of_a_data_file_is_an_error(spark: SparkSession, tmp_path: Path, path: str) -> None:
    (tmp_path / "day").mkdir()
    file(tmp_path, "day/a.parquet", ids(1))
    scan = snapshot_of(spark, tmp_path, [add(path), file(tmp_path, "b.parquet", ids(2))]).scan()
    with pytest.raises(DataPathError, match=rf"names {path}, .* it is a folder"):
        scan.to_df()


@pytest.mark.spark
@pytest.mark.parametrize("where", ["id + 1", "id > array(1)", "id = no_such_function(1)", "nope = 1", "id = "])
def test_invalid_arguments_are_reported_before_any_read(spark: SparkSession, tmp_path: Path, where: str) -> None:
    snapshot = snapshot_of(spark, tmp_path, [add("gone.parquet")])
    with pytest.raises(PredicateError) as raised:
        snapshot.scan(where)
    assert isinstance(raised.value, ValueError)
    assert where in str(raised.value)


@pytest.mark.spark
@pytest.mark.parametrize(
    "failing",
    one_in(
        2,
        [
            ("sequence(1, id, -1)[0] = 1", "Illegal sequence"),
            ("array()[0] = 1", "INVALID_ARRAY_INDEX"),
            ("cast(name as string) rlike '('", "Unclosed group|PATTERN"),
            ("id / 0 = 1", "DIVIDE_BY_ZERO"),
            ("assert_true(id > 5) is null", "is not true"),
        ],
    ),
)
def test_condition_that_fails_is_a_predicate_error(
    spark: SparkSession, tmp_path: Path, failing: tuple[str, str]
) -> None:
    where, reason = failing
    rows = pa.table({"id": [2], "name": ["x"]})
    fields = schema(field("id", "long"), field("name", "string"))
    scan = snapshot_of(spark, tmp_path, [file(tmp_path, "a", rows)], schemaString=fields).scan(where)
    with pytest.raises(PredicateError, match=reason) as raised:
        scan.take(1)
    assert "\n" not in raised.value.reason
    assert where in str(raised.value)
    assert isinstance(raised.value.__cause__, SPARK_FAILURES)


def test_unknown_column_is_a_value_error(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [add("gone.parquet")])
    with pytest.raises(ValueError, match="no column 'nope'"):
        snapshot.scan(columns=["id", "nope"])


@pytest.mark.slow
def test_damaged_checkpoint_is_replaced_or_reported(spark: SparkSession, tmp_path: Path) -> None:
    actions = [protocol(), metadata(), file(tmp_path, "a", ids(1, 2), stats=stats(1, 2))]
    log = write_log(tmp_path, {0: actions, 1: [file(tmp_path, "b", ids(5), stats=stats(5, 5, rows=1))]})
    (checkpoint,) = write_checkpoint(log, 0, "classic", actions)
    flip(checkpoint)
    for where in ("id < 5", None):
        snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
        assert found(snapshot.scan(where))[0] == (1,)
        assert snapshot.scan(where).report.files == 2
        DeltaLog.clear_cache()
    (log / f"{0:020}.json").unlink()
    snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
    with pytest.raises(CorruptLogError, match=checkpoint.name):
        _ = snapshot.scan("id < 5").report
    with pytest.raises(CorruptLogError, match=checkpoint.name):
        snapshot.scan().to_df()


def test_file_without_partition_values_of_the_table_is_a_corrupt_log(spark: SparkSession, tmp_path: Path) -> None:
    adds = [file(tmp_path, "a", ids(1), partitionValues={"p": "x"}), file(tmp_path, "b", ids(1), partitionValues=None)]
    fields = schema(field("p", "string"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    for where in (None, "p = 'x'", "p = 'x' and id = 1"):
        with pytest.raises(CorruptLogError, match="file b: expected partitionValues, found null"):
            snapshot.scan(where).to_df()


@pytest.mark.parametrize(
    "value", one_in(4, [("timestamp", "12:30"), ("date", "2024"), ("decimal(10,2)", "123.456"), ("boolean", "yes")])
)
def test_partition_value_in_a_form_that_only_a_cast_accepts_is_a_corrupt_log(
    spark: SparkSession, tmp_path: Path, value: tuple[str, str]
) -> None:
    kind, text = value
    adds = [file(tmp_path, "a", ids(1), partitionValues={"p": text})]
    fields = schema(field("p", kind), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    for where in (None, "p is not null", "p is null and id = 5"):
        with pytest.raises(CorruptLogError, match=f"expected a value of type {re.escape(kind)}, found '{text}'"):
            snapshot.scan(where).to_df()


def test_invalid_schema_is_a_corrupt_log(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [add("a")], schemaString="{")
    for where in (None, "id = 1"):
        with pytest.raises(CorruptLogError, match="metadata of version 0"):
            snapshot.scan(where).to_df()


@pytest.mark.spark
def test_type_that_spark_has_disabled_is_an_error_only_of_a_scan(spark: SparkSession, tmp_path: Path) -> None:
    kinds = schema(field("id", "long"), field("t", "time(6)"))
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1, 2))], schemaString=kinds)
    for where in (None, "id > 1"):
        with pytest.raises(CorruptLogError, match="version 0: Spark cannot read rows of this schema"):
            snapshot.scan(where).to_df()
    assert snapshot.schema["t"].dataType.simpleString() == "time(6)"
    assert snapshot.tables.files.count() == 1


@pytest.mark.parametrize("name", one_in(3, ["__DeltaSnap_Path", "__deltasnap_row", "_tmp_metadata_row_index"]))
def test_column_with_a_name_that_locates_rows_is_an_error_only_where_rows_are_located(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    rows = pa.table({name: pa.array([7, 8], pa.int64())})
    kinds = schema(field(name, "long"))
    plain = [file(tmp_path / "plain", "a", rows)]
    assert found(snapshot_of(spark, tmp_path / "plain", plain, schemaString=kinds).scan()) == [(7,), (8,)]
    adds = [file(tmp_path, "a", rows, deletionVector=inline_vector(0))]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=kinds, features=["deletionVectors"])
    with pytest.raises(DataFileError, match=f"it has the column '{name}', a name that the reader uses itself"):
        snapshot.scan().to_df().collect()


def test_number_of_rows_to_take_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    scan = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1, 2))]).scan()
    with pytest.raises(ValueError, match="Expected 0 rows or more, found -1"):
        scan.take(-1)
    assert scan.take(10**12).num_rows == 2
