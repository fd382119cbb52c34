"""Every format, on the rows of the golden tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from deltasnap_assets.command.rows.row_options import RowFormat
from deltasnap_assets.command.rows.row_output import collect_rows, write_rows
from deltasnap_core import DeltaLog
from tests.core.scan.test_golden_rows import TABLE_OF_ROWS, cases, counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("expected", list(cases()))
def test_rows_are_written_whole_in_each_format(
    spark: SparkSession, golden: Path, expected: Path, tmp_path: Path
) -> None:
    name = expected.parent.name
    log = DeltaLog.for_table(spark, golden / "tables" / TABLE_OF_ROWS.get(name, name))
    snapshot = log.update() if expected.stem == "latest" else log.get_snapshot_at(int(expected.stem))
    rows = collect_rows(snapshot.scan().to_df(), None).rows
    few = rows.slice(0, 100)
    for form in RowFormat:
        write_rows(few if form is RowFormat.TABLE else rows, form, tmp_path / form)

    wanted = pq.read_table(expected)
    names = sorted(wanted.column_names)
    assert counted(pq.read_table(tmp_path / "parquet"), names) == counted(wanted, names)
    objects = [json.loads(line) for line in (tmp_path / "json").read_text(encoding="utf-8").splitlines()]
    assert [list(each) for each in objects] == [rows.column_names] * wanted.num_rows
    for column in names:
        nulls = sum(each[column] is None for each in objects)
        assert nulls == wanted[column].null_count
    with (tmp_path / "csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == rows.column_names
    assert len(lines) == 1 + wanted.num_rows
    assert len((tmp_path / "table").read_text(encoding="utf-8").splitlines()) == 1 + few.num_rows
