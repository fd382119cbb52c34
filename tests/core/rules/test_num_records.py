"""The number of records in statistics: the same in SQL and in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltasnap_core.rules.totals.num_records import num_records, num_records_sql
from tests.core.rules.num_records_builders import TEXTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("stats", TEXTS, ids=lambda stats: ascii(stats[:60]))
def test_arrow_finds_the_number_of_records(stats: str) -> None:
    assert num_records(pa.array([stats])).to_pylist() == [TEXTS[stats]]


def test_arrow_finds_the_same_numbers_in_many_texts_at_once() -> None:
    assert num_records(pa.array([*TEXTS, None])).to_pylist() == [*TEXTS.values(), None]


@pytest.mark.spark
def test_sql_and_arrow_find_the_same_number_of_records(spark: SparkSession) -> None:
    found = spark.createDataFrame(pa.table({"stats": list(TEXTS)})).selectExpr("stats", num_records_sql("stats"))
    assert {row[0]: row[1] for row in found.collect()} == TEXTS
