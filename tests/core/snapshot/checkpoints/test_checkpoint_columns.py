"""The columns of a checkpoint: those of Delta on Spark, parsed statistics and partition values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.builders import add, field, mapped, metadata, protocol, schema, write_log
from tests.core.snapshot.checkpoints.checkpoint_writer_builders import CLASSIC, log_of, make_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_columns_match_the_spark_writer(spark: SparkSession, tmp_path: Path) -> None:
    log = make_table(tmp_path)
    log_of(spark, log).checkpoint()
    written = pq.read_schema(log / CLASSIC)
    add_type, remove_type = written.field("add").type, written.field("remove").type
    assert written.names == ["txn", "add", "remove", "metaData", "protocol", "domainMetadata"]
    assert [each.name for each in add_type] == [
        *("path", "partitionValues", "size", "modificationTime", "dataChange", "tags", "deletionVector", "baseRowId"),
        *("defaultRowCommitVersion", "clusteringProvider", "stats", "stats_parsed"),
    ]
    assert [each.name for each in remove_type] == [
        *("path", "deletionTimestamp", "dataChange", "extendedFileMetadata", "partitionValues", "size"),
        *("deletionVector", "baseRowId", "defaultRowCommitVersion"),
    ]
    assert _required(pa.struct(list(written))) == []
    bounds = pa.struct([("id", pa.int64())])
    assert add_type.field("stats_parsed").type == pa.struct(
        [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", bounds)]
    )


def _required(struct: pa.DataType, path: str = "") -> list[str]:
    found = []
    for each in struct:
        found += [] if each.nullable else [f"{path}.{each.name}"]
        found += _required(each.type, f"{path}.{each.name}") if pa.types.is_struct(each.type) else []
    return found


def test_statistics_and_partition_values_are_parsed_by_physical_name(spark: SparkSession, tmp_path: Path) -> None:
    by_day = schema(mapped("at", "timestamp", 1, "col-1"), mapped("day", "date", 2, "col-2"))
    stats = json.dumps({"numRecords": 1, "minValues": {"col-1": "2026-01-02T03:04:05.678Z"}, "nullCount": {"col-1": 0}})
    features = ["columnMapping", "deletionVectors"]
    table = {
        0: [
            protocol(3, 7, readerFeatures=features, writerFeatures=features),
            metadata(
                schemaString=by_day,
                partitionColumns=["day"],
                configuration={"delta.columnMapping.mode": "name", "delta.checkpoint.writeStatsAsJson": "false"},
            ),
            add("a", stats=stats, partitionValues={"col-2": "2026-01-02"}),
            add("b", stats=stats, partitionValues={"col-2": ""}),
        ]
    }
    log = write_log(tmp_path, table)
    written = log_of(spark, log).checkpoint()
    rows = pq.read_table(log / written.files[0].name)["add"].to_pylist()
    adds = {row["path"]: row for row in rows if row is not None}
    assert "stats" not in adds["a"]
    assert str(adds["a"]["partitionValues_parsed"]["col-2"]) == "2026-01-02"
    assert adds["b"]["partitionValues_parsed"]["col-2"] is None
    parsed = adds["a"]["stats_parsed"]
    assert list(parsed) == ["numRecords", "minValues", "maxValues", "nullCount", "tightBounds"]
    assert str(parsed["minValues"]["col-1"]).startswith("2026-01-02 03:04:05.678")
    assert (parsed["numRecords"], parsed["maxValues"], parsed["nullCount"]) == (1, None, {"col-1": 0})


BOUNDS: list[tuple[str, str | float, str | None]] = [
    ("timestamp", "2026-01-02T03:04:05.678", None),
    ("timestamp", "2026-01-02T03:04:05.678-01:00", "2026-01-02 04:04:05.678000"),
    ("date", "2026", None),
    ("date", "2026-01-02", "2026-01-02"),
    ("decimal(5,2)", 123.456, None),
    ("decimal(5,2)", 123.45, "123.45"),
    ("double", "1f", None),
    ("double", 1.5e3, "1500.0"),
    ("long", "1.5", None),
    ("long", 15, "15"),
    ("string", "1f", "1f"),
]


@pytest.mark.spark  # Sail writes timestamps with a zone
def test_a_bound_in_a_checkpoint_is_one_that_a_scan_uses(spark: SparkSession, tmp_path: Path) -> None:
    names = [f"c{place}" for place in range(len(BOUNDS))]
    fields = [field(name, data_type) for name, (data_type, _, _) in zip(names, BOUNDS, strict=True)]
    bounds = {name: bound for name, (_, bound, _) in zip(names, BOUNDS, strict=True)}
    stats = json.dumps({"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {}})
    described = metadata(schemaString=schema(*fields))
    log = write_log(tmp_path, {0: [protocol(), described, add("a", stats=stats), add("b")]})
    written = log_of(spark, log).checkpoint()
    rows = pq.read_table(log / written.files[0].name)["add"].to_pylist()
    found = {row["path"]: row["stats_parsed"] for row in rows if row is not None}
    parsed = {name: text for name, (_, _, text) in zip(names, BOUNDS, strict=True)}
    for kind in ("minValues", "maxValues"):
        assert {name: None if each is None else str(each) for name, each in found["a"][kind].items()} == parsed
    assert (found["a"]["numRecords"], found["a"]["nullCount"]) == (1, dict.fromkeys(names))
    assert found["b"] is None
