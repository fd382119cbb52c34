"""The part of `deltasnap inspect` that needs Spark: apart, so that the rest is told before PySpark is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from deltasnap_assets.command.inspection import TableFacts
from deltasnap_assets.command.terminal import output_aside
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.failures import starting_spark, using_spark
from deltasnap_assets.spark.java import use_java
from deltasnap_assets.spark.session_config import session_config
from deltasnap_core import DeltaLog, SnapshotState


def count(facts: TableFacts, storage_options: Mapping[str, Any]) -> SnapshotState:
    """Return the state of the version, replayed on a Spark session of this process that prints nothing.

    Errors: UnsupportedProtocolError, JavaError where Spark cannot start, and those of a damaged log.
    """
    use_java()
    with using_spark(facts.path), starting_spark(), output_aside():
        spark = SparkSession.builder.config(map={**session_config(SparkSettings())}).getOrCreate()
        delta_log = DeltaLog.for_table(spark, facts.path, storage_options=storage_options or None)
        return delta_log.get_snapshot_at(version=facts.segment.version).computed_state
