"""Which files a scan reads: by partition values, by statistics in JSON and in checkpoints."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.scan.planning import chosen_files
from deltasnap_core.scan.skipping.data_skipping import skipping_of
from deltasnap_core.scan.version import frame_of
from tests.builders import add, field, metadata, protocol, schema, write_log
from tests.checkpoint_files import put_parsed_statistics, write_checkpoint
from tests.core.scan.scan_builders import file, found, found_by, ids, snapshot_of, stats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


CUT_STRINGS = {
    "a character beyond U+FFFF after the cut": ("🤣" * 20, "🤣" * 16 + "\ufffd"),
    "one right after the cut": ("a" * 32 + "😀", "a" * 32 + "\ufffd"),
    "one that the cut divides": ("a" * 31 + "😀x", "a" * 31 + "?\ufffd"),
}


def test_maximum_truncated_too_low_by_delta_loses_no_file(spark: SparkSession, tmp_path: Path) -> None:
    adds = []
    for number, (value, stored) in enumerate(CUT_STRINGS.values()):
        bounds = {"numRecords": 1, "minValues": {"name": stored[:-1]}, "maxValues": {"name": stored}}
        counted = json.dumps({**bounds, "nullCount": {"name": 0}})
        adds.append(file(tmp_path, str(number), pa.table({"name": [value]}), stats=counted))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("name", "string")))
    values = [value for value, _ in CUT_STRINGS.values()]
    file_of = {f"name = '{value}'": str(number) for number, value in enumerate(values)}
    file_of |= {form.format(values[0]): "0" for form in ("name >= '{}'", "name in ('{}', 'zz')", "name like '{}%'")}
    chosen = found_by({where: snapshot.scan(where).files.select("path") for where in (*file_of, "name = 'b'")})
    assert chosen.pop("name = 'b'") == []
    assert {where for where, files in chosen.items() if (file_of[where],) not in files} == set()


@pytest.mark.spark
def test_text_that_a_setting_gives_another_meaning_loses_no_file(spark: SparkSession, tmp_path: Path) -> None:
    z = {"name": "z"}
    bounds = {"numRecords": 1, "minValues": z, "maxValues": z, "nullCount": {"name": 0}}
    added = file(tmp_path, "a", pa.table({"name": ["z"], "other": ["z"]}), stats=json.dumps(bounds))
    names = schema(field("name", "string"), field("other", "string"))
    snapshot = snapshot_of(spark, tmp_path, [added], schemaString=names)
    setting = "spark.sql.ansi.doubleQuotedIdentifiers"
    spark.conf.set(setting, "true")
    try:
        assert found(snapshot.scan('name = "other"')) == [("z", "z")]
    finally:
        spark.conf.unset(setting)


@pytest.mark.slow
def test_partitions_and_statistics_select_files_and_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    adds = [
        file(tmp_path, "a", ids(1, 2), partitionValues={"day": "2026-01-01"}, stats=stats(1, 2)),
        file(tmp_path, "b", ids(5, 6), partitionValues={"day": "2026-01-01"}, stats=stats(5, 6)),
        file(tmp_path, "c", ids(1, 9), partitionValues={"day": "2026-01-01"}),
        file(tmp_path, "d", ids(1, 2), partitionValues={"day": "2026-01-02"}, stats=stats(1, 2)),
        file(tmp_path, "e", ids(1), partitionValues={"day": ""}, stats=stats(1, 1, rows=1)),
    ]
    snapshot = snapshot_of(
        spark, tmp_path, adds, schemaString=schema(field("id", "long"), field("day", "date")), partitionColumns=["day"]
    )
    scan = snapshot.scan("day = '2026-01-01' and ID > 4 and id % 2 = 1")
    size = adds[0]["add"]["size"]
    assert sorted(row.path for row in scan.files.collect()) == ["b", "c"]
    assert (scan.report.files, scan.report.files_after_partitions, scan.report.files_after_statistics) == (5, 3, 2)
    assert scan.report.bytes_after_partitions == pytest.approx(3 * size, abs=size)
    assert scan.report.used == ("day = '2026-01-01'", "ID > 4")
    assert (snapshot.computed_state.num_of_files, snapshot.scan(scan.where).report) == (5, scan.report)
    assert scan.report.unused == ("id % 2 = 1",)
    assert found(scan) == [(5, date(2026, 1, 1)), (9, date(2026, 1, 1))]
    assert found(snapshot.scan("day is null", columns=["DAY", "id"])) == [(None, 1)]
    assert found(snapshot.scan("day > '2030-01-01'")) == []


def test_zero_equals_negative_zero(spark: SparkSession, tmp_path: Path) -> None:
    numbers = pa.array([-0.0, -0.0, -7.5], pa.float64())
    rows = pa.table({"x": numbers, "s": pa.StructArray.from_arrays([numbers.cast(pa.float32())], ["y"])})
    text = schema(field("x", "double"), field("s", {"type": "struct", "fields": [field("y", "float")]}))
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a.parquet", rows)], schemaString=text)
    conditions = "x = 0", "x in (0, 5)", "x >= 0D", "s.y <=> 0"
    found = found_by({where: snapshot.scan(where, columns=["x"]).to_df() for where in conditions})
    assert found == {where: [(-0.0,), (-0.0,)] for where in conditions}


def test_conditions_supported_only_by_spark_filter_rows(spark: SparkSession, tmp_path: Path) -> None:
    adds = [file(tmp_path, "a", ids(1, 2), stats=stats(1, 2)), file(tmp_path, "b", ids(5), stats=stats(5, 5))]
    scan = snapshot_of(spark, tmp_path, adds).scan("id = 1 and id !> 1")
    assert found(scan) == [(1,)]


def test_invalid_json_statistics_keep_a_file(spark: SparkSession, tmp_path: Path) -> None:
    broken = ["{", "[]", '{"minValues": 7}', '{"numRecords": "x", "minValues": {"id": {}}}', "null", ""]
    adds = [file(tmp_path, f"f{number}", ids(5), stats=text) for number, text in enumerate(broken)]
    scan = snapshot_of(spark, tmp_path, adds).scan("id = 5")
    assert scan.report.files_after_statistics == len(broken)
    assert len(found(scan)) == len(broken)


@pytest.mark.spark
def test_only_requested_struct_statistics_of_a_checkpoint_are_read(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [protocol(), metadata(schemaString=schema(field("id", "long"), field("at", "timestamp")))]
    moments = [datetime(2026, 1, day, 12, 0, 0, 1500, UTC) for day in (1, 2)]
    adds = [
        file(tmp_path, name, pa.table({"id": [low], "at": pa.array([moment], pa.timestamp("us", "UTC"))}))
        for name, low, moment in zip("ab", (1, 5), moments, strict=True)
    ]
    log = write_log(tmp_path, {0: [*first, *adds], 1: [file(tmp_path, "c", ids(9), stats=stats(9, 9, rows=1))]})
    (checkpoint,) = write_checkpoint(log, 0, "classic", [*first, *adds])
    bounds = pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    counts = pa.struct([("id", pa.int64()), ("at", pa.int64())])
    parts = [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)]
    values = [
        {"numRecords": 1, "minValues": value, "maxValues": value, "nullCount": {"id": 0, "at": 0}}
        for value in ({"id": low, "at": moment} for low, moment in zip((1, 5), moments, strict=True))
    ]
    put_parsed_statistics(checkpoint, pa.array([None, None, *values], pa.struct(parts)), keep_json=True)
    snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
    chosen = {
        "id = 5": ["b"], "id >= 5": ["b", "c"], "at <= timestamp'2026-01-01 12:00:00.0015Z'": ["a", "c"],
        "id is null": [],
    }  # fmt: skip
    files = found_by({where: snapshot.scan(where).files.select("path") for where in chosen})
    assert files == {where: [(path,) for path in paths] for where, paths in chosen.items()}
    skipping = skipping_of("id = 5", snapshot.scanned_table().columns)
    files_with_values = snapshot.versions.version.files(skipping=skipping.statistics_read)
    chosen_files(frame_of(files_with_values, snapshot.scanned_table()), skipping).explain("formatted")
    plan = capsys.readouterr().out
    assert "stats_parsed:struct<maxValues:struct<id:bigint>" in plan.replace(" ", "")
    assert found(snapshot.scan("id > 4", columns=["id"])) == [(5,), (9,)]


@pytest.mark.filterwarnings("ignore")
def test_partition_value_that_a_checkpoint_has_twice_is_that_of_scans(spark: SparkSession, tmp_path: Path) -> None:
    text, twice = schema(field("id", "long"), field("p", "string")), [("p", "x"), ("p", "y")]
    first = [protocol(), metadata(schemaString=text, partitionColumns=["p"])]
    log = write_log(tmp_path, {0: first})
    write_checkpoint(log, 0, "classic", [*first, file(tmp_path, "f", ids(1), partitionValues=twice)])
    snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
    found = {where: [row.p for row in snapshot.scan(where).to_df().collect()] for where in (None, "p = 'x'", "p = 'y'")}
    assert found == {None: ["x"], "p = 'x'": ["x"], "p = 'y'": []}


@pytest.mark.slow
def test_scan_skips_by_statistics_that_all_files_omits(spark: SparkSession, tmp_path: Path) -> None:
    adds = [file(tmp_path, name, ids(low), stats=stats(low, low, rows=1)) for name, low in (("a", 1), ("b", 5))]
    snapshot_of(spark, tmp_path, adds)
    snapshot = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(load_stats=False)).snapshot
    assert snapshot.all_files.where("stats is not null").count() == 0
    assert [row.path for row in snapshot.scan("id = 5").files.collect()] == ["b"]


def test_bound_in_a_form_that_only_a_cast_accepts_keeps_the_file(spark: SparkSession, tmp_path: Path) -> None:
    bounds = {"d": "2024", "w": "12:30", "n": "1.26"}
    described = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(bounds, 0)}
    adds = [file(tmp_path, "a", ids(1), stats=json.dumps(described))]
    fields = schema(field("d", "date"), field("w", "timestamp_ntz"), field("n", "decimal(4,1)"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, features=["timestampNtz"])
    values = {"d": "'2024-01-01'", "w": "'2024-01-01'", "n": "1.3"}
    conditions = [f"{name} {symbol} {value}" for name, value in values.items() for symbol in "<>"]
    chosen = found_by({where: snapshot.scan(where).files.select("path") for where in conditions})
    assert chosen == {where: [("a",)] for where in conditions}


@pytest.mark.slow
def test_condition_that_fails_on_a_partition_value_is_left_to_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    adds = [
        file(tmp_path, name, ids(number), partitionValues={"p": name}, stats=stats(number, number, rows=1))
        for number, name in enumerate(("1", "2", "x"))
    ]
    fields = schema(field("p", "string"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    failing = snapshot.scan("id < 2 and cast(p as int) = 2")
    assert {row.path for row in failing.files.collect()} == {"1", "2"}
    assert failing.report.unused == ("cast(p as int) = 2",)


@pytest.mark.spark
def test_times_do_not_depend_on_the_timestamp_type_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    text = json.dumps(
        {
            "numRecords": 1,
            "minValues": {"at": "2026-01-01T22:00:00.000Z"},
            "maxValues": {"at": "2026-01-01T22:00:00.000Z"},
        }
    )
    rows = pa.table({"at": pa.array([datetime(2026, 1, 1, 22, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    adds = [file(tmp_path, "a", rows, stats=text, partitionValues={"p": "2026-01-01T22:00:00.000000Z"})]
    fields = schema(field("at", "timestamp"), field("p", "timestamp"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    settings = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.session.timeZone": "Asia/Kolkata"}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        for column in ("at", "p"):
            assert snapshot.scan(f"{column} = '2026-01-02 03:30:00'").to_df().count() == 1
            assert snapshot.scan(f"{column} = timestamp'2026-01-01 22:00:00Z'").to_df().count() == 1
    finally:
        spark.conf.unset("spark.sql.timestampType")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_files_without_statistics_are_kept_in_a_session_with_the_two_valued_logic_of_spark_2(
    spark: SparkSession, tmp_path: Path
) -> None:
    adds = [file(tmp_path, "a", ids(1)), file(tmp_path, "b", ids(2), stats=stats(2, 2, rows=1))]
    snapshot = snapshot_of(spark, tmp_path, adds)
    setting = "spark.sql.legacy.followThreeValuedLogicInArrayExists"
    spark.conf.set(setting, "false")
    try:
        assert found(snapshot.scan("id = 1")) == [(1,)]
    finally:
        spark.conf.unset(setting)


@pytest.mark.spark
@pytest.mark.parametrize("hour", [0, 1])
def test_ambiguous_time_text_matches_both_times(spark: SparkSession, tmp_path: Path, hour: int) -> None:
    moment = datetime(2020, 10, 25, hour, 30, tzinfo=UTC)  # clocks are put back from 3 to 2 at 1:00 UTC
    bound = {"at": moment.isoformat().replace("+00:00", ".000Z")}
    text = json.dumps({"numRecords": 1, "minValues": bound, "maxValues": bound, "nullCount": {"at": 0}})
    adds = [file(tmp_path, "a", pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))}), stats=text)]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("at", "timestamp")))
    try:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        for where in ("at like '2020-10-25 02:30:00'", "cast(at as string) = '2020-10-25 02:30:00'"):
            assert snapshot.scan(where).to_df().count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_file_with_only_nulls_is_skipped_by_a_comparison(spark: SparkSession, tmp_path: Path) -> None:
    nulls = json.dumps({"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"id": 2}})
    adds = [file(tmp_path, "nulls", pa.table({"id": pa.array([None, None], pa.int64())}), stats=nulls)]
    snapshot = snapshot_of(spark, tmp_path, adds)
    assert snapshot.scan("id != 5").report.files_after_statistics == 0
    assert snapshot.scan("id is null").report.files_after_statistics == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("bound", "moment", "kept", "left_out"),
    [
        (
            "2026-01-01T00:00:00.123Z",
            datetime(2026, 1, 1, 0, 0, 0, 123456, UTC),
            "at > timestamp'2026-01-01 00:00:00.123400Z'",
            "at > timestamp'2026-01-01 00:00:00.124001Z'",
        ),
        (  # Liberia's offset then was -00:44:30
            "1971-06-01T00:00:00.000-00:44",
            datetime(1971, 6, 1, 0, 44, 30, 0, UTC),
            "at > timestamp'1971-06-01 00:44:29Z'",
            "at > timestamp'1971-06-01 00:45:29Z'",
        ),
    ],
    ids=["milliseconds", "offsets with seconds"],
)
def test_timestamp_within_the_truncation_of_its_maximum_is_kept(
    spark: SparkSession, tmp_path: Path, bound: str, moment: datetime, kept: str, left_out: str
) -> None:
    text = json.dumps({"numRecords": 1, "minValues": {"at": bound}, "maxValues": {"at": bound}, "nullCount": {"at": 0}})
    rows = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    adds = [file(tmp_path, "a", rows, stats=text)]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("at", "timestamp")))
    assert len(found(snapshot.scan(kept))) == 1
    assert snapshot.scan(left_out).report.files_after_statistics == 0


@pytest.mark.spark
def test_decimal_that_spark_rounds_for_a_comparison_is_found(spark: SparkSession, tmp_path: Path) -> None:
    values = {"a": ((38, 0), "1"), "b": ((38, 18), "0.4"), "c": ((10, 2), "0.7")}
    bound = "{" + ",".join(f'"{name}":{value}' for name, (_, value) in values.items()) + "}"
    text = f'{{"numRecords":1,"minValues":{bound},"maxValues":{bound},"nullCount":{{"a":0,"b":0,"c":0}}}}'
    rows = {name: pa.array([Decimal(value)], pa.decimal128(*kind)) for name, (kind, value) in values.items()}
    fields = [field(name, f"decimal({kind[0]},{kind[1]})") for name, (kind, _) in values.items()]
    adds = [file(tmp_path, "a", pa.table(rows), stats=text)]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(*fields))
    conditions = (
        "a <= 0.5", "a <=> 0.5", "b <= cast(0 as decimal(38,0))",
        "c in (0.5, 12345678901234567890123456789012345678)",
    )  # fmt: skip
    kept = found_by({where: snapshot.scan(where).to_df().selectExpr("1") for where in conditions})
    assert kept == {where: [(1,)] for where in conditions}


@pytest.mark.spark
def test_dates_that_spark_converts_to_the_julian_calendar_are_found(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(1500, 1, 1, tzinfo=UTC)
    rows = pa.table({"on_day": [moment.date()], "at": pa.array([moment], pa.timestamp("us", "UTC"))})
    bound = {"on_day": "1500-01-01", "at": "1500-01-01T00:00:00.000Z"}
    nulls = {"on_day": 0, "at": 0}
    text = json.dumps({"numRecords": 1, "minValues": bound, "maxValues": bound, "nullCount": nulls})
    kinds = schema(field("on_day", "date"), field("at", "timestamp"))
    setting = "spark.sql.parquet.datetimeRebaseModeInRead"
    spark.conf.set(setting, "LEGACY")
    try:
        snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a", rows, stats=text)], schemaString=kinds)
        (found,) = snapshot.scan().to_df().selectExpr("string(on_day) as on_day", "string(at) as at").collect()
        assert found.on_day == "1499-12-23"
        conditions = (
            "on_day < date'1500-01-01' and on_day = date'1499-12-23'",
            f"at < timestamp'1500-01-01' and at = timestamp'{found.at}'",  # depends on the zone of the JVM
            "cast(at as date) < date'1500-01-01' and cast(at as date) = date'1499-12-23'",
        )
        kept = found_by({where: snapshot.scan(where).to_df().selectExpr("1") for where in conditions})
        assert kept == {where: [(1,)] for where in conditions}
    finally:
        spark.conf.unset(setting)


@pytest.mark.spark
def test_sums_of_sizes_beyond_64_bits_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    huge = [add(path, size=2**62, stats=stats(1, 2)) for path in ("a", "b")]
    write_log(tmp_path, {0: [protocol(), metadata()], 1: huge})
    log = DeltaLog.for_table(spark, tmp_path)
    report = log.snapshot.scan("id = 1").report
    assert (report.bytes_in_files, report.bytes_after_statistics) == (2**63, 2**63)
    summary = log.file_changes(1, 0).summary
    assert (summary.added_bytes, summary.removed_bytes) == (0, 2**63)
    (partition,) = log.snapshot.tables.partitions.collect()
    assert (partition.files, partition.bytes, partition.records) == (2, None, 4)


@pytest.mark.spark
def test_clocks_set_back_by_a_day_hide_no_date(spark: SparkSession, tmp_path: Path) -> None:
    times = [datetime(1867, 10, 18, 23, tzinfo=UTC), datetime(1867, 10, 19, 4, tzinfo=UTC)]
    first, last = ({"at": time.isoformat().replace("+00:00", ".000Z")} for time in times)
    text = json.dumps({"numRecords": 2, "minValues": first, "maxValues": last, "nullCount": {"at": 0}})
    adds = [file(tmp_path, "a", pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))}), stats=text)]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("at", "timestamp")))
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/Juneau")
        rows = snapshot.scan().to_df().orderBy("at").selectExpr("cast(cast(at as date) as string)").collect()
        assert [row[0] for row in rows] == ["1867-10-19", "1867-10-18"]
        for where in ("cast(at as date) = date'1867-10-19'", "cast(at as date) > date'1867-10-18'"):
            assert snapshot.scan(where).report.files_after_statistics == 1
            assert snapshot.scan(where).to_df().count() == snapshot.scan().to_df().where(where).count()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
