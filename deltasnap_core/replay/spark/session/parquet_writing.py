"""Writes a DataFrame as Parquet into a new folder on any storage, even without a Spark connector."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

from pyspark.sql import DataFrame

from deltasnap_core.replay.spark.session.spark_failures import storing
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.storage.urls import to_url

_OPTIONS = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # With a limit from the session, one partition would become several files.
    "maxRecordsPerFile": "0",
}


def write_parquet(
    spark_files: SparkFiles,
    rows: DataFrame,
    target: str,
    options: Mapping[str, str],
    *,
    partition_by: str | None = None,
) -> None:
    """Write rows into the new folder `target` (a URL). Spark leaves checksum files beside local files.

    options: of Spark's Parquet writer. partition_by: a column that becomes one folder for each value, `column=value`.
    Errors: StorageError if Spark cannot write there.
    """
    if spark_files.is_direct(target):
        with storing(target):
            _save(rows, spark_files.url_for_spark(target), options, partition_by)
    else:
        with tempfile.TemporaryDirectory(prefix="deltasnap-") as local:
            _save(rows, to_url(f"{local}/rows"), options, partition_by)
            spark_files.upload(f"{local}/rows", target)


def _save(rows: DataFrame, target: str, options: Mapping[str, str], partition_by: str | None) -> None:
    writer = rows.write.options(**_OPTIONS, **options)
    if partition_by is not None:
        writer = writer.partitionBy(partition_by)
    writer.parquet(target)
