"""The session of a process that gave none: the active one, or one that starts with the first query that needs it."""

from __future__ import annotations

from threading import Lock

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from deltasnap_core.errors import SparkRequiredError
from deltasnap_core.replay.spark.session.spark_failures import SPARK_FAILURES, spark_cause

_CONFIG = {
    "spark.app.name": "deltasnap",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of a session that this module starts. An active session keeps its own."""


class StartedSession:
    """Provides the active session of the process, or starts one on first use. A SparkProvider."""

    def __init__(self) -> None:
        self._lock = Lock()

    def session(self, reason: str) -> SparkSession:
        """Return the session. reason: why it is needed. Errors: SparkRequiredError if it does not start."""
        with self._lock:
            active = _active_session()
            try:
                return active or SparkSession.builder.config(map={**_CONFIG}).getOrCreate()
            except SPARK_FAILURES as error:
                raise SparkRequiredError(reason=reason, failure=spark_cause(error)) from error

    def setting(self, name: str) -> str | None:
        """Return a property of the session; before it starts, of the session that would start."""
        active = _active_session()
        return _CONFIG.get(name) if active is None else active.conf.get(name, None)


def _active_session() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkException:  # there is none
        return None
