"""The Spark session of a run, its own or that of the project.

It starts when a query needs it, and the run log shows the reason.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from deltasnap_assets.spark.connect_check import address_of, check_remote, limit_retries
from deltasnap_assets.spark.java import use_java
from deltasnap_assets.spark.session.failures import starting_spark
from deltasnap_core import DeltaSnapError


class RunSession:
    """One session for all queries of a run or a command. SparkProvider.

    config: the settings of the session. log: called with one line when the session starts.
    """

    def __init__(self, config: Mapping[str, Any], log: Callable[[str], None] = lambda _: None) -> None:
        self._config = config
        self._log = log
        self._starting = threading.Lock()
        self._session: SparkSession | None = None

    def session(self, reason: str) -> SparkSession:
        """Return the session. Start it, or connect to it, on the first call.

        reason: why it is needed, for the line in the log.
        Errors: `JavaError`; DeltaSnapError if it cannot start, or if `spark.remote` does not respond or is not
        Apache Spark.
        """
        with self._starting:
            if self._session is None:
                self._session = self._start(reason)
            return self._session

    def setting(self, name: str) -> str | None:
        """Return a property of the session; before it starts, from the configuration."""
        if self._session is not None:
            return self._session.conf.get(name, None)
        value: str | None = self._config.get(name)
        return value

    def _start(self, reason: str) -> SparkSession:
        config = self._config
        remote = config.get("spark.remote")
        if remote is not None:
            check_remote(remote)
            self._log(f"Connecting to Spark at {address_of(remote)}: {reason}")
        else:
            java = use_java()
            self._log(f"Starting Spark, master {config.get('spark.master', 'local')}, on {java}: {reason}")
        with starting_spark():
            session: SparkSession = SparkSession.builder.config(map={**config}).getOrCreate()
        if remote is not None:
            limit_retries(session)
            _check_missing_files(session)
        return session


class SharedSession:
    """The session of a project, whose own assets use it, too. SparkProvider.

    It is used as it is: its settings would also be those of the project's queries. Ours only save time, and the core
    reads a table correctly with any.
    source: the session, or a resource with a `spark_session`, such as those of dagster-pyspark. log: as in RunSession.
    """

    def __init__(self, source: Any, log: Callable[[str], None] = lambda _: None) -> None:
        self._source = source
        self._log = log
        self._starting = threading.Lock()
        self._session: Any = None

    def session(self, reason: str) -> SparkSession:
        """Return the session. reason: why it is needed, for the line in the log.

        Errors: DeltaSnapError if the source is no session and has none, and as in RunSession.
        """
        with self._starting:
            if self._session is None:
                self._log(f"Using the Spark session of the project: {reason}")
                self._session = self._found()
            session: SparkSession = self._session
            return session

    def _found(self) -> Any:
        session = getattr(self._source, "spark_session", self._source)
        if not hasattr(session, "createDataFrame"):
            found = type(self._source).__name__
            raise DeltaSnapError(f"Expected a SparkSession, or a resource with a `spark_session`, found {found}.")
        if not isinstance(session, SparkSession):  # a client of Spark Connect
            _check_missing_files(session)
        return session

    def setting(self, name: str) -> str | None:
        """Return a property of the session; before it starts, from the configuration of its resource."""
        session = self._source if self._session is None else self._session
        value: str | None
        if hasattr(session, "conf"):
            value = session.conf.get(name, None)
        else:
            value = getattr(session, "spark_config", {}).get(name)
        return value


def _check_missing_files(session: SparkSession) -> None:
    """Raise an error if a server reads a missing file as an empty one: states would be wrong. Spark does not."""
    client = logging.getLogger("pyspark.sql.connect.logging")  # it would log the expected error
    before, client.disabled = client.disabled, True
    try:
        _ = session.read.text(f"file:///deltasnap-{uuid4().hex}").schema
    except PySparkException:
        return
    finally:
        client.disabled = before
    raise DeltaSnapError("The server of spark.remote reads missing files as empty ones. Use a server of Apache Spark.")
