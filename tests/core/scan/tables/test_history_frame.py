"""The history of a table as a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.scan.tables.history_frame import HISTORY, history_frame

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_values_that_a_commit_states_are_kept_and_others_are_null(spark: SparkSession) -> None:
    maps = {"job": {"id": 1}, "notebook": {"id": 2}, "operation_metrics": {"rows": 3}, "tags": {"a": True}}
    operation: Any = {"operation": "WRITE", "operation_parameters": {"mode": "Append", "n": 1, "by": ["a"]}, **maps}
    first = DeltaHistory(version=3, timestamp=1_700_000_000_123, is_blind_append=False, read_version=2, **operation)
    frame = history_frame(spark, [first, DeltaHistory(version=2, timestamp=0)])
    assert frame.schema.names == HISTORY.names
    rows = [{name: value for name, value in row.asDict().items() if value is not None} for row in frame.collect()]
    assert round(rows[0].pop("timestamp").timestamp() * 1000) == first.timestamp
    assert rows[0] == {
        "version": 3,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "n": "1", "by": '["a"]'},
        "job": {"id": "1"},
        "notebook": {"id": "2"},
        "readVersion": 2,
        "isBlindAppend": False,
        "operationMetrics": {"rows": "3"},
        "tags": {"a": "true"},
    }
    assert [*rows[1]] == ["version", "timestamp"]
