"""A log that fails wherever it asks Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from deltasnap_core import DeltaLog, SnapshotOptions, TableLog
from deltasnap_core.replay.spark.spark_files import SparkFiles
from deltasnap_core.snapshot.table_context import TableContext


def log_without_spark(table: TableLog, *, clock: Callable[[], int]) -> DeltaLog:
    """The snapshots of a table, for what they tell without a Spark session."""
    nothing = cast("Any", None)
    context = TableContext(spark=nothing, log=table, files=cast("SparkFiles", nothing), options=SnapshotOptions())
    return DeltaLog(context, clock=clock)
