"""Spark's settings for reading logs, shared by the app's sessions and `deltasnap inspect`."""

from __future__ import annotations

import re

from deltasnap_assets.settings.config import SparkSettings

# For any session. Logs are many small files, and their states aggregate to little data. A Spark job to list them, a
# shuffle into 200 partitions, compression of cached data, or sorting the files of a table with more than a hundred
# partitions would cost more than the work itself.
_SESSION_CONFIG = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
}
# For a session that this process starts.
_DRIVER_CONFIG = {
    "spark.app.name": "deltasnap",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# For Spark in a single driver process. No other machine connects to it, so it needs no name of this machine. Our joins
# choose their broadcasts themselves, so adaptive planning takes longer than it saves. A page is the minimum allocation
# of an aggregation: by default 64 MiB, for a few hundred groups. With automatic bucketed scans, caching a table copies
# the whole session.
_LOCAL_CONFIG = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    "spark.buffer.pageSize": "2m",
}
# For the process of the driver. A Connect server has its own.
_DRIVER_ONLY = ("spark.driver.", "spark.executor.", "spark.connect.", "spark.ui.", "spark.jars", "spark.app.")
_MEMORY = "spark.driver.memory"
_SMALL_HEAP_BYTES = 4 << 30
_UNITS = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
# In a young run the second compiler (C2) uses as much CPU as the work itself. Without it, warm code runs a fifth
# slower, which costs less in a run of a few minutes.
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# Reading logs needs a small heap. There, parallel garbage collection threads only take CPU from the workers.
_SMALL_HEAP_COLLECTOR = "-XX:+UseSerialGC"
_COLLECTOR = re.compile(r"-XX:\+Use\S*GC(?!\S)")
_USER_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Spark adds these before the options above, so that the user's options win.
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"


def session_config(spark: SparkSettings) -> dict[str, str]:
    """Return Spark's settings: the configuration file over defaults that suit reading logs.

    For a Connect server, excludes settings that only the process of the driver can use.
    """
    chosen = {key: _spark_text(value) for key, value in spark.config.items()}
    if spark.remote is not None:
        of_session = {key: value for key, value in chosen.items() if not key.startswith(_DRIVER_ONLY)}
        return {"spark.remote": spark.remote, **_SESSION_CONFIG, **of_session}
    master = spark.master or "local[*]"
    if not master.startswith("local") or master.startswith("local-cluster"):
        return {"spark.master": master, **_SESSION_CONFIG, **_DRIVER_CONFIG, **chosen}
    java = {_JAVA_OPTIONS: _quick_start_options(chosen)}
    return {"spark.master": master, **_SESSION_CONFIG, **_DRIVER_CONFIG, **_LOCAL_CONFIG, **java, **chosen}


def _quick_start_options(chosen: dict[str, str]) -> str:
    """Return the JVM's options for a session that runs completely in the driver.

    chosen: the user's settings. Their own options come later on the JVM's command line and win. The JVM does not accept
    two garbage collectors.
    """
    is_small = _bytes(chosen.get(_MEMORY, _DRIVER_CONFIG[_MEMORY])) <= _SMALL_HEAP_BYTES
    uses_ours = is_small and not _COLLECTOR.search(chosen.get(_USER_JAVA_OPTIONS, ""))
    return f"{_QUICK_COMPILER} {_SMALL_HEAP_COLLECTOR}" if uses_ours else _QUICK_COMPILER


def _bytes(memory: str) -> int:
    """Return the bytes of a size in Spark's format ("2g", "512m", "1024mb"; a bare number: MiB); 0: invalid."""
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)b?\s*", memory, re.IGNORECASE)
    return int(found[1]) << _UNITS[found[2].lower() or "m"] if found else 0


def _spark_text(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
