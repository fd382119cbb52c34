from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.jvm_options import (
    archive_options,
    archive_path,
    base_archive_path,
    cache_folder,
    quick_start_options,
)
from deltasnap_assets.spark.session_config import server_config, session_config

Config = dict[str, str | bool | int | float]

DEFAULT_OPTIONS = "spark.driver.defaultJavaOptions"
EXTRA_OPTIONS = "spark.driver.extraJavaOptions"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with Java, Spark and its own cache folder."""
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n", encoding="utf-8")
    java.chmod(0o755)
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"\n', encoding="utf-8")
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("DELTASNAP_JAVA", "system")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def made() -> Path:
    archive = archive_path()
    assert archive is not None
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"classes")
    return archive


def test_archive_is_used_after_it_is_created(machine: Path) -> None:
    assert archive_options(chosen="") == ()
    archive = made()
    assert archive.is_relative_to(machine / "cache" / "deltasnap")
    assert f"-XX:SharedArchiveFile={archive}" in archive_options(chosen="")


def newer_java(machine: Path) -> None:
    (machine / "jdk" / "release").write_text('JAVA_VERSION="17.0.2"\n', encoding="utf-8")


def other_java_file(machine: Path) -> None:
    os.utime(machine / "jdk" / "bin" / "java", ns=(1, 1))


def other_jars(machine: Path) -> None:
    os.utime(machine / "spark" / "jars", ns=(1, 1))


@pytest.mark.parametrize("change", [newer_java, other_java_file, other_jars])
def test_archive_is_not_used_after_java_or_spark_changed(machine: Path, change: Callable[[Path], None]) -> None:
    made()
    change(machine)
    assert archive_options(chosen="") == ()


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR"])
def test_archive_is_not_used_with_another_configuration(
    machine: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made()
    monkeypatch.setenv(name, str(machine / "conf"))
    assert archive_options(chosen="") == ()


@pytest.mark.parametrize("name", ["JAVA_HOME", "SPARK_HOME"])
def test_archive_is_not_used_without_java_or_spark(machine: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    made()
    monkeypatch.setenv(name, str(machine / "none"))
    assert archive_path() is None
    assert archive_options(chosen="") == ()


def test_pyspark_version_is_part_of_the_archive_name(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = archive_path()
    monkeypatch.setattr("deltasnap_assets.spark.jvm_options.distribution_version", lambda _: "4.9.9")
    assert archive_path() != before


@pytest.mark.parametrize("chosen", ["-XX:SharedArchiveFile=/mine.jsa", "-XX:ArchiveClassesAtExit=/mine.jsa"])
def test_archive_of_the_user_is_kept(machine: Path, chosen: str) -> None:
    made()
    assert archive_options(chosen=chosen) == ()


@pytest.mark.parametrize(
    ("chosen", "small_heap", "expected"),
    [
        ("", True, True),
        ("", False, False),
        ("-Xss2m -XX:+UseG1GC", True, False),
        ("-XX:+UseStringDeduplication", True, True),
    ],
    ids=["small", "large", "user-chose", "user-chose-else"],
)
def test_one_thread_collects_small_heaps_unless_the_user_chose(
    machine: Path, chosen: str, small_heap: bool, expected: bool
) -> None:
    assert ("-XX:+UseSerialGC" in quick_start_options(small_heap=small_heap, chosen=chosen)) == expected


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        *((text, True) for text in ("512m", "2g", "4096", "4GB", "4194304k", " 4294967296B ", "much")),
        *((text, False) for text in ("4097", "4194305k", "5g", "1t")),
    ],
)
def test_heap_is_small_up_to_four_gibibytes(machine: Path, memory: str, expected: bool) -> None:
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


def test_settings_of_a_session_are_complete(machine: Path) -> None:
    archive = made()
    from_archive = f"-XX:SharedArchiveFile={archive} -Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"
    quick = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
    driver = {**ANY_SESSION, **OWN_DRIVER}
    assert session_config(SparkSettings()) == {
        **driver,
        **ONE_PROCESS,
        "spark.master": "local[*]",
        DEFAULT_OPTIONS: f"{quick} {from_archive}",
    }
    assert session_config(SparkSettings(master="yarn")) == {
        **driver,
        "spark.master": "yarn",
        DEFAULT_OPTIONS: from_archive,
    }
    assert session_config(SparkSettings(remote="sc://host")) == {**ANY_SESSION, "spark.remote": "sc://host"}
    assert server_config(SparkSettings(master="local[2]"), 7) == {
        **driver,
        **ONE_PROCESS,
        "spark.master": "local[2]",
        "spark.app.name": "deltasnap spark-server",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "7",
        DEFAULT_OPTIONS: f"-XX:G1HeapRegionSize=16m {from_archive}",
    }


@pytest.mark.parametrize("key", ["spark.driver.cores", "spark.executor.cores", "spark.connect.x", "spark.ui.port"])
@pytest.mark.parametrize("more", ["", "x"])
def test_settings_of_its_process_are_not_sent_to_a_server(key: str, more: str) -> None:
    for name in (key + more, "spark.jars.packages", "spark.jars", "spark.app.id"):
        assert session_config(SparkSettings(remote="sc://host", config={name: 1})).keys() == {
            *ANY_SESSION,
            "spark.remote",
        }


def test_archives_are_in_the_cache_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert cache_folder({}) == cache_folder({"XDG_CACHE_HOME": ""}) == Path("/home/ada/.cache/deltasnap")
    assert cache_folder({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/deltasnap")


def test_java_without_an_archive_of_its_classes_gets_one_beside_that_of_sessions(machine: Path) -> None:
    java, archive = machine / "jdk" / "bin" / "java", Path("/cache/classes-1.jsa")
    assert base_archive_path(archive, java) == Path("/cache/classes-1-base.jsa")
    own = machine / "jdk" / "lib" / "server" / "classes.jsa"
    own.parent.mkdir(parents=True)
    own.touch()
    assert base_archive_path(archive, java) is None


def test_settings_of_the_user_take_precedence(machine: Path) -> None:
    mine: Config = {
        EXTRA_OPTIONS: "-Xss4m",
        DEFAULT_OPTIONS: "-Dmine=1",
        "spark.ui.enabled": True,
    }
    config = session_config(SparkSettings(config=mine))
    assert (config[EXTRA_OPTIONS], config[DEFAULT_OPTIONS], config["spark.ui.enabled"]) == (
        "-Xss4m",
        "-Dmine=1",
        "true",
    )


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:443", "spark://host:7077", "local-cluster[2,1,1024]"])
def test_driver_of_a_cluster_only_starts_from_the_archive(machine: Path, master: str) -> None:
    assert DEFAULT_OPTIONS not in session_config(SparkSettings(master=master))
    made()
    options = session_config(SparkSettings(master=master))[DEFAULT_OPTIONS]
    assert "-XX:SharedArchiveFile=" in options
    assert "Tiered" not in options


def test_settings_of_a_driver_are_not_sent_to_a_connect_server(machine: Path) -> None:
    mine: Config = {
        "spark.driver.memory": "4g",
        "spark.executor.cores": 2,
        "spark.sql.ansi.enabled": True,
    }
    config = session_config(SparkSettings(remote="sc://host", config=mine))
    assert config["spark.remote"] == "sc://host"
    assert config["spark.sql.ansi.enabled"] == "true"
    assert not any(key.startswith(("spark.driver.", "spark.executor.")) for key in config)


def test_connect_server_always_runs_on_this_machine(machine: Path) -> None:
    mine: Config = {
        "spark.driver.memory": "4g",
        "spark.connect.grpc.binding.address": "0.0.0.0",
    }
    config = server_config(SparkSettings(remote="sc://127.0.0.1:15009", config=mine), 15009)
    assert config["spark.master"] == "local[*]"
    assert config["spark.driver.memory"] == "4g"
    assert config["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert config["spark.connect.grpc.binding.port"] == "15009"
    assert "spark.remote" not in config


def test_connect_server_uses_the_default_compilers_and_collects_large_arrays_separately(machine: Path) -> None:
    options = server_config(SparkSettings(), 15009)[DEFAULT_OPTIONS]
    assert "Tiered" not in options
    assert "-XX:G1HeapRegionSize=16m" in options.split()


def test_connect_server_keeps_the_archive_of_the_user(machine: Path) -> None:
    made()
    assert "SharedArchiveFile" in server_config(SparkSettings(), 15009)[DEFAULT_OPTIONS]
    mine: Config = {EXTRA_OPTIONS: "-XX:SharedArchiveFile=mine.jsa"}
    assert "SharedArchiveFile" not in server_config(SparkSettings(config=mine), 15009)[DEFAULT_OPTIONS]


def test_settings_of_the_user_count_on_a_server_too() -> None:
    zone = {"spark.sql.session.timeZone": "Europe/Rome"}
    config = session_config(SparkSettings(remote="sc://host", config={**zone}))
    assert config == {**ANY_SESSION, **zone, "spark.remote": "sc://host"}
