"""Every format, on the rows of the golden tables."""

from __future__ import annotations

import csv
import json
from itertools import islice
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_assets.command.rows.row_options import RowFormat
from deltasnap_assets.command.rows.row_output import write_rows
from tests.core.scan.golden_rows_builders import cases, counted

MAX_ROWS = 200  # a table of decimals has 1,000,000


@pytest.mark.parametrize("expected", list(cases()))
def test_rows_are_written_completely_in_each_format(expected: Path, tmp_path: Path) -> None:
    file = pq.ParquetFile(expected)
    rows = pa.Table.from_batches(islice(file.iter_batches(MAX_ROWS), 1), schema=file.schema_arrow)
    few = rows.slice(0, 20)
    for form in get_args(RowFormat):
        write_rows(few if form == "table" else rows, form, tmp_path / form)

    names = rows.column_names
    assert counted(pq.read_table(tmp_path / "parquet"), names) == counted(rows, names)
    objects = [json.loads(line) for line in (tmp_path / "json").read_text(encoding="utf-8").splitlines()]
    assert [list(each) for each in objects] == [names] * rows.num_rows
    for column in names:
        nulls = sum(each[column] is None for each in objects)
        assert nulls == rows[column].null_count
    with (tmp_path / "csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == names
    assert len(lines) == 1 + rows.num_rows
    assert len((tmp_path / "table").read_text(encoding="utf-8").splitlines()) == 1 + few.num_rows
