"""Checkpoints of golden tables: every reader sees the same table after the commits are replaced by the checkpoint.

A sample runs by default. Set DELTASNAP_ALL_CHECKPOINTS=1 for all tables.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog, DeltaSnapError, UnsupportedWriterError, WrittenCheckpoint
from deltasnap_core.protocol.file_names import LOG_FOLDER, SIDECAR_FOLDER, LogFileKind
from tests.checkpointing import (
    by_oracle,
    checkpoint_actions,
    commits_of,
    cut_to_checkpoint,
    drop_checkpoints,
    log_files,
    seen_by_deltalake,
    shared_types,
    state_of_checkpoint,
)
from tests.conftest import golden_folder
from tests.golden import GoldenTable, facts, load_golden_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("interpreted"),
    pytest.mark.skipif(golden_folder() is None, reason="no golden tables: set DELTASNAP_GOLDEN to their folder"),
]

FOLDER = golden_folder()
SAMPLE = {
    "dat__column_mapping",
    "dat__stats_as_struct",
    "golden__dv-with-columnmapping",
    "krs__v1-multi-part-struct-stats-only",
    "krs__v2-checkpoints-json-with-sidecars",
}
EVERY = bool(os.environ.get("DELTASNAP_ALL_CHECKPOINTS"))
TABLES = [
    table
    for table in (load_golden_tables(FOLDER) if FOLDER is not None else ())
    if table.latest_refusal is None and (EVERY or table.name in SAMPLE)
]


def unexpiring() -> int:
    """A clock at which no tombstone and no transaction has expired."""
    return 0


def test_sample_exists() -> None:
    assert {table.name for table in TABLES} >= SAMPLE


@pytest.mark.parametrize("table", TABLES, ids=[table.name for table in TABLES])
def test_readers_see_same_table_from_checkpoint_alone(table: GoldenTable, spark: SparkSession, tmp_path: Path) -> None:
    copy = tmp_path / "table"
    shutil.copytree(table.path, copy)
    log = copy / LOG_FOLDER
    version = table.expected["latest"]["version"]
    spark_types = _schema_of(log, version)
    drop_checkpoints(log, version)
    try:
        before = _seen(copy, spark)
    except DeltaSnapError as error:
        pytest.skip(f"without its checkpoint, the version cannot be read: {type(error).__name__}")
    assert before["version"] == version
    deltalake_before = _by_deltalake(copy, before["set_transactions"])
    commits = commits_of(log, version)
    try:
        written = _log(copy, spark).checkpoint()
    except UnsupportedWriterError as error:
        assert _seen(copy, spark) == before
        pytest.skip(f"refused: {', '.join(error.features)}")
    assert written.is_new
    cut_to_checkpoint(log, version)
    assert _seen(copy, spark) == before
    if not isinstance(deltalake_before, str):
        assert _by_deltalake(copy, before["set_transactions"]) == deltalake_before
    actions = checkpoint_actions(log, written.files[0].name)
    if commits is not None and _keeps_stats(actions):
        assert state_of_checkpoint(actions) == by_oracle(commits)
    if spark_types is not None:
        assert shared_types(_schema_of_written(log, written), spark_types) == []


def _log(table: Path, spark: SparkSession) -> DeltaLog:
    DeltaLog.clear_cache()
    return DeltaLog.for_table(spark, table, clock=unexpiring)


def _seen(table: Path, spark: SparkSession) -> dict[str, Any]:
    found = facts(_log(table, spark).update())
    return {name: value for name, value in found.items() if name != "log_segment"}


def _by_deltalake(table: Path, app_ids: dict[str, int]) -> dict[str, Any] | str:
    try:
        return seen_by_deltalake(table, app_ids)
    except Exception as error:  # noqa: BLE001  # deltalake does not read every table
        return str(error)


def _keeps_stats(actions: list[dict[str, Any]]) -> bool:
    return all("stats" in action["add"] for action in actions if "add" in action)


def _schema_of(log: Path, version: int) -> Any:
    """Return the schema of a checkpoint that Delta on Spark wrote for the version; None: there is none."""
    for parsed, file in log_files(log):
        is_one = parsed.kind is LogFileKind.CHECKPOINT and parsed.version == version and parsed.extension == "parquet"
        if is_one and file.stat().st_size and b"org.apache.spark.version" in (pq.read_metadata(file).metadata or {}):
            return pq.read_schema(file)
    return None


def _schema_of_written(log: Path, written: WrittenCheckpoint) -> Any:
    name = written.files[-1].name
    return pq.read_schema(log / (SIDECAR_FOLDER if written.kind == "uuid" else "") / name)
