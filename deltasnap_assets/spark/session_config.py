"""Spark's settings for reading logs, shared by the app's sessions and `deltasnap inspect`."""

from __future__ import annotations

import re

from deltasnap_assets.settings.config import SAIL, SparkSettings
from deltasnap_assets.spark.jvm_options import archive_options, long_lived_options, quick_start_options
from deltasnap_assets.spark.sail import sail_url

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
_USER_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# Spark adds these before the options above, so that the user's options win.
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"


def session_config(spark: SparkSettings) -> dict[str, str]:
    """Return Spark's settings: the configuration file over defaults that suit reading logs.

    For a Connect server, excludes settings that only the process of the driver can use. For `sail`, starts the server
    of this process. Errors: RemoteError if Sail is not installed.
    """
    chosen = {key: _spark_text(value) for key, value in spark.config.items()}
    if spark.remote is not None:
        of_session = {key: value for key, value in chosen.items() if not key.startswith(_DRIVER_ONLY)}
        remote = sail_url() if spark.remote == SAIL else spark.remote
        return {"spark.remote": remote, **_SESSION_CONFIG, **of_session}
    master = spark.master or "local[*]"
    is_local = master.startswith("local") and not master.startswith("local-cluster")
    user_options = chosen.get(_USER_JAVA_OPTIONS, "")
    if is_local:
        memory = chosen.get(_MEMORY, _DRIVER_CONFIG[_MEMORY])
        options = quick_start_options(small_heap=_bytes(memory) <= _SMALL_HEAP_BYTES, chosen=user_options)
    else:
        options = archive_options(chosen=user_options)
    return _driver_config(master, _LOCAL_CONFIG if is_local else {}, options, chosen)


def long_lived_config(spark: SparkSettings, name: str) -> dict[str, str]:
    """Return Spark's settings for a driver on this machine that serves many runs. name: shown in Spark's UI."""
    chosen = {key: _spark_text(value) for key, value in spark.config.items()}
    options = long_lived_options(chosen=chosen.get(_USER_JAVA_OPTIONS, ""))
    return _driver_config(spark.master or "local[*]", {**_LOCAL_CONFIG, "spark.app.name": name}, options, chosen)


def server_config(spark: SparkSettings, port: int) -> dict[str, str]:
    """Return Spark's settings for a Connect server on this machine that other machines cannot reach."""
    return {
        **long_lived_config(spark, "deltasnap spark-server"),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }


def _driver_config(
    master: str, where: dict[str, str], options: tuple[str, ...], chosen: dict[str, str]
) -> dict[str, str]:
    java = {_JAVA_OPTIONS: " ".join(options)} if options else {}
    return {"spark.master": master, **_SESSION_CONFIG, **_DRIVER_CONFIG, **where, **java, **chosen}


def _bytes(memory: str) -> int:
    """Return the bytes of a size in Spark's format ("2g", "512m", "1024mb"; a bare number: MiB); 0: invalid."""
    found = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)b?\s*", memory, re.IGNORECASE)
    return int(found[1]) << _UNITS[found[2].lower() or "m"] if found else 0


def _spark_text(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
