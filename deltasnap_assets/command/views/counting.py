"""The part of `deltasnap inspect` that loads PySpark. It is separate, so that the rest is printed first.

A version small enough for one process does not start Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltasnap_assets.command.terminal import output_aside
from deltasnap_assets.command.views.inspection import Counted, TableFacts
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.settings.loading import load_settings
from deltasnap_assets.settings.yaml_source import ConfigError
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.spark.session.run_session import PlainSession, RunSession
from deltasnap_assets.spark.session_config import session_config
from deltasnap_core import DeltaLog, SnapshotOptions


def count(facts: TableFacts, storage_options: Mapping[str, Any]) -> Counted:
    """Return the state of the version. Output of Spark, if it is needed, does not reach the terminal.

    Errors: UnsupportedProtocolError, JavaError if Spark is needed and cannot start, and those of a damaged log.
    """
    spark = _configured()
    sessions = RunSession(PlainSession(session_config(spark)))
    with using_spark(facts.path), output_aside():
        delta_log = DeltaLog.for_table(
            sessions, facts.path, storage_options=storage_options or None, options=SnapshotOptions(engine=spark.engine)
        )
        snapshot = delta_log.get_snapshot_at(version=facts.segment.version)
        return Counted(state=snapshot.computed_state, computed_by=snapshot.computed_by)


def _configured() -> SparkSettings:
    """Return the configured session, or the default: inspecting a table does not require a configuration."""
    try:
        return load_settings().spark
    except ConfigError:
        return SparkSettings()
