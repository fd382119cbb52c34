"""Runs the core and the five assets on a different Spark than that of the tests, in a separate process.

As a program, it reads a Task as JSON from stdin and writes the results to the task's file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
NO_PYTHON = "/no/such/python"
"""The Python path for executors without Python."""

VERSIONS = 9
FIRST_STORED = 4
LOOKED_AT = 7


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task: the `spark` section of a configuration, a table, a store to write, a file for the results.

    with_rows: whether to compare rows, row changes and what VACUUM would delete.
    """

    table: str
    store: str
    answers: str
    spark: dict[str, Any] = field(default_factory=dict)
    with_rows: bool = True

    def run(self, environment: Mapping[str, str]) -> dict[str, Any]:
        """Run the task in a new process. Return the results."""
        result = subprocess.run(
            [sys.executable, "-m", "tests.core.elsewhere"],
            input=json.dumps(asdict(self)),
            cwd=ROOT,
            env=dict(environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert result.returncode == 0, result.stderr[-6000:]
        answers: dict[str, Any] = json.loads(Path(self.answers).read_text(encoding="utf-8"))
        return answers


def make_events(path: Path) -> Path:
    """Write a table with deltalake: with a checkpoint and later commits."""
    from deltalake import DeltaTable

    from deltasnap_assets.demo.demo_table import grow

    for _ in grow(path, VERSIONS - 3):
        pass
    DeltaTable(path).create_checkpoint()
    for _ in grow(path, VERSIONS):
        pass
    return path


def live_paths(path: Path, version: int) -> list[str]:
    """Return the names of a version's files from deltalake, sorted."""
    from deltalake import DeltaTable

    return sorted(Path(uri).name for uri in DeltaTable(path, version=version).file_uris())


def core_answers(spark: SparkSession, table: str, *, with_rows: bool = True) -> dict[str, Any]:
    """Return the core's results for a table and one version of it."""
    from deltasnap_core import DeltaLog

    log = DeltaLog.for_table(spark, table)
    snapshot = log.get_snapshot_at(version=LOOKED_AT, min_file_retention_timestamp=0)
    answers: dict[str, Any] = {
        "latest": log.update().computed_state.to_json(),
        "history": _rows(log.history_frame(limit=3)),
        "computed_state": snapshot.computed_state.to_json(),
        "all_files": _rows(snapshot.all_files),
        "tombstones": _rows(snapshot.tombstones),
        "state": _rows(snapshot.state),
        "schema": snapshot.data_schema.json(),
        "transactions": snapshot.transactions,
        "optimize_candidates": _rows(snapshot.tables.optimize_candidates),
    }
    if with_rows:
        changed = log.row_changes(1, LOOKED_AT, key=["id"], net=True)
        answers |= {
            "rows": _rows(snapshot.scan("amount > 50").to_df()),
            "some_rows": snapshot.scan(columns=["id"]).take(7).num_rows,
            "row_changes": _rows(changed.drop("_commit_timestamp")),
            "vacuum": snapshot.tables.vacuum_summary().size_in_bytes,
        }
    return answers


def asset_answers(spark: Mapping[str, Any], table: str, store: str) -> dict[str, Any]:
    """Return the contents of the five assets for one version, materialized with a configuration's `spark`."""
    import dagster as dg

    from deltasnap_assets.definitions import build_definitions
    from deltasnap_assets.runs.refresh import refresh_table
    from deltasnap_assets.settings.config import Settings, SparkSettings
    from deltasnap_assets.settings.table_settings import Since, TableSettings

    versions = Since(since=FIRST_STORED)
    events = TableSettings(name="events", path=table, materialize_as="table", versions=versions)
    settings = Settings(storage=store, spark=SparkSettings(**spark), tables=(events,))
    defs = build_definitions(settings)
    with dg.DagsterInstance.ephemeral() as instance:
        done = refresh_table(defs, settings, events, instance, log_level="ERROR")

        def load(name: str) -> Any:
            return defs.load_asset_value(["events", name], partition_key=str(LOOKED_AT), instance=instance)

        return {
            "versions": list(done),
            "log_segment": [file.name for file in load("log_segment").deltas],
            "reconstructed_state": _rows(load("reconstructed_state")),
            "computed_state": load("computed_state").to_json(),
            "all_files": _rows(load("all_files")),
            "tombstones": _rows(load("tombstones")),
        }


def checkpoint_answers(spark: SparkSession, table: str, folder: Path) -> dict[str, Any]:
    """Write a checkpoint of a copy of a table, and delete the commits. Return whether the state is the same."""
    import shutil

    from deltasnap_core import DeltaLog

    copy = folder / "checkpointed"
    shutil.copytree(table, copy)
    log = DeltaLog.for_table(spark, copy)
    before = log.update().computed_state
    written = log.checkpoint()
    for commit in (copy / "_delta_log").glob("*.json"):
        commit.unlink()
    DeltaLog.clear_cache()
    after = DeltaLog.for_table(spark, copy).update().computed_state
    return {"is_new": written.is_new, "is_same": after == before, "version": written.version}


def has_python(spark: SparkSession) -> bool:
    """Return whether Python is available on the executors."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F

    try:
        spark.range(1).select(F.udf(lambda value: value, "long")("id")).collect()
    except (PySparkException, Py4JJavaError) as error:
        return NO_PYTHON not in str(error)
    return True


def _names(spark: SparkSession, table: str) -> list[str]:
    from deltasnap_core import DeltaLog

    files = DeltaLog.for_table(spark, table).get_snapshot_at(version=LOOKED_AT).all_files
    return sorted(Path(row.path).name for row in files.select("path").collect())


def _rows(rows: DataFrame) -> list[str]:
    return sorted(json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in rows.collect())


def main() -> None:
    """Run the task from stdin."""
    task = Task(**json.load(sys.stdin))
    from pyspark.sql import SparkSession

    from deltasnap_assets.settings.config import SparkSettings
    from deltasnap_assets.spark.session_config import session_config

    config = session_config(SparkSettings(**task.spark))
    with warnings.catch_warnings(record=True) as reported:
        warnings.simplefilter("always", UserWarning)
        spark = SparkSession.builder.config(map={**config}).getOrCreate()
    warnings.simplefilter("ignore")
    found = {
        "session": type(spark).__module__,
        "master": spark.conf.get("spark.master", None),
        "warnings": [str(warning.message) for warning in reported if warning.category is UserWarning],
        "core": core_answers(spark, task.table, with_rows=task.with_rows),
        "core_paths": _names(spark, task.table),
        "assets": asset_answers(task.spark, task.table, task.store),
        "checkpoint": checkpoint_answers(spark, task.table, Path(task.answers).parent),
        "has_python": has_python(spark),
    }
    Path(task.answers).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
