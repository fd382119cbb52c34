"""Builders for the tests of row changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltasnap_core import DeltaLog
from tests.builders import Action, field, metadata, protocol, remove, schema, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FEED = {"delta.enableChangeDataFeed": "true"}


ID = schema(field("id", "long"))


ID_AND_TEXT = schema(field("id", "long"), field("text", "string"))


WITH_FEED = {
    "dat__cdf": (0, 2),
    "drs__cdf-table": (0, 3),
    "drs__checkpoint-cdf-table": (3, 5),
    "drs__simple_table_with_cdc": (0, 2),
    "krs__cdf-table": (0, 3),
}
"""Golden tables whose change data feed deltalake reads, with the versions to read."""


def changes(frame: DataFrame) -> list[tuple[Any, ...]]:
    """The changes without their time: the table's columns, the type, the version."""
    rows = frame.drop("_commit_timestamp").toArrow().to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


def table_of(path: Path, versions: Mapping[int, Iterable[Action]], **fields: Any) -> Path:
    """Write a log whose first commit has protocol and metadata."""
    fields.setdefault("schemaString", ID)
    features = fields.pop("features", None)
    start = protocol(3, 7, readerFeatures=features, writerFeatures=features) if features else protocol(1, 4)
    first, *later = sorted(versions)
    write_log(path, {first: [start, metadata(**fields), *versions[first]], **{v: versions[v] for v in later}})
    return path


def removed(action: Action, **fields: Any) -> Action:
    return remove(action["add"]["path"], **fields)


def assert_as_deltalake(spark: SparkSession, golden: Path, name: str) -> None:
    from deltalake import DeltaTable

    first, last = WITH_FEED[name]
    path = golden / "tables" / name
    feed = DeltaTable(str(path)).load_cdf(starting_version=first, ending_version=last)
    expected = pa.table(feed.read_all()).drop_columns("_commit_timestamp")
    found = DeltaLog.for_table(spark, path).row_changes(first, last).drop("_commit_timestamp").toArrow()
    assert found.num_rows == expected.num_rows > 0
    names = sorted(expected.column_names)
    assert sorted(map(repr, found.select(names).to_pylist())) == sorted(map(repr, expected.select(names).to_pylist()))
