"""The core and the five assets over Spark Connect, on a server that Spark's own script starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.scan.tables import vacuum_candidates
from tests.connect_server import connect_server
from tests.core.elsewhere import (
    FIRST_STORED,
    LOOKED_AT,
    NO_PYTHON,
    ROOT,
    VERSIONS,
    Task,
    core_answers,
    live_paths,
    make_events,
)
from tests.core.scan.tables.vacuum_candidates_builders import PlainKeys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
pytest.importorskip("grpc")

# The server lives for seconds.
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    # Compiling the many different queries of these tests would take half of their time.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server, on which Python cannot run."""
    config = {"spark.master": "local[2]", **SETTINGS}
    with connect_server(tmp_path_factory.mktemp("server"), config, PYSPARK_PYTHON=NO_PYTHON) as url:
        yield url


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_events(tmp_path_factory.mktemp("connect") / "events")


@pytest.fixture(scope="module")
def found(server: str, table: Path) -> dict[str, Any]:
    task = Task(
        table=str(table),
        store=str(table.parent / "store"),
        answers=str(table.parent / "answers.json"),
        spark={"remote": server, "config": SETTINGS},
    )
    # No Java either: it is not needed if the server is elsewhere.
    return task.run({**os.environ, "JAVA_HOME": str(table.parent / "no-java"), "PYSPARK_PYTHON": NO_PYTHON})


def test_session_uses_connect_on_a_server_without_python(found: dict[str, Any]) -> None:
    assert found["session"].startswith("pyspark.sql.connect.")
    assert not found["has_python"]


def test_core_over_connect_matches_one_process(
    found: dict[str, Any], spark: SparkSession, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vacuum_candidates, "FileKeys", PlainKeys)
    assert found["core"] == core_answers(spark, str(table))
    assert found["core_paths"] == live_paths(table, LOOKED_AT)


def test_checkpoint_written_over_connect_contains_the_state(found: dict[str, Any]) -> None:
    assert found["checkpoint"] == {"is_new": True, "is_same": True, "version": VERSIONS - 1}


def test_assets_over_connect_match_the_core(found: dict[str, Any]) -> None:
    assets, core = found["assets"], found["core"]
    assert assets["versions"] == list(range(FIRST_STORED, VERSIONS))
    assert assets["log_segment"]
    for name in ("computed_state", "all_files"):
        assert assets[name] == core[name]


def test_client_receives_no_server_settings(found: dict[str, Any]) -> None:
    assert found["warnings"] == []


def test_rows_over_connect_match_the_expected_rows(server: str, golden: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    result = subprocess.run(
        [sys.executable, "-m", "tests.core.scan.rows_over_connect", server, str(golden), str(answers)],
        cwd=ROOT,
        env={**os.environ, "JAVA_HOME": str(tmp_path / "no-java"), "PYSPARK_PYTHON": NO_PYTHON},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert result.returncode == 0, result.stderr[-6000:]
    found = json.loads(answers.read_text(encoding="utf-8"))
    assert found["session"].startswith("pyspark.sql.connect.")
    assert found["cases"] > 40
    assert found["wrong"] == {}
