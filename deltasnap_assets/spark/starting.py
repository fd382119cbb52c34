"""A Spark session that does not start, told in words that say where to look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkRuntimeError

from deltasnap_assets.spark.java import check_java
from deltasnap_core import DeltaSnapError


class SparkStartError(DeltaSnapError):
    """Java is there, and no session started: `reason`."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"Spark did not start: {reason} What Java printed says why, an option under spark.config that it does not "
            "take for one."
        )


@contextmanager
def starting_spark() -> Iterator[None]:
    """Make of Spark's failure to start an error that says what is missing: JavaError, or SparkStartError."""
    try:
        yield
    except PySparkRuntimeError as error:
        check_java()
        raise SparkStartError(reason=str(error)) from error
