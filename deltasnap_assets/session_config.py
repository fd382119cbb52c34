"""Spark's settings for reading logs: what the app's sessions and those of `deltasnap inspect` have in common. Pure."""

from __future__ import annotations

from deltasnap_assets.config import SparkSettings

# Of any session. Logs are many small files and their states aggregate to little: listing them with a Spark job, or
# shuffling them into 200 partitions, would cost more than the work itself.
_SESSION_CONFIG = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
# Of a session that this process starts.
_DRIVER_CONFIG = {
    "spark.app.name": "deltasnap",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Where the driver is the whole of Spark, it need not be reached from elsewhere, nor know a name for this machine.
_LOCAL_CONFIG = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def session_config(spark: SparkSettings) -> dict[str, str]:
    """Spark's settings: what the configuration file says, over defaults that suit reading logs."""
    if spark.remote is not None:
        defaults = {"spark.remote": spark.remote, **_SESSION_CONFIG}
    else:
        master = spark.master or "local[*]"
        local = _LOCAL_CONFIG if master.startswith("local") and not master.startswith("local-cluster") else {}
        defaults = {"spark.master": master, **_SESSION_CONFIG, **_DRIVER_CONFIG, **local}
    return defaults | {key: _spark_text(value) for key, value in spark.config.items()}


def _spark_text(value: str | bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
