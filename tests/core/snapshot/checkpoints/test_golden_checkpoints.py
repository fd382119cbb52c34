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

from deltasnap_core import DeltaLog, DeltaSnapError, WrittenCheckpoint
from deltasnap_core.errors import UnsupportedWriterError
from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER, SIDECAR_FOLDER, LogFileKind
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
    pytest.mark.thorough,
    pytest.mark.spark,
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
OTHERS_COMPARE_PATHS_AS_TEXTS = {
    f"canonicalized-paths-{kind}-{place}" for kind in ("normal", "special") for place in ("a", "b")
}
"""Tables that add a file as `/path` and remove it as `file:/path`. deltalake and the oracle see two files."""
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
        if _log(copy, spark).update().version != version:
            pytest.skip("the version has a checkpoint and no commit")
        before = _seen(copy, spark)
    except DeltaSnapError as error:
        pytest.skip(f"without its checkpoint, the version cannot be read: {type(error).__name__}")
    deltalake_before = _by_deltalake(copy, before["set_transactions"])
    commits = commits_of(log, version)
    try:
        written = _log(copy, spark).checkpoint()
    except UnsupportedWriterError as error:
        assert _seen(copy, spark) == before
        pytest.skip(f"refused: {', '.join(error.features)}")
    assert written.is_new
    cut_to_checkpoint(log, version)
    actions = checkpoint_actions(log, written.files[0].name)
    has_json, has_any = _has(actions, "stats"), _has(actions, "stats", "stats_parsed")
    assert _without_records(_seen(copy, spark), has_any) == _without_records(before, has_any)
    if table.name.partition("__")[2] in OTHERS_COMPARE_PATHS_AS_TEXTS:
        return
    if not isinstance(deltalake_before, str):
        after = _by_deltalake(copy, before["set_transactions"])
        found, expected = _known_before(after, deltalake_before, has_json)
        assert found == expected
    if commits is not None:
        assert state_of_checkpoint(actions, with_stats=has_json) == by_oracle(commits, with_stats=has_json)
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


def _has(actions: list[dict[str, Any]], *columns: str) -> bool:
    """Whether the live files of a checkpoint have one of these columns; without live files, True."""
    return all(not set(columns).isdisjoint(action["add"]) for action in actions if "add" in action)


def _without_records(found: dict[str, Any], has_stats: bool) -> dict[str, Any]:
    """Return facts without the numbers of records, for a table whose checkpoints have no statistics."""
    return found if has_stats else {**found, "files": [{**file, "num_records": None} for file in found["files"]]}


def _known_before(
    after: dict[str, Any] | str, before: dict[str, Any], has_json: bool
) -> tuple[dict[str, Any] | str, dict[str, Any]]:
    """Return deltalake's results after and before, limited to values known before.

    deltalake does not read struct statistics, nor numbers such as `0E-10` in JSON statistics.
    """
    if isinstance(after, str):
        return after, before
    if not has_json:
        return {**after, "adds": None}, {**before, "adds": None}
    known = {
        key: {name: value for name, value in add.items() if name in before["adds"].get(key, ())}
        for key, add in after["adds"].items()
    }
    return {**after, "adds": known}, before


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
