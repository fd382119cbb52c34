"""A Spark session that starts when something is asked of it that takes one: a run over small tables asks nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from pyspark.sql import SparkSession

_PROPERTIES_OF_DELTA = "spark.databricks.delta."


def deferred(start: Callable[[], SparkSession], config: Mapping[str, str]) -> SparkSession:
    """Return what stands for the session that `start` gives, each time the same, with these settings.

    Delta's own properties, which only we ask for, are answered from the settings: what reads a log asks for them first.
    """
    return cast("SparkSession", _DeferredSession(start, config))


class _DeferredSession:
    def __init__(self, start: Callable[[], SparkSession], config: Mapping[str, str]) -> None:
        self._start = start
        self.conf = _DeferredConf(start, config)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._start(), name)


class _DeferredConf:
    def __init__(self, start: Callable[[], SparkSession], config: Mapping[str, str]) -> None:
        self._start = start
        self._config = config

    def get(self, key: str, *default: str | None) -> Any:
        """Return a setting, as `SparkSession.conf.get` does."""
        if key.startswith(_PROPERTIES_OF_DELTA) and default:
            return self._config.get(key, *default)
        return self._start().conf.get(key, *default)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._start().conf, name)
