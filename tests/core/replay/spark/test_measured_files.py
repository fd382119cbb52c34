"""The measures of a version's files in Spark, and their cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from deltasnap_core import TableLog
from deltasnap_core.log.commits import commit_batch
from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.replay.spark.measured_files import measure_files
from deltasnap_core.replay.spark.reading.action_reader import ActionReader
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from tests.builders import Action, add, metadata, protocol, remove, write_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Cache:
    """Records what is cached and released."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def cached(self, rows: Any) -> Any:
        self.calls.append(rows)
        return rows

    def release(self) -> None:
        self.calls.append("released")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("actions", "is_cached"), [([add("a", size=7), remove("b")], True), ([], False)], ids=["files", "no files"]
)
def test_measures_are_cached_until_they_are_released(
    spark: SparkSession, tmp_path: Path, actions: list[Action], is_cached: bool
) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), *actions]})
    table, cache = TableLog.for_path(tmp_path), Cache()
    reader = ActionReader(spark=spark, files=SparkFiles(None, lambda _: True), log_path=table.log_path)
    log, given = table.at(0).replayable, cast("Any", cache)
    found = measure_files(reader, log, given, partitions=None)
    assert cache.calls == ([found.rows] if is_cached else [])
    assert found.count(log, KEEP_ALL).applied_to(None).size_in_bytes == (7 if is_cached else 0)
    found.release()
    assert cache.calls[-1] == "released"
    measure_files(reader, log, None, partitions=None).release()  # there is nothing to release


def test_files_of_small_and_large_commits_are_all_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 1000)
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")], 1: [add(f"b{number}") for number in range(20)]})
    table = TableLog.for_path(tmp_path)
    reader = ActionReader(spark=spark, files=SparkFiles(None, lambda _: True), log_path=table.log_path)
    log = table.at(1).replayable
    assert [commit.is_large for commit in log.batch.commits] == [False, True]
    found = measure_files(reader, log, None, partitions=None)
    assert found.count(log, KEEP_ALL).applied_to(None).num_of_files == 21
