"""The rows of the golden tables have the types and values that deltalake returns, in Arrow and in polars."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from deltasnap_core import open_table
from tests.conftest import golden_folder
from tests.thorough import one_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MANY_ROWS = 10_000


def tables() -> list[Path]:
    folder = golden_folder()
    found = sorted(folder.glob("rows/*")) if folder else ()
    return [rows.parents[1] / "tables" / rows.name for rows in found]


def known_to_deltalake(table: Path) -> pa.Table:
    try:
        return DeltaTable(table).to_pyarrow_table()
    except (DeltaError, pa.ArrowInvalid, ValueError, OSError) as error:
        pytest.skip(f"deltalake cannot read it: {error}")


@pytest.mark.parametrize("table", one_in(3, tables()), ids=lambda table: table.name)
def test_rows_and_types_are_those_of_deltalake(spark: SparkSession, table: Path) -> None:
    expected = known_to_deltalake(table)
    opened = open_table(table, spark=spark)
    rows = opened.scan()
    found = rows.to_arrow()
    assert found.schema == pa.schema([field.with_nullable(True) for field in expected.schema])
    assert rows.count() == found.num_rows == expected.num_rows
    if found.num_rows > MANY_ROWS:
        return
    assert rows.to_polars().schema == pl.from_arrow(expected).schema  # type: ignore[union-attr]
    if opened.snapshot.column_mapping_mode == "none":  # deltalake returns null for columns with another name in files
        assert Counter(map(repr, found.to_pylist())) == Counter(map(repr, expected.to_pylist()))
