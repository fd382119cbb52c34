"""`python -m tests.hive_metastore FOLDER`: asks Spark's embedded Hive metastore for tables, and prints JSON.

A process of its own: a JVM has one metastore. Spark without a Delta jar cannot register a Delta table, so tables are
registered in another format, and their format is changed in the metastore's database, as Delta would have written it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from deltasnap_assets.definitions import build_definitions
from deltasnap_assets.runs.fleet import fleet_of
from deltasnap_assets.runs.memory import LOOKS
from deltasnap_assets.runs.observe import Asked
from deltasnap_assets.runs.planning.names import REFRESH_JOB
from deltasnap_assets.runs.polls import polled
from deltasnap_assets.runs.refresh import refresh_table
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.discovery import with_discovered
from deltasnap_assets.settings.located import use_session
from deltasnap_assets.spark.java import use_java
from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.catalogs import SparkCatalog
from deltasnap_core.errors import CatalogError
from deltasnap_core.replay.sessions import provider_of

_CHANGE = "update TABLE_PARAMS set PARAM_VALUE = 'delta' where PARAM_KEY = 'spark.sql.sources.provider' and TBL_ID in "
NAMES = ("silver.events", "spark_catalog.silver.events", "silver.files", "silver.view", "silver.gone", "nowhere.events")


def main(folder: Path) -> None:
    """Register the table in `FOLDER/my events` as `silver.events`, and print what the catalog answers."""
    spark = _session(folder)
    spark.sql("create database silver")
    spark.sql("create table silver.files (id int) using parquet")
    spark.sql("create view silver.view comment 'x\nProvider: delta\nLocation: s3://b/x\n' as select 1 as id")
    for name in ("events", "forged"):
        place = (folder / "my events").as_uri().replace("%20", " ")
        spark.sql(f"create table silver.{name} (id int) using parquet comment 'clicks' location '{place}'")
    spark.sql("alter table silver.forged set tblproperties ('x' = 'a\\nLocation: file:/etc')")
    _as_delta(spark, folder)
    catalog = SparkCatalog(spark)
    answers: dict[str, Any] = {name: _answer(catalog, name) for name in (*NAMES, "silver.forged", "events")}
    answers["pattern"] = catalog.tables("*.e*")
    answers["all"] = catalog.tables("spark_catalog.silver.*")
    answers["app"] = _followed(spark, folder)
    answers["discover"] = _discovered(spark, folder)
    answers["version"] = DeltaLog.for_table(spark, "silver.events", catalog=catalog).update().version
    print(json.dumps(answers))


def _followed(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Follow `hive.silver.events` as in a project: a tick, a refresh, and ticks of processes without a session."""
    instance = dg.DagsterInstance.ephemeral()
    first, settings, later = _settings(folder), _settings(folder), _settings(folder)
    answers: dict[str, Any] = {"before": _tick(first, instance)}
    job = build_definitions(settings, spark=spark).resolve_job_def(REFRESH_JOB)
    job.execute_in_process(instance=instance)
    answers["refresh"] = SnapshotStore.open(None, settings.storage).versions("events")
    answers["after"] = _tick(later, instance)
    (row,) = fleet_of(later)
    return {**answers, "condition": row["condition"]}


def _discovered(spark: SparkSession, folder: Path) -> dict[str, list[str]]:
    """Resolve `hive.silver.e*` in a process without a session, in one with it, and in one after its refresh."""
    messages = list[str]()
    patterns = [
        _settings(folder / "found", tables=[], discover=[{"table": "hive.silver.e*", "name": "found_{name}"}])
        for _ in range(3)
    ]
    before = with_discovered(patterns[0], messages.append)
    use_session(patterns[1].discover, provider_of(spark))
    found = with_discovered(patterns[1], messages.append)
    defs = build_definitions(found, spark=spark)
    refresh_table(defs, found, found.tables[0], dg.DagsterInstance.ephemeral(), log_level="ERROR")
    after = with_discovered(patterns[2], messages.append)
    names = [[table.name for table in settings.tables] for settings in (before, found, after)]
    return {"before": names[0], "found": names[1], "after": names[2], "messages": messages}


def _settings(folder: Path, **values: Any) -> Settings:
    return Settings.model_validate(
        {
            "storage": str(folder / "store"),
            "catalogs": {"hive": {"type": "spark"}},
            "tables": [{"name": "events", "table": "hive.silver.events"}],
            **values,
        }
    )


def _tick(settings: Settings, instance: dg.DagsterInstance) -> list[str]:
    LOOKS.clear()  # as in a new process
    _, problems = polled(settings, settings.tables, instance, Asked.TICK, {"events": None})
    return [str(error) for error in problems.values()]


def _session(folder: Path) -> SparkSession:
    use_java()
    settings: dict[str, Any] = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    return SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()


def _as_delta(spark: SparkSession, folder: Path) -> None:
    database: Any = spark._jvm.java.sql.DriverManager.getConnection(  # type: ignore[union-attr]
        f"jdbc:derby:;databaseName={folder}/metastore"
    )
    statement = database.createStatement()
    statement.executeUpdate(f"{_CHANGE} (select TBL_ID from TBLS where TBL_NAME in ('events', 'forged'))")
    database.close()


def _answer(catalog: SparkCatalog, name: str) -> Any:
    try:
        found = catalog.table(name)
    except CatalogError as error:
        return error.reason
    return [found.location, found.comment]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
