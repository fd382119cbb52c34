"""Spark's settings of a session: of the driver, of one process, of a server, and those of the user."""

from __future__ import annotations

import pytest

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.session_config import session_config

Config = dict[str, str | bool | int | float]

DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"
EXTRA_OPTIONS = "spark.driver.extraJavaOptions"
QUICK = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("", True),
        ("-Xss2m -XX:+UseG1GC", False),
        ("-XX:+UseZGC -Xss2m", False),
        ("-XX:+UseStringDeduplication -XX:+UseGCOverheadLimit", True),
    ],
)
def test_one_thread_collects_the_heap_unless_the_user_chose_a_collector(chosen: str, expected: bool) -> None:
    options = session_config(SparkSettings(config={EXTRA_OPTIONS: chosen}))[DEFAULT_OPTIONS]
    assert options == (f"{QUICK} -XX:+UseSerialGC" if expected else QUICK)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        *((text, True) for text in ("512m", "2g", "4096", "4GB", "4194304k", " 4294967296B ", "much")),
        *((text, False) for text in ("4097", "4194305k", "5g", "1t")),
    ],
)
def test_heap_is_small_up_to_four_gibibytes(memory: str, expected: bool) -> None:
    config = session_config(SparkSettings(config={"spark.driver.memory": memory}))
    assert ("-XX:+UseSerialGC" in config[DEFAULT_OPTIONS]) == expected


ANY_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "20000",
}
OWN_DRIVER = {
    "spark.app.name": "deltasnap",
    "spark.driver.memory": "2g",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
ONE_PROCESS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
    "spark.buffer.pageSize": "2m",
}


def test_settings_of_a_session_are_complete() -> None:
    driver = {**ANY_SESSION, **OWN_DRIVER}
    assert session_config(SparkSettings()) == {
        **driver,
        **ONE_PROCESS,
        "spark.master": "local[*]",
        DEFAULT_OPTIONS: f"{QUICK} -XX:+UseSerialGC",
    }
    assert session_config(SparkSettings(master="yarn")) == {**driver, "spark.master": "yarn"}
    assert session_config(SparkSettings(remote="sc://host")) == {**ANY_SESSION, "spark.remote": "sc://host"}


@pytest.mark.parametrize("key", ["spark.driver.cores", "spark.executor.cores", "spark.connect.x", "spark.ui.port"])
@pytest.mark.parametrize("more", ["", "x"])
def test_settings_of_its_process_are_not_sent_to_a_server(key: str, more: str) -> None:
    for name in (key + more, "spark.jars.packages", "spark.jars", "spark.app.id"):
        assert session_config(SparkSettings(remote="sc://host", config={name: 1})).keys() == {
            *ANY_SESSION,
            "spark.remote",
        }


def test_settings_of_the_user_take_precedence() -> None:
    mine: Config = {EXTRA_OPTIONS: "-Xss4m", DEFAULT_OPTIONS: "-Dmine=1", "spark.ui.enabled": True}
    config = session_config(SparkSettings(config=mine))
    assert (config[EXTRA_OPTIONS], config[DEFAULT_OPTIONS], config["spark.ui.enabled"]) == (
        "-Xss4m",
        "-Dmine=1",
        "true",
    )


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:443", "spark://host:7077", "local-cluster[2,1,1024]"])
def test_driver_of_a_cluster_gets_no_options_of_the_jvm(master: str) -> None:
    assert DEFAULT_OPTIONS not in session_config(SparkSettings(master=master))


def test_settings_of_a_driver_are_not_sent_to_a_connect_server() -> None:
    mine: Config = {"spark.driver.memory": "4g", "spark.executor.cores": 2, "spark.sql.ansi.enabled": True}
    config = session_config(SparkSettings(remote="sc://host", config=mine))
    assert config["spark.remote"] == "sc://host"
    assert config["spark.sql.ansi.enabled"] == "true"
    assert not any(key.startswith(("spark.driver.", "spark.executor.")) for key in config)


def test_settings_of_the_user_count_on_a_server_too() -> None:
    zone = {"spark.sql.session.timeZone": "Europe/Rome"}
    config = session_config(SparkSettings(remote="sc://host", config={**zone}))
    assert config == {**ANY_SESSION, **zone, "spark.remote": "sc://host"}
