"""The rows of the golden tables, as expected by their projects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.core.scan.golden_rows_builders import assert_rows, cases

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = 41


def test_golden_tables_with_rows_are_all_there(golden: Path) -> None:
    assert len({case.values[0].parent for case in cases()}) == TABLES


@pytest.mark.parametrize("expected", list(cases()))
def test_rows_match_the_expected_rows(spark: SparkSession, golden: Path, expected: Path) -> None:
    assert_rows(spark, golden, expected)
