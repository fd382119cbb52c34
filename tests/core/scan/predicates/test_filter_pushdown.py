"""The filters that Spark may push down into data files, and the rows that it would lose otherwise."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from deltalake import write_deltalake
from sqlglot import exp

from deltasnap_core import DeltaLog, Metadata
from deltasnap_core.scan.predicates.filter_pushdown import EVERY_OPERATOR, WITH_MARGIN, may_push_down, pushed_conditions
from deltasnap_core.scan.table_columns import TableColumns
from tests.builders import field, schema
from tests.core.scan.scan_builders import file, found, found_by, snapshot_of
from tests.thorough import one_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN = float("nan")
FLOATS = ("float", "double")


@pytest.mark.parametrize("data_type", [*FLOATS, "timestamp_ntz", "variant", "void", "string collate UNICODE", "struct"])
def test_type_that_is_not_listed_is_not_pushed_down(data_type: str) -> None:
    assert not may_push_down(data_type, is_widened=False, mode="none")


@pytest.mark.parametrize(
    "data_type", ["boolean", "byte", "short", "integer", "long", "string", "binary", "decimal(10,2)", "array", "map"]
)
def test_listed_type_is_pushed_down_unless_files_may_have_another(data_type: str) -> None:
    assert may_push_down(data_type, is_widened=False, mode="none")
    assert may_push_down(data_type, is_widened=False, mode="name")
    assert not may_push_down(data_type, is_widened=True, mode="none")
    assert not may_push_down(data_type, is_widened=False, mode="id")


def test_every_entry_has_a_reason() -> None:
    assert all(EVERY_OPERATOR.values())
    assert all(reason for _, reason in WITH_MARGIN.values())
    assert not {*FLOATS} & {*EVERY_OPERATOR, *WITH_MARGIN}


@pytest.mark.parametrize(
    ("where", "operators"),
    [
        ("at >= '2026-01-01'", [">="]), ("at > timestamp'2026-01-01'", [">="]), ("at < '2026-01-01'", ["<="]),
        ("'2026-01-01' <= at", [">="]), ("(at = '2026-01-01')", [">=", "<="]),
        ("s.on_day <=> '2026-01-01'", [">=", "<="]),
        ("at between '2026-01-01' and '2026-01-02'", [">=", "<="]), ("at <> '2026-01-01'", []), ("not at < '2026'", []),
        ("at = '2026-01-01' or id = 1", []), ("at in ('2026-01-01')", []), ("x > 5", []), ("x = '2026-01-01'", []),
        ("cast(at as date) = '2026-01-01'", []), ("day = '2026-01-01'", []), ("at > id", []), ("at is null", []),
        ("wide = '2026-01-01'", []), ("at > null", []), ("s.on_day = timestamp'2026-01-01'", []), ("id = 5", []),
        ("s.on_day >= date'2026-01-01'", [">="]), ("at <= date'2026-01-01'", ["<="]), ("'2026-01-01' > at", ["<="]),
        ("'2026-01-01' = at", ["<=", ">="]),
    ],
)  # fmt: skip
def test_our_time_conditions_compare_with_a_constant(where: str, operators: list[str]) -> None:
    found = list(pushed_conditions(parsed(where), columns()))
    assert [next(each for each in (">=", "<=") if f"` {each} " in text) for text in found] == operators


def test_no_condition_is_pushed_down_where_files_may_have_another_column_of_that_name() -> None:
    assert not list(pushed_conditions(parsed("at > '2026-01-01'"), columns("id")))


@pytest.mark.parametrize("other", ["at.x", "s"])
def test_no_condition_is_pushed_down_on_a_column_whose_path_with_dots_may_be_that_of_another(other: str) -> None:
    inner = {"type": "struct", "fields": [field("at", "timestamp"), field("at.x", "long")]}
    text = schema(field("at", "timestamp"), field(other, inner))
    found = TableColumns(Metadata.from_json({"id": "t", "schemaString": text, "partitionColumns": []}))
    where = "at > '2026-01-01'" if other == "at.x" else "s.at > '2026-01-01'"
    assert not list(pushed_conditions(parsed(where), found))


DAYS = ["2025-12-30", "2025-12-31", "2026-01-02", "2026-01-03"]
TIMES = ["2025-12-31 23:59:58.999999", "2025-12-31 23:59:59", "2026-01-01 00:00:01", "2026-01-01 00:00:01.000001"]
ON_DAYS = pytest.param("s.on_day", DAYS, marks=pytest.mark.spark)  # Sail subtracts no interval from a date


@pytest.mark.parametrize(("name", "values"), [("at", TIMES), ON_DAYS])
def test_conditions_keep_values_near_constants_since_1900(spark: SparkSession, name: str, values: list[str]) -> None:
    kept = {
        "> '2026-01-01'": values[1:4], "< '2026-01-01'": values[:3], "= '2026-01-01'": values[1:3],
        "= '1900-01-01'": [], "= '1899-12-31'": values, "= 'then'": values,
    }  # fmt: skip
    rows = spark.createDataFrame([(value,) for value in values], "text string")
    frame = rows.selectExpr("text", "cast(text as timestamp) as at", "struct(cast(text as date) as on_day) as s")
    conditions = [" and ".join(pushed_conditions(parsed(f"{name} {where}"), columns())) or "true" for where in kept]
    found = frame.selectExpr("text", *(f"{each} as c{number}" for number, each in enumerate(conditions))).collect()
    assert {where: [row.text for row in found if row[number]] for number, where in enumerate(kept, 1)} == kept


def parsed(where: str) -> exp.Expr:
    return sqlglot.parse_one(where, read="spark", into=exp.Condition)


def columns(mode: str = "none") -> TableColumns:
    changes = {"delta.typeChanges": [{"fromType": "date", "toType": "timestamp"}]}
    text = schema(
        field("at", "timestamp"), field("id", "long"), field("x", "double"), field("day", "date"),
        field("s", {"type": "struct", "fields": [field("on_day", "date")]}), field("wide", "timestamp", **changes),
    )  # fmt: skip
    fields: dict[str, Any] = {"id": "t", "schemaString": text, "partitionColumns": ["day"]}
    return TableColumns(Metadata.from_json({**fields, "configuration": {"delta.columnMapping.mode": mode}}))


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("name", one_in(3, ["x", "s.y", "s.t.z"]))
def test_rows_with_nan_are_kept_if_statistics_ignore_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    nested = [{"y": value, "t": {"z": value}} for value in (NAN, 3.0)]
    inner = pa.struct([("y", pa.float32()), ("t", pa.struct([("z", pa.float64())]))])
    write_deltalake(tmp_path, pa.table({"id": [1, 2], "x": [NAN, 3.0], "s": pa.array(nested, inner)}))
    snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
    forms = (
        "{} <> 3", "not ({} < 5)", "{} = double('NaN')", "{} not in (3, 4)", "{} between 4 and double('NaN')",
        "isnan({})",
    )  # fmt: skip
    conditions = [form.format(name) for form in forms]
    expected = {where: [(1,)] for where in conditions}
    assert found_by({each: snapshot.scan(each, columns=["id"]).to_df() for each in conditions}) == expected
    filtered = {each: snapshot.scan().to_df().where(each).select("id") for each in conditions[:3]}
    assert found_by(filtered) == {where: [(1,)] for where in filtered}


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
def test_negative_zero_is_found_behind_a_bloom_filter(spark: SparkSession, tmp_path: Path) -> None:
    numbers = pa.array([-0.0, 5.0])
    rows = pa.table({"x": numbers, "s": pa.StructArray.from_arrays([numbers], ["y"])})
    added = file(tmp_path, "a.parquet", rows)
    options = {"x": {"ndv": 10, "fpp": 0.01}, "s.y": {"ndv": 10, "fpp": 0.01}}
    pq.write_table(rows, tmp_path / "a.parquet", bloom_filter_options=options, use_dictionary=False)
    added["add"]["size"] = (tmp_path / "a.parquet").stat().st_size
    text = schema(field("x", "double"), field("s", {"type": "struct", "fields": [field("y", "double")]}))
    snapshot = snapshot_of(spark, tmp_path, [added], schemaString=text)
    conditions = ["x = 0", "x in (0D)", "x <=> 0D", "not (x <> 0)", "s.y = 0", "s.y in (0, 7)"]
    expected = {where: [(-0.0,)] for where in conditions}
    assert found_by({each: snapshot.scan(each, columns=["x"]).to_df() for each in conditions}) == expected


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
def test_constant_finer_than_the_times_of_a_file_loses_no_row(spark: SparkSession, tmp_path: Path) -> None:
    times = pa.array([datetime(2026, 1, 1, 10, tzinfo=UTC)], pa.timestamp("ms", "UTC"))
    adds = [file(tmp_path, "a.parquet", pa.table({"at": times}))]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("at", "timestamp")))
    conditions = (
        "at < '2026-01-01 10:00:00.0004'", "at <> '2026-01-01 10:00:00.0004'", "at not in ('2026-01-01 10:00:00.0004')",
        "at >= '2026-01-01 10:00:00'", "at <= '2026-01-01 10:00:00'", "at > '2026-01-01 09:59:59.999999'",
    )  # fmt: skip
    rows = found_by({each: snapshot.scan(each).to_df() for each in conditions})
    assert {each: len(found) for each, found in rows.items()} == dict.fromkeys(conditions, 1)


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
def test_dates_between_the_julian_and_gregorian_calendars_are_found(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table(
        {
            "d": pa.array([date(1582, 10, 10)], pa.date32()),
            "at": pa.array([datetime(1582, 10, 10, tzinfo=UTC)], pa.timestamp("us", "UTC")),
        }
    )
    adds = [file(tmp_path, "a.parquet", rows)]
    text = schema(field("d", "date"), field("at", "timestamp"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=text)
    forms = "{} = '1582-10-10'", "{} > '1582-10-06'", "{} in ('1582-10-10', '2026-01-01')"
    conditions = [form.format(name) for form in forms for name in ("d", "at")]
    found = found_by({each: snapshot.scan(each).to_df().selectExpr("1") for each in conditions})
    assert found == {where: [(1,)] for where in conditions}


@pytest.mark.usefixtures("compiled")
def test_decimal_wider_than_in_older_files_is_compared_after_reading(spark: SparkSession, tmp_path: Path) -> None:
    values = pa.array([Decimal("1.00"), Decimal("5.00")], pa.decimal128(9, 2))
    added = file(tmp_path, "a.parquet", pa.table({"d": values}))
    pq.write_table(pa.table({"d": values}), tmp_path / "a.parquet", store_decimal_as_integer=True)
    changes = {"delta.typeChanges": [{"fromType": "decimal(9,2)", "toType": "decimal(38,2)"}]}
    text = schema(field("d", "decimal(38,2)", **changes))
    snapshot = snapshot_of(spark, tmp_path, [added], schemaString=text, features=["typeWidening"])
    assert snapshot.scan("d < 21474836.49").to_df().count() == 2


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
def test_columns_mapped_by_id_with_swapped_names_are_compared_later(spark: SparkSession, tmp_path: Path) -> None:
    def numbered(name: str, number: int) -> pa.Field:
        return pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})

    rows = pa.table({"a": [1], "b": [100]}, pa.schema([numbered("a", 2), numbered("b", 1)]))
    fields = [
        field(name, "long", **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": name})
        for name, number in (("a", 1), ("b", 2))
    ]
    snapshot = snapshot_of(
        spark,
        tmp_path,
        [file(tmp_path, "a.parquet", rows)],
        schemaString=schema(*fields),
        configuration={"delta.columnMapping.mode": "id"},
        features=["columnMapping"],
    )
    assert found(snapshot.scan("a = 100")) == [(100, 1)]


NUMBERS = [100, 101]


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    "columns",
    one_in(
        3,
        [
            {"z.z": NUMBERS, "z": [{"z": 1}, {"z": 2}]},
            {"z": [{"z": 1}, {"z": 2}], "z.z": NUMBERS},
            {"a.b": [{"c": 100}, {"c": 101}], "a": [{"b": {"c": 1}}, {"b": {"c": 2}}]},
            {"s": [{"a.b": 100, "a": {"b": 1}}, {"a.b": 101, "a": {"b": 2}}]},
            {"a": [[1], [2]], "a.list.element": NUMBERS},
            {"z.z": ["x", "y"], "z": [{"z": 1}, {"z": 2}]},
        ],
    ),
    ids=str,
)
def test_column_with_a_dot_in_its_name_is_not_mistaken_for_a_field_of_a_struct(
    spark: SparkSession, tmp_path: Path, columns: dict[str, list[Any]]
) -> None:
    write_deltalake(tmp_path, pa.table({"id": [1, 2], **columns}))
    snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
    leaves = [leaf.path for leaf in snapshot.scanned_table().columns.leaves if leaf.data_type in ("long", "string")]
    names = [".".join(f"`{name}`" for name in path) for path in leaves]
    rows = snapshot.scan().to_df().selectExpr("id", *names).collect()
    wanted = {f"{name} = '{row[number]}'": [(row.id,)] for row in rows for number, name in enumerate(names, 1)}
    assert found_by({each: snapshot.scan(each, columns=["id"]).to_df() for each in wanted}) == wanted


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
def test_only_listed_filters_are_pushed_down(spark: SparkSession, tmp_path: Path) -> None:
    times = pa.array([datetime(2026, 1, 1, 10, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1], "x": [1.5], "at": times, "s": [{"a": 1, "y": 2.5}], "t": [{"a": 1}]})
    text = schema(
        field("id", "long"), field("x", "double"), field("at", "timestamp"),
        field("s", {"type": "struct", "fields": [field("a", "long"), field("y", "double")]}),
        field("t", {"type": "struct", "fields": [field("a", "long")]}),
    )  # fmt: skip
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a.parquet", rows)], schemaString=text)
    where = "id > 0 and x > 1 and at >= '2026-01-01' and s.y > 1 and s.a > 0 and t.a > 0"
    plan = pushed(snapshot.scan(where, columns=["id", "s.a"]).to_df())
    assert "GreaterThan(id,0)" in plan
    assert "GreaterThan(t.a,0)" in plan
    local = datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC).astimezone()  # the plan shows times in the zone of the JVM
    assert f"GreaterThanOrEqual(at,{local:%Y-%m-%d %H:%M:%S}.0)" in plan
    assert "(x" not in plan
    assert "(s" not in plan
    # A struct is read without unused fields.
    assert "s:struct<a:bigint>" in pushed(snapshot.scan("s.a > 0", columns=["s.a"]).to_df())


def pushed(frame: DataFrame) -> str:
    """The columns and filters of a DataFrame's file scan, from its plan."""
    frame.sparkSession.conf.set("spark.sql.maxMetadataStringLength", 1000)
    lines = [line for line in frame._jdf.queryExecution().executedPlan().toString().splitlines() if "FileScan" in line]
    return "".join(line[line.index("PushedFilters") :] for line in lines)
