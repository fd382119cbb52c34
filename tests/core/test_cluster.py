"""The core and the five assets on a cluster of several processes whose workers have no Python."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.elsewhere import (
    FIRST_STORED,
    LOOKED_AT,
    NO_PYTHON,
    VERSIONS,
    Task,
    core_answers,
    live_paths,
    make_events,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

# Two small JVMs that live for seconds.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CLUSTER = {
    "master": "local-cluster[2,1,1024]",
    "config": {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.extraJavaOptions": QUICK,
        # One task per file, on any free worker.
        "spark.sql.files.openCostInBytes": "256m",
    },
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_events(tmp_path_factory.mktemp("cluster") / "events")


@pytest.fixture(scope="module")
def found(table: Path) -> Iterator[dict[str, Any]]:
    import pyspark

    task = Task(
        table=str(table),
        store=str(table.parent / "store"),
        answers=str(table.parent / "answers.json"),
        spark=CLUSTER,
        with_rows=False,
    )
    home = Path(pyspark.__file__).parent
    python = {"PYSPARK_PYTHON": NO_PYTHON, "PYSPARK_DRIVER_PYTHON": sys.executable}
    before = set((home / "work").glob("app-*"))
    yield task.run({**os.environ, "SPARK_HOME": str(home), **python})
    # Workers leave files only in Spark's own folder.
    for left in set((home / "work").glob("app-*")) - before:
        shutil.rmtree(left, ignore_errors=True)


def test_workers_have_no_python(found: dict[str, Any]) -> None:
    assert found["master"] == CLUSTER["master"]
    assert not found["has_python"]


def test_core_on_cluster_matches_one_process(found: dict[str, Any], spark: SparkSession, table: Path) -> None:
    assert found["core"] == core_answers(spark, str(table), with_rows=False)
    assert found["core_paths"] == live_paths(table, LOOKED_AT)


def test_checkpoint_written_on_a_cluster_contains_the_state(found: dict[str, Any]) -> None:
    assert found["checkpoint"] == {"is_new": True, "is_same": True, "version": VERSIONS - 1}


def test_assets_on_cluster_match_the_core(found: dict[str, Any], table: Path) -> None:
    assets, core = found["assets"], found["core"]
    assert assets["versions"] == list(range(FIRST_STORED, VERSIONS))
    assert assets["log_segment"]
    for name in ("computed_state", "all_files"):
        assert assets[name] == core[name]
