"""Converts failures of Spark to our errors: one line with the cause, instead of long Java stack traces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkRuntimeError

from deltasnap_assets.spark.java import check_java
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import SPARK_FAILURES, spark_cause


class SparkStartError(DeltaSnapError):
    """Java is installed, but no session started: `reason`."""

    def __init__(self, *, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"Spark did not start: {reason} See Java's output: the cause is often spark.master, or an option in "
            "spark.config."
        )


class SparkFailedError(DeltaSnapError):
    """A query on `table` failed in Spark for `reason`, and no file of the table is known to be the cause."""

    def __init__(self, *, table: str, reason: str) -> None:
        self.table = table
        self.reason = reason
        super().__init__(f"Spark failed on table {table}: {reason}")


@contextmanager
def starting_spark() -> Iterator[None]:
    """Convert a failure to start Spark to an error with the reason: JavaError or SparkStartError."""
    try:
        yield
    except PySparkRuntimeError as error:
        check_java()
        raise SparkStartError(reason=str(error)) from error


@contextmanager
def using_spark(table: str) -> Iterator[None]:
    """Convert a failure in Spark to a SparkFailedError that names the table and the cause."""
    try:
        yield
    except SPARK_FAILURES as error:
        raise SparkFailedError(table=table, reason=spark_cause(error, with_file=True)) from error
