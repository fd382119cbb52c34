"""Files of row changes that are left out for their partition values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import DeltaLog
from deltasnap_core.scan.changes.row_changes import RowChanges, rows_in_partitions
from deltasnap_core.snapshot.row_changes_of_log import read_row_changes
from tests.builders import add, field, metadata, protocol, schema, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

DAYS = {"none": None, "first": "2026-01-01", "second": "2026-01-02", "third": "2026-01-03"}


@pytest.fixture(scope="module")
def changes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> RowChanges:
    folder: Path = tmp_path_factory.mktemp("by-day")
    by_day = metadata(schemaString=schema(field("id"), field("day", "date")), partitionColumns=["day"])
    files: list[Any] = [add(name, partitionValues={"day": day}) for name, day in DAYS.items()]
    write_log(folder, {0: [protocol(), by_day, *files]})
    return read_row_changes(DeltaLog.for_table(spark, folder)._context, 0, 0, options=None)


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("day >= '2026-01-02'", ["second", "third"]),
        ("day is null", ["none"]),
        ("id > 1", [*DAYS]),
        ("day = '2026-01-01' or id = 3", [*DAYS]),
        ("1 / 0 = 1 and day > '2026-01-02'", ["third"]),
        ("day > '2026-01-01' and 1 / id = 1", ["second", "third"]),
    ],
)
def test_files_of_partitions_without_matches_are_left_out(changes: RowChanges, where: str, files: list[str]) -> None:
    assert [each.path for each in rows_in_partitions(changes.table, [*changes.rows], where)] == files


def test_files_of_a_table_without_partitions_are_kept(changes: RowChanges) -> None:
    unpartitioned = changes._partitioned_by((), version=0)
    assert len(rows_in_partitions(unpartitioned, [*changes.rows], "day is null")) == len(DAYS)
