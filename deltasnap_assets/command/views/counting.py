"""The part of `deltasnap inspect` that loads PySpark, and tables on Spark. Separate, so that the rest is printed first.

A version small enough for one process does not start Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    with opened_table(facts.path, storage_options) as delta_log:
        snapshot = delta_log.get_snapshot_at(version=facts.segment.version)
        return Counted(state=snapshot.computed_state, computed_by=snapshot.computed_by)


@contextmanager
def opened_table(path: str, storage_options: Mapping[str, Any]) -> Iterator[DeltaLog]:
    """Yield a table on the configured Spark session, which starts if needed. Its output does not reach the terminal."""
    spark = _configured()
    sessions = RunSession(PlainSession(session_config(spark)))
    with using_spark(path), output_aside():
        yield DeltaLog.for_table(
            sessions, path, storage_options=storage_options or None, options=SnapshotOptions(engine=spark.engine)
        )


def _configured() -> SparkSettings:
    """Return the configured session, or the default: inspecting a table does not require a configuration."""
    try:
        return load_settings().spark
    except ConfigError:
        return SparkSettings()
