"""The types by which single statistics of a checkpoint are read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import DataType, LongType, StringType, StructType, TimestampNTZType, TimestampType

from deltasnap_core.replay.spark.parsed_statistics import as_texts, narrowed

BOUND = ("minValues", "at")


def type_of(bound: pa.DataType) -> DataType:
    struct = pa.struct([("minValues", pa.struct([("at", bound), ("other", pa.string())]))])
    bounds = narrowed(struct, {BOUND})["minValues"].dataType
    assert isinstance(bounds, StructType)
    return bounds["at"].dataType


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (pa.timestamp("us", "UTC"), TimestampType()),
        (pa.timestamp("ns"), TimestampType()),  # INT96, the form of Spark's own checkpoints
        (pa.timestamp("us"), TimestampNTZType()),
        (pa.int64(), LongType()),
        (pa.string(), StringType()),
    ],
    ids=str,
)
def test_bound_is_read_in_the_type_of_its_column(bound: pa.DataType, expected: DataType) -> None:
    assert type_of(bound) == expected


def test_bound_of_a_timestamp_is_a_text_in_utc() -> None:
    struct = pa.struct([("minValues", pa.struct([("at", pa.timestamp("ns"))]))])
    assert "to_csv(struct(s.`minValues`.`at`), map('timeZone', 'UTC'" in as_texts("s", narrowed(struct, {BOUND}))
