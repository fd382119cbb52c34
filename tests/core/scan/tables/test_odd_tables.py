"""Metadata tables of odd tables, their history as a DataFrame, and statistics as a struct by column."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
import sqlglot
from sqlglot import exp

from deltasnap_core import DeltaHistory, DeltaLog, Metadata
from deltasnap_core.scan.table_columns import TableColumns, distinct_names
from deltasnap_core.scan.tables.history_frame import HISTORY, history_frame
from deltasnap_core.scan.tables.readable_statistics import readable_statistics_sql
from tests.builders import add, field, metadata, protocol, schema, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from deltasnap_core.scan.tables.metadata_tables import MetadataTables


def tables(spark: SparkSession, folder: Path, columns: str, *adds: dict[str, Any], **others: Any) -> MetadataTables:
    features = protocol(3, 7, readerFeatures=["timestampNtz"], writerFeatures=["timestampNtz"])
    write_log(folder, {0: [features, metadata(schemaString=columns, **others), *adds]})
    return DeltaLog.for_table(spark, folder).snapshot.tables


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


AMBIGUOUS = schema(
    field("a.b"),
    field("a", struct(field("B"), field("c"))),
    field("d.e", struct(field("f"))),
    field("d", struct(field("e.f"))),
    field("`q`"),
)
NAMES = ["a.b", "`a`.`B`", "a.c", "`d.e`.`f`", "`d`.`e.f`", "```q```"]


def test_names_of_columns_are_distinct_and_lead_to_their_columns() -> None:
    described = Metadata(id="t", schema_string=AMBIGUOUS, partition_columns=(), configuration={})
    columns = TableColumns(described)
    assert distinct_names(columns.leaves) == NAMES
    assert [columns.named(name) for name in NAMES] == list(columns.leaves)


def test_columns_with_ambiguous_names_have_rows(spark: SparkSession, tmp_path: Path) -> None:
    counts = {"a.b": 1, "a": {"B": 2, "c": 3}, "d.e": {"f": 4}, "d": {"e.f": 5}, "`q`": 6}
    found = tables(spark, tmp_path, AMBIGUOUS, add("f", stats=json.dumps({"numRecords": 9, "nullCount": counts})))
    stats = found.files.toArrow()["stats"].to_pylist()[0]
    assert {name: each["null_count"] for name, each in stats.items()} == dict(zip(NAMES, range(1, 7), strict=True))
    assert [(row.column, row.null_count) for row in found.column_stats.collect()] == list(
        zip(NAMES, range(1, 7), strict=True)
    )


BEYOND = {
    "date": (["+10000-01-01", "-0001-12-31", "+20000-01-01"], ["0001-01-01", "9999-12-31"]),
    "timestamp": (
        ["+10000-01-01 00:00:00", "-0001-12-31 00:00:00", "+20000-01-01 00:00:00"],
        ["1900-01-01 00:00:00Z", "2026-12-31 23:59:59.999999Z"],
    ),
    "timestamp_ntz": (
        ["+10000-01-01 00:00:00", "-0001-12-31 00:00:00", "+20000-01-01 00:00:00"],
        ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"],
    ),
}


@pytest.mark.spark
@pytest.mark.parametrize("kind", BEYOND)
def test_values_outside_of_the_years_1_to_9999_are_null(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    beyond, within = BEYOND[kind]
    adds = [
        add(f"{text}/{number}", partitionValues={"p": text}, stats=json.dumps({"minValues": {"v": text}}))
        for text in (*beyond, *within)
        for number in range(2)
    ]
    columns = schema(field("v", kind), field("p", kind))
    found = tables(spark, tmp_path, columns, *adds, partitionColumns=["p"])
    files, partitions = found.files.collect(), found.partitions.collect()
    assert len(files) == 2 * len(partitions) == 2 * len(BEYOND[kind][0] + within)  # each value is a partition
    for values in ([row.partition.p for row in partitions], [row.stats.v.min for row in files]):
        assert sum(value is None for value in values) == len(values) * 3 / 5
    for name in ("files", "partitions", "optimize_candidates"):
        rows = getattr(found, name)
        assert rows.toPandas().shape[0] == rows.toArrow().num_rows == len(rows.collect())


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_first_and_last_times_are_rows_in_any_zone_of_the_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    texts = ["0001-01-01 00:00:00Z", "0001-01-01 19:00:00Z", "9999-12-31 23:59:59Z", "2026-01-01 00:00:00Z"]
    adds = [add(f"{number}", partitionValues={"p": text}) for number, text in enumerate(texts)]
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        try:
            columns = schema(field("p", "timestamp"))
            rows = tables(spark, tmp_path, columns, *adds, partitionColumns=["p"]).files
            found = [row.partition.p for row in rows.collect()]
            assert rows.toArrow().num_rows == len(found) == len(texts)
            assert 1 <= sum(value is not None for value in found) < len(texts)
        finally:
            patch.undo()
            time.tzset()


@pytest.mark.spark
def test_statistics_of_many_columns_are_those_of_each(spark: SparkSession, tmp_path: Path) -> None:
    kinds = ("long", "string", "date", "decimal(5,2)", "binary")
    columns = [field(f"c{number}", kinds[number % 5]) for number in range(230)]
    values = [{"long": n, "string": f"s{n}", "date": f"2026-01-{n:02}", "decimal(5,2)": n / 2} for n in (5, 9, 10)]
    bounds = [{each["name"]: value.get(each["type"]) for each in columns} for value in values]
    stats = [{"numRecords": 2, "minValues": b, "maxValues": b, "nullCount": {"c0": 1, "c229": 1}} for b in bounds]
    found = tables(spark, tmp_path, schema(*columns), *(add(f"{n}", stats=json.dumps(s)) for n, s in enumerate(stats)))
    rows = found.column_stats.collect()
    shown = {"long": ("5", "10"), "string": ("s10", "s9"), "date": ("2026-01-05", "2026-01-10"), "binary": (None, None)}
    shown["decimal(5,2)"] = ("2.50", "5.00")
    assert [(row.column, row.type, row.min, row.max) for row in rows] == [
        (each["name"], each["type"], *shown[each["type"]]) for each in columns
    ]
    assert [row.column for row in rows if row.null_count] == ["c0", "c229"]
    assert {(row.files, row.records, row.files_with_null_count) for row in rows} == {(3, 6, 0), (3, 6, 3)}
    assert {row.share_of_files for row in rows if row.type == "long"} == {1.0}


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_values_that_a_commit_states_are_kept_and_others_are_null(spark: SparkSession) -> None:
    maps = {"job": {"id": 1}, "notebook": {"id": 2}, "operation_metrics": {"rows": 3}, "tags": {"a": True}}
    operation: Any = {"operation": "WRITE", "operation_parameters": {"mode": "Append", "n": 1, "by": ["a"]}, **maps}
    first = DeltaHistory(version=3, timestamp=1_700_000_000_123, is_blind_append=False, read_version=2, **operation)
    frame = history_frame(spark, [first, DeltaHistory(version=2, timestamp=0)])
    assert frame.schema.names == HISTORY.names
    rows = [{name: value for name, value in row.asDict().items() if value is not None} for row in frame.collect()]
    assert round(rows[0].pop("timestamp").timestamp() * 1000) == first.timestamp
    assert rows[0] == {
        "version": 3,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "n": "1", "by": '["a"]'},
        "job": {"id": "1"},
        "notebook": {"id": "2"},
        "readVersion": 2,
        "isBlindAppend": False,
        "operationMetrics": {"rows": "3"},
        "tags": {"a": "true"},
    }
    assert [*rows[1]] == ["version", "timestamp"]


PHYSICAL = "delta.columnMapping.physicalName"
INNER = {"name": "b", "type": "string", "nullable": True, "metadata": {PHYSICAL: "col-b"}}
FIELDS = [
    {"name": "id", "type": "long", "nullable": True, "metadata": {PHYSICAL: "col-id"}},
    {"name": "a", "type": {"type": "struct", "fields": [INNER]}, "nullable": True, "metadata": {PHYSICAL: "col-a"}},
    {"name": "flag", "type": "boolean", "nullable": True, "metadata": {PHYSICAL: "col-flag"}},
]
COLUMNS = {"delta.columnMapping.mode": "name"}


def fields() -> dict[str, dict[str, set[str]]]:
    """Return, by column and field, the statistics that its SQL reads."""
    schema = json.dumps({"type": "struct", "fields": FIELDS})
    columns = TableColumns(Metadata(id="t", schema_string=schema, partition_columns=(), configuration=COLUMNS)).leaves
    sql = readable_statistics_sql(list(columns)).partition(", s -> ")[2].rpartition("), 0)")[0]
    whole = sqlglot.parse_one(sql, read="spark")
    return {
        column.this.name: {field.this.name: statistics_in(field.expression) for field in column.expression.expressions}
        for column in whole.expressions
    }


def statistics_in(node: exp.Expression) -> set[str]:
    return {".".join(part.name for part in column.parts) for column in node.find_all(exp.Column)}


def test_each_column_has_its_own_statistics_by_their_names_in_data_files() -> None:
    assert fields() == {
        name: {"min": {f"s.minValues.{path}"}, "max": {f"s.maxValues.{path}"}, "null_count": {f"s.nullCount.{path}"}}
        for name, path in {"id": "col-id", "a.b": "col-a.col-b", "flag": "col-flag"}.items()
    }
