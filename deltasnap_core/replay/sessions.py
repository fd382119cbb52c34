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
    """Provides an existing session. A SparkProvider."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def session(self, reason: str) -> SparkSession:  # noqa: ARG002 - nothing is started
        """Return the session."""
        return self._spark

    def setting(self, name: str) -> str | None:
        """Return a property of the session."""
        return self._spark.conf.get(name, None)


class NoSession:
    """Provides no session. A SparkProvider for read-only use without Spark."""

    def session(self, reason: str) -> SparkSession:
        """Raise SparkRequiredError."""
        raise SparkRequiredError(reason=reason)

    def setting(self, name: str) -> str | None:  # noqa: ARG002 - none is set
        """Return None."""
        return None


def provider_of(spark: SparkSession | SparkProvider | None) -> SparkProvider:
    """Return a provider of a session. None: no session; operations that need one raise SparkRequiredError."""
    if spark is None:
        return NoSession()
    return spark if hasattr(spark, "session") else GivenSession(spark)  # type: ignore[return-value]
