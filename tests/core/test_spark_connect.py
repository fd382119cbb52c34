"""The core and the five assets over Spark Connect, on a server that `deltasnap spark-server` would start."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.connect_server import (
    SparkServer,
    SparkServerError,
    answers,
    running_server,
    start_server,
    stop_server,
)
from deltasnap_core.scan.tables import vacuum_candidates
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
from tests.core.scan.tables.test_vacuum_candidates import PlainKeys

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
pytest.importorskip("grpc")

# The server lives for seconds.
SETTINGS = SparkSettings(
    master="local[2]",
    config={
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dwith=a:colon=and\\backslash",
        "spark.sql.shuffle.partitions": "2",
        # Compiling the many different queries of these tests would take half of their time.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[SparkServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", NO_PYTHON)
        server = start_server(SETTINGS, folder, free_port())
    yield server
    stop_server(folder)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_events(tmp_path_factory.mktemp("connect") / "events")


@pytest.fixture(scope="module")
def found(server: SparkServer, table: Path) -> dict[str, Any]:
    task = Task(
        table=str(table),
        store=str(table.parent / "store"),
        answers=str(table.parent / "answers.json"),
        spark={"remote": server.url, "config": dict(SETTINGS.config)},
    )
    # No Java either: it is not needed if the server is elsewhere.
    return task.run({**os.environ, "JAVA_HOME": str(table.parent / "no-java"), "PYSPARK_PYTHON": NO_PYTHON})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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


def test_rows_over_connect_match_the_expected_rows(server: SparkServer, golden: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    result = subprocess.run(
        [sys.executable, "-m", "tests.core.scan.rows_over_connect", server.url, str(golden), str(answers)],
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


def test_running_server_is_found_and_started_once(server: SparkServer, folder: Path) -> None:
    assert running_server(folder) == server
    assert start_server(SETTINGS, folder, server.port) == server
    with pytest.raises(SparkServerError, match=str(server.port)):
        start_server(SETTINGS, folder, free_port())


def test_server_listens_on_this_machine_only_and_keeps_settings_private(server: SparkServer, folder: Path) -> None:
    assert answers(server.port)
    assert (folder / "spark.properties").stat().st_mode & 0o077 == 0
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.2", server.port))  # free, unless the server took every address


def test_server_stops_completely(server: SparkServer, folder: Path, found: dict[str, Any]) -> None:
    assert stop_server(folder) == server
    assert running_server(folder) is None
    assert not answers(server.port)
    assert stop_server(folder) is None
