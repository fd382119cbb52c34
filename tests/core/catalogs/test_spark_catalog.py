"""The catalogs of a Spark session: Hive's metastore, embedded in Spark, without a Delta jar."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from deltasnap_core.catalogs import SparkCatalog
from deltasnap_core.errors import CatalogError
from tests.builders import add, metadata, protocol, write_log


@pytest.fixture(scope="module")
def hive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a Delta table, and the answers about it."""
    folder = tmp_path_factory.mktemp("hive")
    write_log(folder / "my events", {0: [protocol(), metadata()], 1: [add("a")]})
    command = [sys.executable, "-m", "tests.hive_metastore", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "my events", json.loads(done.stdout.splitlines()[-1])


@pytest.mark.spark
@pytest.mark.thorough
def test_table_of_hive_is_found_without_a_delta_jar(hive: tuple[Path, dict[str, Any]]) -> None:
    folder, answers = hive
    for name in ("silver.events", "spark_catalog.silver.events"):
        assert answers[name] == [f"file://{folder}", "clicks"]
    assert answers["version"] == 1


@pytest.mark.spark
@pytest.mark.thorough
def test_other_tables_of_hive_are_one_sentence(hive: tuple[Path, dict[str, Any]]) -> None:
    answers = hive[1]
    assert answers["silver.files"] == "it is not a Delta table, but a table of the format parquet"
    assert answers["silver.view"] == "it is not a Delta table, but a view"
    assert answers["silver.gone"] == "the catalog of the session has no such table"
    assert answers["nowhere.events"] == "the catalog of the session has no such table (SCHEMA_NOT_FOUND)"
    assert "is ambiguous" in answers["silver.forged"]
    assert "expected a name" in answers["events"]


@pytest.mark.spark
@pytest.mark.thorough
def test_patterns_find_delta_tables_of_hive(hive: tuple[Path, dict[str, Any]]) -> None:
    assert hive[1]["pattern"] == ["silver.events"]
    assert hive[1]["all"] == ["spark_catalog.silver.events", "spark_catalog.silver.forged"]


@pytest.mark.spark
@pytest.mark.thorough
def test_pattern_has_no_tables_until_a_process_with_a_session_finds_them(hive: tuple[Path, dict[str, Any]]) -> None:
    found = hive[1]["discover"]
    assert (found["before"], found["found"], found["after"]) == ([], ["found_events"], ["found_events"])
    assert "only a process with a Spark session can find it" in found["messages"][0]
    assert "The tables that it matched earlier are still followed." in found["messages"][1]


@pytest.mark.spark
@pytest.mark.thorough
def test_ticks_without_a_session_use_the_location_that_a_run_found(hive: tuple[Path, dict[str, Any]]) -> None:
    app = hive[1]["app"]
    assert app["refresh"] == [0, 1]
    assert app["after"] == []
    assert app["condition"] != "broken"
    (error,) = app["before"]
    assert "hive.silver.events" in error
    assert "its location is not known yet" in error


def test_table_of_the_session_catalog_that_is_not_delta_is_one_sentence(spark: SparkSession) -> None:
    spark.sql("create table if not exists default.plain (id int) using parquet")
    try:
        for name in ("default.plain", "default.PLAIN"):
            with pytest.raises(CatalogError, match="it is not a Delta table, but a table of the format parquet"):
                SparkCatalog(spark).table(name)
        with pytest.raises(CatalogError, match="no such table"):
            SparkCatalog(spark).table("default.pl'ain`")
    finally:
        spark.sql("drop table default.plain")
