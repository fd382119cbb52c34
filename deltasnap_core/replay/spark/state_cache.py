"""The reconstructed state in Spark's storage, and what an operator sees of our work in Spark's UI."""

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
    """Keeps one DataFrame in Spark's storage, from its first computation until it is released.

    Spark's storage page shows it as "In-memory table `NAME`". After the release nothing is cached again.
    """

    _in_use: ClassVar[WeakValueDictionary[str, StateCache]] = WeakValueDictionary()
    _naming: ClassVar[Lock] = Lock()

    def __init__(self, name: str) -> None:
        self._spark: SparkSession | None = None
        self._lock = Lock()
        self._is_cached = False
        self._is_released = False
        self.name = self._unique(name.replace("`", "'"))

    @property
    def is_cached(self) -> bool:
        """Whether Spark keeps the DataFrame, or will once it is computed."""
        return self._is_cached

    def cached(self, frame: DataFrame) -> DataFrame:
        """Return the frame, from now on computed once and kept; after the release, as it is."""
        with self._lock:
            if self._is_released or self._is_cached:
                return frame
            # Spark finds the cache by the plan: the frame itself is served from it, and outlives the view.
            frame.createOrReplaceTempView(self._view)
            self._spark = frame.sparkSession
            self._spark.catalog.cacheTable(self._view)
            self._is_cached = True
            return frame

    def release(self) -> None:
        """Drop what is kept, if anything, for good. A stopped Spark session keeps nothing."""
        with self._lock:
            self._is_released = True
            if not self._is_cached or self._spark is None:
                return
            self._is_cached = False
            try:
                self._spark.catalog.uncacheTable(self._view)
                self._spark.catalog.dropTempView(self.name)
            except (PySparkException, Py4JError, OSError) as error:  # a stopped session keeps nothing
                _log.info("%s could not be released: %s", self.name, error)

    @property
    def _view(self) -> str:
        return f"`{self.name}`"

    def _unique(self, name: str) -> str:
        # Two snapshots of one version may be about at once: each has a view, and a cache, of its own.
        with self._naming:
            unique, count = name, 1
            while unique in self._in_use:
                count += 1
                unique = f"{name} ({count})"
            self._in_use[unique] = self
            return unique


@contextmanager
def job_description(spark: SparkSession, description: str) -> Iterator[None]:
    """Describe the Spark jobs within, as Spark's UI then shows them.

    A session has one description at a time: of jobs at once in several threads, the last description shows.
    """
    before = spark.conf.get(_JOB_DESCRIPTION, None)
    try:
        spark.conf.set(_JOB_DESCRIPTION, description)
    except PySparkException as error:
        _log.debug("This Spark takes no description of jobs: %s", error)
        yield
        return
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(_JOB_DESCRIPTION)
        else:
            spark.conf.set(_JOB_DESCRIPTION, before)
