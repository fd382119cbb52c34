"""Builders for the tests of golden rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog
from tests.conftest import golden_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


MANY_ROWS = 10_000


# Two projects have a table of this name, which differ: the file of expected rows is of the other one.
TABLE_OF_ROWS = {"golden__table-with-columnmapping-mode-id": "krsgolden__table-with-columnmapping-mode-id"}


def cases() -> Iterator[Any]:
    folder = golden_folder()
    for file in sorted(folder.glob("rows/*/*.parquet")) if folder else ():
        yield pytest.param(file, id=f"{file.parent.name}-{file.stem}")


def counted(table: pa.Table, names: list[str]) -> Counter[str]:
    return Counter(repr([comparable(row[name]) for name in names]) for row in table.select(names).to_pylist())


def comparable(value: Any) -> Any:
    """A value in one form, for types with the same meaning."""
    if isinstance(value, dict):
        return {name: comparable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [comparable(inner) for inner in value]
    if hasattr(value, "tzinfo") and getattr(value, "tzinfo", None) is not None:
        return value.replace(tzinfo=None).isoformat()
    return value.isoformat() if hasattr(value, "isoformat") else value


def assert_rows(spark: SparkSession, golden: Path, expected: Path) -> None:
    name = expected.parent.name
    log = DeltaLog.for_table(spark, golden / "tables" / TABLE_OF_ROWS.get(name, name))
    version = None if expected.stem == "latest" else int(expected.stem)
    snapshot = log.update() if version is None else log.get_snapshot_at(version=version)
    wanted = pq.read_table(expected)
    found = snapshot.scan().to_df().toArrow()
    assert set(wanted.column_names) <= set(found.column_names)
    names = sorted(wanted.column_names)
    if wanted.num_rows > MANY_ROWS:
        assert ordered(found, wanted).equals(ordered(wanted, wanted))
    else:
        assert counted(found, names) == counted(wanted, names)


def ordered(table: pa.Table, like: pa.Table) -> pa.Table:
    """The rows of a table of plain values, sorted, with the columns and types of another one."""
    columns = table.select(like.column_names).cast(like.schema)
    return columns.sort_by([(name, "ascending") for name in columns.column_names]).combine_chunks()
