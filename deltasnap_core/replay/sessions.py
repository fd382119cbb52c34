"""Providers of a Spark session: an existing session, one started on first use, or none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from deltasnap_core.errors import SparkRequiredError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkProvider(Protocol):
    """Provides a Spark session on first use. Small tables need none."""

    def session(self, reason: str) -> SparkSession:
        """Return the session, always the same one.

        Start it on first use. reason: its purpose, in a few words.
        """
        ...

    def setting(self, name: str) -> str | None:
        """Return a property of the session, without starting the session if the value is known; None: it is not set."""
        ...


class GivenSession:
    """Provides an existing session, or none, for read-only use without Spark. A SparkProvider."""

    def __init__(self, spark: SparkSession | None) -> None:
        self._spark = spark

    def session(self, reason: str) -> SparkSession:
        """Return the session. Errors: SparkRequiredError without one."""
        if self._spark is None:
            raise SparkRequiredError(reason=reason)
        return self._spark

    def setting(self, name: str) -> str | None:
        """Return a property of the session; None: it is not set, or there is no session."""
        return None if self._spark is None else self._spark.conf.get(name, None)


def provider_of(spark: SparkSession | SparkProvider | None) -> SparkProvider:
    """Return a provider of a session. None: no session; operations that need one raise SparkRequiredError."""
    return spark if hasattr(spark, "session") else GivenSession(spark)  # type: ignore[return-value]
