"""The reconstructed state in Spark's storage, and job descriptions for Spark's UI."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import ClassVar
from weakref import WeakValueDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.redaction import logger_of

_log = logger_of(__name__)
_JOB_DESCRIPTION = "spark.job.description"


class StateCache:
    """Caches one DataFrame in Spark's storage, from its first computation until it is released.

    Spark's storage page shows it as "In-memory table `NAME`". After the release, nothing is cached again.
    """

    _in_use: ClassVar[WeakValueDictionary[str, StateCache]] = WeakValueDictionary()
    _naming: ClassVar[Lock] = Lock()

    def __init__(self, name: str) -> None:
        self._spark: SparkSession | None = None
        self._lock = Lock()
        self._is_cached = False
        self._is_released = False
        self.name = self._unique(name.replace("`", "'"))

    def __enter__(self) -> StateCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def is_cached(self) -> bool:
        """Whether Spark caches the DataFrame, or will after its first computation."""
        return self._is_cached

    def cached(self, frame: DataFrame) -> DataFrame:
        """Return the frame, cached from now on; after the release, not cached."""
        with self._lock:
            if self._is_released or self._is_cached:
                return frame
            # Spark finds the cache by the query plan: it also serves the frame itself, even after the view is dropped.
            frame.createOrReplaceTempView(self._view)
            self._spark = frame.sparkSession
            self._spark.catalog.cacheTable(self._view)
            self._is_cached = True
            return frame

    def release(self) -> None:
        """Drop the cached data permanently. Does nothing if there is none, or if the Spark session has stopped."""
        with self._lock:
            self._is_released = True
            if not self._is_cached or self._spark is None:
                return
            self._is_cached = False
            try:
                self._spark.catalog.uncacheTable(self._view)
                self._spark.catalog.dropTempView(self.name)
            except (PySparkException, Py4JError, OSError) as error:  # a stopped session has no cache
                _log.info("%s could not be released: %s", self.name, error)

    @property
    def _view(self) -> str:
        return f"`{self.name}`"

    def _unique(self, name: str) -> str:
        # Two snapshots of one version may exist at once: each needs its own view and cache.
        with self._naming:
            unique, count = name, 1
            while unique in self._in_use:
                count += 1
                unique = f"{name} ({count})"
            self._in_use[unique] = self
            return unique


@contextmanager
def job_description(spark: SparkSession, description: str) -> Iterator[None]:
    """Set the description of the Spark jobs in this block, for Spark's UI.

    A session has one description at a time. If several threads run jobs at once, the UI shows the last description.
    """
    before = spark.conf.get(_JOB_DESCRIPTION, None)
    try:
        spark.conf.set(_JOB_DESCRIPTION, description)
    except PySparkException as error:
        _log.debug("This Spark does not support job descriptions: %s", error)
        yield
        return
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_JOB_DESCRIPTION)
        else:
            spark.conf.set(_JOB_DESCRIPTION, before)
