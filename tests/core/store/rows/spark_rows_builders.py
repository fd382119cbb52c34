"""Builders for the tests of spark rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltasnap_core.replay.sessions import provider_of
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.rows.spark_rows import SparkRows
from tests.builders import LOG_PATH, add, remove
from tests.core.store.rows.driver_rows_builders import base_rows, driver_rows, empty_version, step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OLD, LATE = 1_000, 5_000


BASE = [
    *(add(name, size=size, stats='{"numRecords":2}') for size, name in enumerate(("a", "b", "c%20d", "kept"), 1)),
    remove("expires", deletion_timestamp=OLD, size=1),
    remove("lapses", deletion_timestamp=OLD - 1, size=1),
    remove("gone", deletion_timestamp=LATE, size=1),
]


@pytest.fixture
def base(tmp_path: Path) -> VersionManifest:
    """A version of which all rows are in the base."""
    rows = driver_rows(tmp_path)
    changes, _ = rows.apply(step(empty_version(), "unused", BASE))
    files = rows._write(base_rows(tmp_path, changes), "base")
    return replace(empty_version(), base=DataSet(first=0, last=0, files=files))


def spark_rows(spark: SparkSession, folder: Path) -> SparkRows:
    sessions, url = provider_of(spark), to_url(folder)
    files = SparkFiles.of(None, sessions)
    return SparkRows(
        parquet=ParquetFiles(sessions=sessions, storage=WritableFiles(url), spark_files=files, folder=url),
        log_path=LOG_PATH,
    )
