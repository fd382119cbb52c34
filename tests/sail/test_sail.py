"""`spark: {remote: sail}`: the core, the assets and the demo on a server in the process, and unsupported features."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("tests.sail.client", reason="needs an environment of constraints-sail.txt", exc_type=ImportError)
from deltasnap_core import DeltaLog, SnapshotOptions, UnsupportedServerError
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.storage.urls import local_path, to_url
from tests.core.elsewhere import FIRST_STORED, LOOKED_AT, NO_PYTHON, ROOT, VERSIONS, Task, live_paths, make_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON_SERVER = SnapshotOptions(engine="spark")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_events(tmp_path_factory.mktemp("sail") / "events")


@pytest.fixture(scope="module")
def without_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    no_java = {"JAVA_HOME": str(tmp_path_factory.mktemp("no-java")), "DELTASNAP_JAVA": "system"}
    return {**os.environ, **no_java, "PYSPARK_PYTHON": NO_PYTHON, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def found(table: Path, without_java: dict[str, str]) -> dict[str, Any]:
    task = Task(
        table=str(table),
        store=str(table.parent / "store"),
        answers=str(table.parent / "answers.json"),
        spark={"remote": "sail", "use": "always"},
        with_rows=False,
    )
    return task.run(without_java)


def test_core_on_sail_matches_deltalake(found: dict[str, Any], table: Path) -> None:
    assert found["session"].startswith("pyspark.sql.connect.")
    assert found["core_paths"] == live_paths(table, LOOKED_AT)


def test_five_assets_on_sail_match_the_core(found: dict[str, Any]) -> None:
    assets, core = found["assets"], found["core"]
    assert assets["versions"] == list(range(FIRST_STORED, VERSIONS))
    assert assets["log_segment"]
    for name in ("computed_state", "all_files", "tombstones"):
        assert assets[name] == core[name]
    assert len(assets["reconstructed_state"]) == len(core["state"])


def test_checkpoint_is_rejected_with_one_line(found: dict[str, Any]) -> None:
    assert found["checkpoint"]["refused"].startswith("The Spark Connect server cannot write a checkpoint: ")


def test_demo_runs_on_sail_without_java(tmp_path: Path, without_java: dict[str, str]) -> None:
    command = [sys.executable, "-c", "from deltasnap_assets.command.cli import main; main()", "demo", "--remote=sail"]
    done = subprocess.run(command, cwd=tmp_path, env=without_java, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "47" in done.stdout


def test_scan_of_rows_is_rejected_in_one_line(spark: SparkSession, table: Path) -> None:
    scan = DeltaLog.for_table(spark, table).update().scan()
    assert scan.files.count() > 0
    with pytest.raises(UnsupportedServerError, match="cannot read the rows of a table"):
        scan.to_df()


def test_state_without_a_cache_is_the_state(spark: SparkSession, table: Path) -> None:
    snapshot = DeltaLog.for_table(spark, table, options=ON_SERVER).update()
    assert snapshot.state.where("add.path is not null").count() == snapshot.computed_state.num_of_files


def test_file_deleted_during_a_read_is_not_read_as_empty(spark: SparkSession, tmp_path: Path) -> None:
    files, url = SparkFiles.of(None, GivenSession(spark)), to_url(tmp_path / "a.txt")
    (tmp_path / "target.txt").write_text("kept")
    (tmp_path / "a.txt").symlink_to("target.txt")
    (readable,) = files.readable([url])
    (tmp_path / "target.txt").unlink()
    assert Path(local_path(readable)).read_text() == "kept"
    assert [row[0] for row in spark.read.text(readable).collect()] == ["kept"]
    with pytest.raises(FileNotFoundError):
        files.readable([url])
