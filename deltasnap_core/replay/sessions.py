"""Where a Spark session comes from: given, started on first use, or not there at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from deltasnap_core.errors import SparkRequiredError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkProvider(Protocol):
    """Provides a Spark session when something first runs on Spark. Looking at small tables needs none."""

    def session(self, reason: str) -> SparkSession:
        """Return the session, each time the same; start it on first use. reason: what it is for, in a few words."""
        ...

    def setting(self, name: str) -> str | None:
        """Return a property of the session, without starting it where the answer is known; None: it is not set."""
        ...


class GivenSession:
    """Provides a session that is there. SparkProvider."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def session(self, reason: str) -> SparkSession:  # noqa: ARG002 - nothing is started
        """Return the session."""
        return self._spark

    def setting(self, name: str) -> str | None:
        """Return a property of the session."""
        return self._spark.conf.get(name, None)


class NoSession:
    """Provides no session: for those who only look. SparkProvider."""

    def session(self, reason: str) -> SparkSession:
        """Raise SparkRequiredError."""
        raise SparkRequiredError(reason=reason)

    def setting(self, name: str) -> str | None:  # noqa: ARG002 - none is set
        """Return None."""
        return None


def provider_of(spark: SparkSession | SparkProvider | None) -> SparkProvider:
    """Return a provider of a session. None: there is none, and what requires one raises SparkRequiredError."""
    if spark is None:
        return NoSession()
    return spark if hasattr(spark, "session") else GivenSession(spark)  # type: ignore[return-value]
