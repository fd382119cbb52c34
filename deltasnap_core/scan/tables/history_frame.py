"""The history of a table as a DataFrame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import BooleanType, LongType, MapType, StringType, StructField, StructType, TimestampType

from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.protocol.json_records import texts
from deltasnap_core.replay.spark.session.local_rows import local_rows
from deltasnap_core.rules.texts.sql_text import timestamp_sql

_TEXTS = MapType(StringType(), StringType())

HISTORY = StructType(
    [
        StructField("version", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("userId", StringType()),
        StructField("userName", StringType()),
        StructField("operation", StringType()),
        StructField("operationParameters", _TEXTS),
        StructField("job", _TEXTS),
        StructField("notebook", _TEXTS),
        StructField("clusterId", StringType()),
        StructField("readVersion", LongType()),
        StructField("isolationLevel", StringType()),
        StructField("isBlindAppend", BooleanType()),
        StructField("operationMetrics", _TEXTS),
        StructField("userMetadata", StringType()),
        StructField("tags", _TEXTS),
        StructField("engineInfo", StringType()),
        StructField("txnId", StringType()),
    ]
)
"""The columns of Delta's DESCRIBE HISTORY.

Version is not null; timestamp is null outside of the years 1 to 9999. In the other columns, null means that the commit
does not state the value. Values that are not text are JSON.
"""


_IN_MS = StructType([StructField(field.name, LongType()) if field.name == "timestamp" else field for field in HISTORY])
# Timestamps are passed as numbers, because JSON parsers accept different formats.


def history_frame(spark: SparkSession, history: Sequence[DeltaHistory]) -> DataFrame:
    """Return commits as a DataFrame (HISTORY), in the order given."""
    rows = local_rows(spark, map(_row, history), _IN_MS)
    return rows.withColumn("timestamp", F.expr(timestamp_sql("timestamp")))


def _row(commit: DeltaHistory) -> dict[str, Any]:
    values = commit.known_to_json()
    for column in ("operationParameters", "job", "notebook", "operationMetrics", "tags"):
        values[column] = None if values.get(column) is None else texts(values[column])
    return {name: values.get(name) for name in HISTORY.names}
