"""The rows of the golden tables over Spark Connect, on a server that has no Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltasnap_assets.spark.connect_server import SparkServer, start_server, stop_server
from tests.core.elsewhere import NO_PYTHON, ROOT
from tests.core.test_spark_connect import SETTINGS, free_port

pytestmark = pytest.mark.spark
pytest.importorskip("grpc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    folder = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", NO_PYTHON)
        server = start_server(SETTINGS, folder, free_port())
    yield server
    stop_server(folder)


def test_rows_over_connect_are_those_expected(server: SparkServer, golden: Path, tmp_path: Path) -> None:
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
