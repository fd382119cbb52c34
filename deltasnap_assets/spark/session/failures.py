"""Converts failures of Spark to our errors: one line with the cause, instead of long Java stack traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkRuntimeError

from deltasnap_assets.spark.java import check_java
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import SPARK_FAILURES, spark_cause


@contextmanager
def starting_spark() -> Iterator[None]:
    """Convert a failure to start Spark to an error with the reason, a JavaError if Java is not usable."""
    try:
        yield
    except PySparkRuntimeError as error:
        check_java()
        raise DeltaSnapError(
            f"Spark did not start: {error} See Java's output: the cause is often spark.master, or an option in "
            "spark.config."
        ) from error


@contextmanager
def using_spark(table: str) -> Iterator[None]:
    """Convert a failure in Spark to an error that names the table and the cause."""
    try:
        yield
    except SPARK_FAILURES as error:
        raise DeltaSnapError(f"Spark failed on table {table}: {spark_cause(error, with_file=True)}") from error
