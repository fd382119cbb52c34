"""The history of a table as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.protocol.json_records import texts
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.rules.texts.sql_text import FIRST_MS, LAST_MS

_TEXTS = pa.map_(pa.string(), pa.string())

HISTORY = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("userId", pa.string()),
        ("userName", pa.string()),
        ("operation", pa.string()),
        ("operationParameters", _TEXTS),
        ("job", _TEXTS),
        ("notebook", _TEXTS),
        ("clusterId", pa.string()),
        ("readVersion", pa.int64()),
        ("isolationLevel", pa.string()),
        ("isBlindAppend", pa.bool_()),
        ("operationMetrics", _TEXTS),
        ("userMetadata", pa.string()),
        ("tags", _TEXTS),
        ("engineInfo", pa.string()),
        ("txnId", pa.string()),
    ]
)
"""The columns of Delta's DESCRIBE HISTORY.

Version is not null; timestamp is null outside of the years 1 to 9999. In the other columns, null means that the commit
does not state the value. Values that are not text are JSON.
"""


def history_frame(spark: SparkSession, history: Sequence[DeltaHistory]) -> DataFrame:
    """Return commits as a DataFrame (HISTORY), in the order given."""
    return arrow_rows(spark, history_rows(history))


def history_rows(history: Sequence[DeltaHistory]) -> pa.Table:
    """Return commits in Arrow (HISTORY), in the order given."""
    return pa.Table.from_pylist(list(map(_row, history)), HISTORY)


def _row(commit: DeltaHistory) -> dict[str, Any]:
    values = commit.known_to_json()
    for column in ("operationParameters", "job", "notebook", "operationMetrics", "tags"):
        values[column] = None if values.get(column) is None else texts(values[column])
    is_python_time = FIRST_MS <= commit.timestamp <= LAST_MS
    values["timestamp"] = commit.timestamp * 1000 if is_python_time else None
    return {name: values.get(name) for name in HISTORY.names}
