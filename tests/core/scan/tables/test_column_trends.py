"""The nulls and the extremes of columns, from the log alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import Phase, given, settings, strategies as st
from pyspark.sql import SparkSession

from deltasnap_core import DeltaLog, SnapshotOptions, open_table
from deltasnap_core.scan import version as version_module
from deltasnap_core.scan.table_columns import TableColumn
from deltasnap_core.scan.tables import column_totals as totals_module
from deltasnap_core.scan.tables.column_trends import ColumnTrend
from deltasnap_core.scan.tables.stated_statistics import StatedStatistics
from tests.builders import add, field, metadata, protocol, remove, schema, write_log

PLAIN = (("i", pa.int64()), ("b", pa.int8()), ("x", pa.float64()), ("d", pa.decimal128(12, 2)), ("s", pa.string()),
         ("day", pa.date32()), ("at", pa.timestamp("us", "UTC")), ("local", pa.timestamp("us")),
         ("yes", pa.bool_()), ("part", pa.string()), ("number", pa.int32()))  # fmt: skip
NESTED = pa.struct([("a", pa.int32()), ("b", pa.string())])
ROWS = pa.schema([*PLAIN, ("nested", NESTED)])
STATES_A_ZONE = tuple(map(int, version("deltalake").split(".")[:3])) < (1, 6, 6)
"""Whether deltalake states the bounds of a time without a zone as that of UTC: they are not used."""
TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1)).map(
    lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000, fold=0)
)
TEXTS = st.text(st.characters(codec="ascii", min_codepoint=32), max_size=20)
ROW = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "b": st.none() | st.integers(-128, 127),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False),
        "d": st.none() | st.decimals(-(10**9), 10**9, places=2, allow_nan=False),
        "s": st.none() | TEXTS,
        "day": st.none() | st.dates(date(1990, 1, 1)),
        "at": st.none() | TIMES.map(lambda time: time.replace(tzinfo=UTC)),
        "local": st.none() | TIMES,
        "yes": st.none() | st.booleans(),
        "part": st.none() | st.sampled_from(["x", "y z", "ä=/"]),
        "number": st.none() | st.integers(-2, 2),
        "nested": st.none()
        | st.fixed_dictionaries({"a": st.none() | st.integers(-9, 9), "b": st.none() | st.sampled_from(["x", "yy"])}),
    }
)


def trends_of(table: Path, **values: Any) -> dict[str, ColumnTrend]:
    found = open_table(table, **values).snapshot.tables.column_trend_values()
    return {trend.column: trend for trend in found}


@settings(max_examples=20, deadline=None, phases=[Phase.generate])
@given(files=st.lists(st.lists(ROW, min_size=1, max_size=8), min_size=1, max_size=4))
def test_numbers_are_those_of_the_rows(files: list[list[dict[str, Any]]], tmp_path_factory: Any) -> None:
    table = tmp_path_factory.mktemp("t")
    for rows in files:
        write_deltalake(table, pa.Table.from_pylist(rows, ROWS), mode="append", partition_by=["part", "number"])
    rows = DeltaTable(table).to_pyarrow_table()
    found, columns = trends_of(table), {name: rows[name] for name, _ in PLAIN}
    columns |= {f"nested.{name}": pc.struct_field(rows["nested"], name) for name in ("a", "b")}
    for name, column in columns.items():
        trend, extremes = found[name], pc.min_max(column).as_py()
        assert (trend.records, trend.nulls, trend.no_nulls) == (rows.num_rows, column.null_count, ""), name
        if name == "local" and STATES_A_ZONE and trend.no_extremes:
            continue
        if name != "yes":
            assert (trend.least, trend.greatest) == (extremes["min"], extremes["max"]), name
            assert trend.no_extremes == ""


def stated(records: int, low: Any, high: Any, nulls: int = 0, **others: Any) -> str:
    """Return statistics of the column `c`."""
    bounds = {"minValues": {"c": low}, "maxValues": {"c": high}}
    return json.dumps({"numRecords": records, **bounds, "nullCount": {"c": nulls}, **others})


def vector(deleted: int | None) -> dict[str, Any]:
    return {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 4, "cardinality": deleted}


def trend_of(folder: Path, kind: Any, *files: Mapping[str, Any]) -> ColumnTrend:
    """Return the trend of the column `c` of a table with these files."""
    features = ["deletionVectors", "timestampNtz"]
    first = [protocol(3, 7, readerFeatures=features), metadata(schemaString=schema(field("c", kind)))]
    adds = [add(f"f{place}", **file) for place, file in enumerate(files)]
    write_log(folder / "t", {0: [*first, *adds]})
    return trends_of(folder / "t")["c"]


LONG = "x" * 40
WIDER = "of {} files have bounds that may be wider than its values"


@pytest.mark.parametrize(
    ("kind", "files", "least", "greatest", "reason"),
    [
        ("string", [("a", LONG), ("b", "y")], "a", "y", ""),
        ("string", [("a", "b"), ("b", LONG)], "a", None, f"1 {WIDER.format(2)}"),
        ("string", [(LONG, LONG)], None, None, f"1 {WIDER.format(1)}"),
        ("string", [("ä" * 15, "ä" * 16)], "ä" * 15, None, f"1 {WIDER.format(1)}"),
        ("decimal(20,2)", [(1, 9999999999999.99)], Decimal(1), Decimal("9999999999999.99"), ""),
        ("decimal(20,2)", [(1, 10000000000000.25)], Decimal(1), None, f"1 {WIDER.format(1)}"),
        ("double", [("NaN", "NaN"), (1, 2)], None, None, "1 of 2 files do not state its bounds"),
        ("double", [("-Infinity", 3), (1, "Infinity")], float("-inf"), float("inf"), ""),
        ("double", [(1, "NaN"), (0.5, 2)], 0.5, None, "1 of 2 files do not state its bounds"),
        ("long", [(1, "text"), (0, 2)], 0, None, "1 of 2 files do not state its bounds"),
        ("long", [(1, 2**63)], 1, None, "1 of 1 files do not state its bounds"),
        ("date", [("2020-01-01", "2020-13-01")], date(2020, 1, 1), None, "1 of 1 files do not state its bounds"),
        (
            "timestamp",
            [("2020-01-01T00:00:00.000+02:00", "2020-01-01T05:00:00Z"), ("2019-12-31T23:00:00.500Z",) * 2],
            datetime(2019, 12, 31, 22, tzinfo=UTC),
            datetime(2020, 1, 1, 5, tzinfo=UTC),
            "",
        ),
    ],
)
def test_bound_that_may_be_wider_than_the_values_is_no_extreme(
    kind: str, files: list[tuple[Any, Any]], least: Any, greatest: Any, reason: str, tmp_path: Path
) -> None:
    trend = trend_of(tmp_path, kind, *({"stats": stated(5, *file)} for file in files))
    assert (trend.least, trend.greatest, trend.no_extremes) == (least, greatest, reason)


@pytest.mark.parametrize(
    ("deleted", "nulls", "expected"),
    [(2, 0, 0), (2, 5, 3), (2, 3, None), (5, 3, 0), (0, 3, 3)],
    ids=["no nulls", "only nulls", "some nulls", "no rows left", "nothing deleted"],
)
def test_nulls_of_a_file_with_a_deletion_vector_are_known_if_none_or_all_rows_are_null(
    deleted: int, nulls: int, expected: int | None, tmp_path: Path
) -> None:
    file = {"stats": stated(5, 1, 2, nulls, tightBounds=deleted == 0), "deletionVector": vector(deleted)}
    trend = trend_of(tmp_path, "long", file)
    assert (trend.records, trend.nulls, bool(trend.no_nulls)) == (5 - deleted, expected, expected is None)


def test_zero_has_no_sign_as_least_value(tmp_path: Path) -> None:
    trend = trend_of(tmp_path, "double", {"stats": stated(5, -0.0, 2.0)})
    assert str(trend.least) == "0.0"


def test_extreme_of_another_file_is_known_although_a_deletion_vector_hides_values(tmp_path: Path) -> None:
    hidden = {"stats": stated(5, 2, 9), "deletionVector": vector(1)}
    trend = trend_of(tmp_path, "long", hidden, {"stats": stated(5, 1, 8)})
    assert (trend.least, trend.greatest) == (1, None)
    assert trend.no_extremes == "1 of 2 files have bounds that may be wider than its values"


@pytest.mark.parametrize(
    ("stats", "no_nulls", "no_extremes"),
    [
        (None, "do not state their number of rows", "do not state its bounds"),
        ("{}", "do not state their number of rows", "do not state its bounds"),
        ("no JSON", "do not state their number of rows", "do not state its bounds"),
        ('{"numRecords":5}', "do not state its nulls", "do not state its bounds"),
        ('{"numRecords":5,"nullCount":{"c":5}}', "", ""),
        ('{"numRecords":0}', "", ""),
    ],
    ids=["no statistics", "empty", "invalid", "not indexed", "only nulls", "no rows"],
)
def test_file_without_statistics_of_a_column_makes_its_numbers_unknown(
    stats: str | None, no_nulls: str, no_extremes: str, tmp_path: Path
) -> None:
    trend = trend_of(tmp_path, "long", {"stats": stated(5, 1, 2)}, {"stats": stats})
    assert trend.no_nulls == (f"1 of 2 files {no_nulls}" if no_nulls else "")
    assert trend.no_extremes == (f"1 of 2 files {no_extremes}" if no_extremes else "")
    assert (trend.least, trend.greatest) == ((None, None) if no_extremes else (1, 2))


MOST = (1 << 63) - 1
UNBOUND, UNCOUNTED = "do not state its bounds", "do not state its nulls"
ODD_BOUNDS = [
    ("long", "2", "1", (None, None)),
    ("string", '"b"', '"a"', (None, None)),
    ("decimal(5,2)", "1.25", "1.24", (None, None)),
    ("long", "1.5", "3", (None, 3)),
    ("long", "1e3", "2000", (None, 2000)),
    ("integer", "-2147483649", "2147483647", (None, 2**31 - 1)),
    ("short", "-32768", "32768", (-(2**15), None)),
    ("byte", "-129", "127", (None, 127)),
    ("double", "-1e999", "5", (None, 5.0)),
    ("double", "5", "1" + "0" * 400, (5.0, None)),
    ("float", "-1e39", "3e38", (None, 3e38)),
    ("float", '"-Infinity"', "1", (float("-inf"), 1.0)),
    ("decimal(5,2)", "-1000", "999.99", (None, Decimal("999.99"))),
    ("decimal(20,2)", "1", "1" + "0" * 36, (Decimal(1), None)),
    ("decimal(5,2)", "0.001", "1", (None, Decimal(1))),
    ("decimal(5,2)", "1e-2147483647", "1", (None, Decimal(1))),
    ("decimal(5,2)", '"1e-2147483647"', "1", (None, Decimal(1))),
    ("decimal(5,2)", "1", "1e99999999999999999999", (Decimal(1), None)),
    ("date", '"0000-12-31"', '"9999-12-31"', (None, date.max)),
    ("date", '"0001-01-01"', '"+10000-01-01"', (date.min, None)),
    ("timestamp", '"0001-01-01T00:00:00+02:00"', '"2026-01-01T00:00:00Z"', (None, datetime(2026, 1, 1, tzinfo=UTC))),
    ("timestamp", '"2026-01-01T00:00:00Z"', '"9999-12-31T23:00:00-02:00"', (datetime(2026, 1, 1, tzinfo=UTC), None)),
    ("timestamp_ntz", '"0000-01-01T00:00:00"', '"9999-12-31T23:59:59"', (None, datetime(9999, 12, 31, 23, 59, 59))),
]


@pytest.mark.parametrize("also", [None, '{"minValues":{"c":"NaN"}}'], ids=["alone", "beside other odd ones"])
@pytest.mark.parametrize(("kind", "low", "high", "expected"), ODD_BOUNDS)
def test_bound_that_no_value_can_have_is_not_stated(
    kind: str, low: str, high: str, expected: tuple[Any, Any], also: str | None, tmp_path: Path
) -> None:
    odd = f'{{"numRecords":5,"minValues":{{"c":{low}}},"maxValues":{{"c":{high}}},"nullCount":{{"c":0}}}}'
    no_rows = {"stats": '{"numRecords":0,' + also[1:]} if also else {"stats": '{"numRecords":0}'}
    trend = trend_of(tmp_path, kind, {"stats": odd}, no_rows)
    assert (trend.least, trend.greatest) == expected
    assert trend.no_extremes == (f"1 of 2 files {UNBOUND}" if None in expected else "")


STATED = (
    "-0", "1e0", "1E2", "1.5", "1.230", "123.456", "5e-400", "0e-99999", "1e-2147483647", "1e2147483647", "1e999",
    "1e99999999999999999999", "1e-99999999999999999999", str(MOST), str(MOST + 1), "1" + "0" * 36, "1" + "0" * 400,
    "1" + "0" * 5000, "01", ".5", "5.", "true", "[]", "{}", '""', '"5"', '" 5"', '"+5"', '"1_0"', '"1e2"', '".5"',
    '"0x1F"', '"true"', '"NaN"', '"Infinity"', '"inf"', '"2020-01-01"', '"2020-01-01T00:00:00.1Z"', '"\\ud800"',
    '"1e-2147483647"',
)  # fmt: skip


@pytest.mark.parametrize("kind", ["long", "byte", "double", "float", "decimal(5,2)", "decimal(38,0)", "string", "date"])
def test_statistics_of_a_file_do_not_depend_on_those_beside_it(kind: str) -> None:
    column = TableColumn(path=("c",), physical_path=("c",), data_type=kind)

    def found(*texts: str) -> Sequence[Any]:
        every = StatedStatistics(pa.array(texts), [column])
        return [values[0].as_py() for values in (every.records, every.nulls(column), *every.bounds(column))]

    for value in STATED:
        for text in (f'{{"numRecords":{value}}}', f'{{"nullCount":{{"c":{value}}},"numRecords":5}}',
                     f'{{"maxValues":{{"c":{value}}},"numRecords":5}}'):  # fmt: skip
            assert repr(found(text)) == repr(found(text, '{"numRecords":{}}')), text


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("integer", "2147483648"),
        ("double", "1e999"),
        ("double", "NaN"),
        ("float", "1e39"),
        ("decimal(5,2)", "1000"),
        ("decimal(20,2)", "1000000000000000000"),
        ("decimal(5,2)", "1e-2147483647"),
        ("date", "0000-12-31"),
        ("timestamp", "9999-12-31T23:00:00-02:00"),
    ],
)
def test_partition_value_that_no_row_can_have_is_not_stated(kind: str, text: str, tmp_path: Path) -> None:
    described = metadata(schemaString=schema(field("p", kind), field("id")), partitionColumns=["p"])
    write_log(tmp_path, {0: [protocol(), described, add("f", partitionValues={"p": text}, stats=stated(4, 1, 1))]})
    trend = trends_of(tmp_path)["p"]
    assert (trend.nulls, trend.least, trend.greatest, trend.no_extremes) == (0, None, None, f"1 of 1 files {UNBOUND}")


def test_infinite_partition_value_is_an_extreme(tmp_path: Path) -> None:
    described = metadata(schemaString=schema(field("p", "double"), field("id")), partitionColumns=["p"])
    adds = [add(text, partitionValues={"p": text}, stats=stated(4, 1, 1)) for text in ("-Infinity", "1.5")]
    write_log(tmp_path, {0: [protocol(), described, *adds]})
    assert (trends_of(tmp_path)["p"].least, trends_of(tmp_path)["p"].greatest) == (float("-inf"), 1.5)


@pytest.mark.parametrize(
    ("records", "nulls", "deleted", "reason"),
    [
        (-5, 0, 0, "do not state their number of rows"),
        (-MOST - 1, 0, 5, "do not state their number of rows"),
        (5, 5, 6, "do not state their number of rows"),
        (5, 5, -1, "do not state their number of rows"),
        (5, 0, None, "do not state their number of rows"),
        (5, -1, 0, UNCOUNTED),
        (5, 6, 0, UNCOUNTED),
        (5, -1, 1, UNCOUNTED),
        (0, MOST, 0, ""),
        (5, 5, 5, ""),
    ],
)
def test_number_of_rows_or_nulls_that_no_file_can_have_is_not_stated(
    records: int, nulls: int, deleted: int | None, reason: str, tmp_path: Path
) -> None:
    odd = {"stats": stated(records, 3, 4, nulls), **({} if deleted == 0 else {"deletionVector": vector(deleted)})}
    trend = trend_of(tmp_path, "long", {"stats": stated(4, 1, 9, 1)}, odd)
    assert trend.no_nulls == (f"1 of 2 files {reason}" if reason else "")
    assert trend.records == (None if "rows" in reason else 4 if not reason else 9 - (deleted or 0))
    assert trend.nulls == (None if reason else 1)


@pytest.mark.parametrize("since", [None, 0])
def test_sums_beyond_64_bits_are_exact_and_null_in_the_rows_of_the_table(since: int | None, tmp_path: Path) -> None:
    trend = trend_of(tmp_path, "long", *[{"stats": stated(MOST, None, None, MOST), "modificationTime": 7_200_000}] * 3)
    assert (trend.records, trend.nulls, trend.null_share, trend.no_extremes) == (3 * MOST, 3 * MOST, 1.0, "")
    tables = open_table(tmp_path / "t").snapshot.tables
    if since is not None:
        assert tables.column_totals(since).trends()[0].new_null_share == 1.0
    (row,) = open_table(tmp_path / "t").column_trends().to_arrow().to_pylist()
    assert (row["records"], row["null_count"], row["null_share"]) == (None, None, 1.0)


def test_partition_values_are_exact_and_need_no_statistics(tmp_path: Path) -> None:
    columns = [field("day", "date"), field("at", "timestamp"), field("id")]
    described = metadata(schemaString=schema(*columns), partitionColumns=["day", "at"])
    files = [("2020-01-02", "2020-01-01 10:00:00"), ("", None), ("2019-05-01", "2020-01-01T10:00:00.500+01:00")]
    adds = [
        add(f"f{place}", partitionValues={"day": day, "at": at}, stats=stated(4, 1, 1), deletionVector=vector(1))
        for place, (day, at) in enumerate(files)
    ]
    write_log(tmp_path, {0: [protocol(3, 7, readerFeatures=["deletionVectors"]), described, *adds]})
    found = trends_of(tmp_path)
    day, at = found["day"], found["at"]
    assert (day.records, day.nulls, day.least, day.greatest) == (9, 3, date(2019, 5, 1), date(2020, 1, 2))
    times = datetime(2020, 1, 1, 9, 0, 0, 500_000, tzinfo=UTC), datetime(2020, 1, 1, 10, tzinfo=UTC)
    assert (at.nulls, at.least, at.greatest, at.no_extremes) == (3, *times, "")


def test_statistics_have_the_physical_names_of_mapped_columns(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c"}
    described = metadata(
        schemaString=schema(field("shown", **mapped)), configuration={"delta.columnMapping.mode": "name"}
    )
    write_log(tmp_path, {0: [protocol(2, 5), described, add("a", stats=stated(5, 1, 2, 1))]})
    assert [(each.column, each.nulls, each.greatest) for each in trends_of(tmp_path).values()] == [("shown", 1, 2)]


@pytest.mark.parametrize("kind", ["boolean", "binary", {"type": "array", "elementType": "long", "containsNull": True}])
def test_column_of_a_type_without_bounds_has_only_nulls(kind: Any, tmp_path: Path) -> None:
    trend = trend_of(tmp_path, kind, {"stats": '{"numRecords":4,"nullCount":{"c":3}}'})
    assert (trend.null_share, trend.least, trend.no_extremes) == (0.75, None, "bounds of its type are not read")


def test_version_without_files_has_no_rows_and_no_extremes(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a", stats="x")], 1: [remove("a")]})
    trend = trends_of(tmp_path)["id"]
    assert (trend.records, trend.nulls, trend.null_share, trend.least, trend.no_extremes) == (0, 0, None, None, "")


def test_rows_of_the_table_state_why_a_number_is_unknown(tmp_path: Path) -> None:
    trend_of(tmp_path, "long", {"stats": stated(4, 1, 2, 1)}, {"stats": '{"numRecords":4}'})
    assert open_table(tmp_path / "t").column_trends().to_arrow().to_pylist() == [
        {
            "column": "c",
            "type": "long",
            "records": 8,
            "null_count": None,
            "null_share": None,
            "min": None,
            "max": None,
            "null_count_unknown": "1 of 2 files do not state its nulls",
            "extremes_unknown": "1 of 2 files do not state its bounds",
        }
    ]


@pytest.mark.spark
def test_both_engines_find_the_same_trends_also_in_pieces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_module, "FILES_IN_PIECE", 3)
    monkeypatch.setattr(totals_module, "_COLUMNS_AT_ONCE", 2)
    files = [{"stats": stated(5, place, "NaN" if place == 3 else 2 * place, place % 2)} for place in range(10)]
    in_driver = trend_of(tmp_path, "double", *files)
    on_spark = DeltaLog.for_table(spark, tmp_path / "t", options=SnapshotOptions(engine="spark")).snapshot.tables
    assert (in_driver.nulls, in_driver.least, in_driver.greatest) == (5, 0, None)
    assert [in_driver] == list(on_spark.column_trend_values())
    (row,) = on_spark.column_trends.collect()
    assert (row["column"], row["null_share"], row["min"]) == ("c", 0.1, "0.0")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("records", "low", "nulls"), [(-5, 1, 0), (MOST, 1, MOST), (5, 9, 0), (5, 1, 6), (5, Decimal("1e999"), 0)]
)
def test_both_engines_find_the_same_trends_of_odd_statistics(
    records: int, low: Any, nulls: int, spark: SparkSession, tmp_path: Path
) -> None:
    odd = stated(records, "LOW", 2, nulls).replace('"LOW"', str(low))
    in_driver = trend_of(tmp_path, "double", {"stats": odd}, {"stats": stated(MOST, 1, 3)})
    on_spark = DeltaLog.for_table(spark, tmp_path / "t", options=SnapshotOptions(engine="spark")).snapshot.tables
    assert [in_driver] == list(on_spark.column_trend_values())
    (row,) = on_spark.column_trends.collect()
    assert (row["records"], row["max"]) == (None, in_driver.greatest and str(in_driver.greatest))
