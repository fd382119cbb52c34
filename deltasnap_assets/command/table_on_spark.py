"""A table for a command, with the configured Spark session. The session starts when a query needs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from deltasnap_assets.command.terminal import output_aside
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.settings.loading import load_spark_settings
from deltasnap_assets.settings.yaml_source import ConfigError
from deltasnap_assets.spark.session.failures import using_spark
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.spark.session_config import session_config
from deltasnap_core import DeltaLog, SnapshotOptions
from deltasnap_core.support import logger_of

_log = logger_of(__name__)


def sessions_of(spark: SparkSettings) -> RunSession:
    """Return the configured session of a command. It starts when it is needed."""
    return RunSession(session_config(spark), _log.info)


def delta_log_of(path: str, storage_options: Mapping[str, Any]) -> DeltaLog:
    """Return the log of a table. Its queries raise JavaError if they need Spark and it cannot start."""
    spark = configured_spark()
    return DeltaLog.for_table(
        sessions_of(spark), path, storage_options=storage_options, options=SnapshotOptions(engine=spark.engine)
    )


@contextmanager
def spark_aside(path: str) -> Iterator[None]:
    """Keep the output of Spark off the terminal, and convert its failures to one line that names the table."""
    with using_spark(path), output_aside():
        yield


def configured_spark() -> SparkSettings:
    """Return the configured session. If it is invalid, warn and return the default."""
    try:
        return load_spark_settings()
    except ConfigError as error:
        _log.warning("%s. The default Spark session is used.", "; ".join(error.lines))
        return SparkSettings()
