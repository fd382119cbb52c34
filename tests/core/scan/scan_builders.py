"""Builders for the tests of scan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from deltasnap_core import DeltaLog
from tests.builders import Action, add, metadata, protocol, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltasnap_core import Scan, Snapshot


def file(table: Path, path: str, rows: pa.Table, *, name: str | None = None, **fields: Any) -> Action:
    """Write a data file at `name` (default: `path`) and return its add action."""
    target = table / (name or path)
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    return add(path, size=target.stat().st_size, **fields)


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def snapshot_of(spark: SparkSession, table: Path, adds: Iterable[Action], **fields: Any) -> Snapshot:
    features = fields.pop("features", None)
    first = protocol(3, 7, readerFeatures=features, writerFeatures=features) if features else protocol()
    write_log(table, {0: [first, metadata(**fields), *adds]})
    return DeltaLog.for_table(spark, table).snapshot


def found(scan: Scan) -> list[Any]:
    return sorted((tuple(row) for row in scan.to_df().collect()), key=repr)


def found_by(frames: Mapping[str, DataFrame]) -> dict[str, list[Any]]:
    """Return the sorted rows of each DataFrame, read in one job. All have the same columns."""
    named = (frame.select(F.lit(name).alias("name"), "*") for name, frame in frames.items())
    rows: dict[str, list[Any]] = {name: [] for name in frames}
    for name, *row in reduce(lambda one, other: one.union(other), named).collect():
        rows[name].append(tuple(row))
    return {name: sorted(each, key=repr) for name, each in rows.items()}


def stats(low: int, high: int, *, nulls: int = 0, rows: int = 2) -> str:
    return json.dumps(
        {"numRecords": rows, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": nulls}}
    )
