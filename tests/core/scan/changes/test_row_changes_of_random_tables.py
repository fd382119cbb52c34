"""Row changes of random tables: without a feed compared with all rows, with a feed compared with deltalake."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltasnap_core import DeltaLog
from tests.core.scan.changes.row_changes_of_random_tables_builders import (
    assert_no_row_wrong,
    changes_of,
    counted,
    expected_changes,
    plain,
)
from tests.core.scan.changing_tables import written_by_deltalake, written_by_hand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

TABLES = int(os.environ.get("DELTASNAP_RANDOM_TABLES", "8"))
"""More tables: DELTASNAP_RANDOM_TABLES=200."""


@pytest.mark.parametrize("seed", range(TABLES // 2))
def test_row_changes_of_deltalake_match_a_full_comparison(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    assert_no_row_wrong(spark, written_by_deltalake(tmp_path / "t", seed), seed)


@pytest.mark.parametrize("seed", range(TABLES // 2))
def test_row_changes_with_deletion_vectors_match_a_full_comparison(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    assert_no_row_wrong(spark, written_by_hand(tmp_path / "t", seed), seed)


@pytest.mark.parametrize("seed", range(TABLES // 2))
def test_row_changes_of_a_table_with_a_feed_match_deltalake(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    from deltalake import DeltaTable

    table = written_by_deltalake(tmp_path / "t", 1000 + seed, feed=True)
    last = len(table.versions) - 1
    expected = pa.table(DeltaTable(str(table.path)).load_cdf(starting_version=0, ending_version=last).read_all())
    log = DeltaLog.for_table(spark, table.path)
    assert changes_of(log.row_changes(0, last)) == counted(expected.to_pylist()), table.operations
    by_key = changes_of(log.row_changes(0, last, key=["id"]))
    assert plain(by_key) == expected_changes(table, 0, last), table.operations
