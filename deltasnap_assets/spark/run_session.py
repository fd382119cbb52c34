"""The Spark session of a run: started when a question needs it, with the reason in the run log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from deltasnap_assets.spark.connect_check import address_of, check_remote, limit_retries
from deltasnap_assets.spark.failures import starting_spark
from deltasnap_assets.spark.java import use_java

_PROPERTIES_OF_DELTA = "spark.databricks.delta."


class RunSession:
    """One session for all questions of a run, from dagster-pyspark's resource.

    log: called once, with one line, when the session starts.
    """

    def __init__(self, pyspark: LazyPySparkResource, log: Callable[[str], None] = lambda _: None) -> None:
        self._pyspark = pyspark
        self._log = log
        self._starting = threading.Lock()
        self._session: SparkSession | None = None
        self._stand_ins: dict[str, SparkSession] = {}

    def session(self, reason: str) -> SparkSession:
        """Return the session; start it, or connect to it, where that was not done yet.

        reason: what needs it, for the line in the log.
        Errors: `JavaError` and `SparkStartError` if it cannot start; `RemoteError` if nobody answers at `spark.remote`.
        """
        with self._starting:
            if self._session is None:
                self._session = self._start(reason)
            return self._session

    def when_needed(self, reason: str) -> SparkSession:
        """Return a stand-in for the session, which starts it with its first use; for one reason always the same.

        Delta's session properties, which the core reads first and only deltasnap defines, come from the settings.
        """
        if reason not in self._stand_ins:
            stand_in = _StandIn(partial(self.session, reason), self._pyspark.spark_config)
            self._stand_ins[reason] = cast("SparkSession", stand_in)
        return self._stand_ins[reason]

    def _start(self, reason: str) -> SparkSession:
        config = self._pyspark.spark_config
        remote = config.get("spark.remote")
        if remote is not None:
            check_remote(remote)
            self._log(f"Connecting to Spark at {address_of(remote)}: {reason}")
        else:
            java = use_java()
            self._log(f"Starting Spark, master {config.get('spark.master', 'local')}, on {java}: {reason}")
        with starting_spark():
            session: SparkSession = self._pyspark.spark_session
        if remote is not None:
            limit_retries(session)
        return session


class _StandIn:
    def __init__(self, start: Callable[[], SparkSession], config: Mapping[str, str]) -> None:
        self._start = start
        self.conf = _StandInConf(start, config)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._start(), name)


class _StandInConf:
    def __init__(self, start: Callable[[], SparkSession], config: Mapping[str, str]) -> None:
        self._start = start
        self._config = config

    def get(self, key: str, *default: str | None) -> Any:
        """Return a setting, as `SparkSession.conf.get` does."""
        if key.startswith(_PROPERTIES_OF_DELTA) and default:
            return self._config.get(key, *default)
        return self._start().conf.get(key, *default)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._start().conf, name)
