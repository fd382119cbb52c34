"""What the Spark session at hand can do."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_NOT_THERE = "PATH_NOT_FOUND"


def can_read(spark: SparkSession, url: str) -> bool:
    """Whether the session reaches the filesystem of a URL, be there such a file or not. Starts no Spark job.

    It does not where it has no connector for the filesystem, or no credentials.
    """
    try:
        _ = spark.read.text(url).schema
    except (PySparkException, Py4JJavaError) as error:
        return isinstance(error, PySparkException) and error.getCondition() == _NOT_THERE
    return True
