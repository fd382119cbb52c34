"""The number of records in statistics: the same in SQL and in Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltasnap_core.rules.num_records import num_records, num_records_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS: Mapping[str, int | None] = {
    '{"numRecords":7}': 7,
    '{"numRecords":7,"minValues":{}}': 7,
    '{"numRecords":-7,"minValues":{}}': -7,
    '{"numRecords":9223372036854775807,"minValues":{}}': 2**63 - 1,
    '{"numRecords":9223372036854775808,"minValues":{}}': None,
    '{"numRecords": 7,"minValues":{}}': 7,
    '{"minValues":{"a":1},"numRecords":7}': 7,
    '{"numRecords":"7","minValues":{}}': 7,
    '{"numRecords":"a:5,b"}': None,
    '{"numRecords":"5,b"}': None,
    '{"numRecords":{"a":1,"b":2}}': None,
    '{"numRecords":[1,2]}': None,
    '{"numRecords":null,"minValues":{}}': None,
    '{"minValues":{}}': None,
    "{": None,
}


@pytest.mark.parametrize("stats", TEXTS)
def test_arrow_finds_the_number_of_records(stats: str) -> None:
    assert num_records(pa.array([stats])).to_pylist() == [TEXTS[stats]]


@pytest.mark.spark
def test_sql_and_arrow_find_the_same_number_of_records(spark: SparkSession) -> None:
    found = spark.createDataFrame(pa.table({"stats": list(TEXTS)})).selectExpr("stats", num_records_sql("stats"))
    assert {row[0]: row[1] for row in found.collect()} == TEXTS
