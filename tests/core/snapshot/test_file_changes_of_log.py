"""`DeltaLog.file_changes` compares the right versions, in both directions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from deltasnap_core.snapshot.delta_log import DeltaLog
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.catalog_tables import FILES, write_catalog_managed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("start", "end", "added", "removed", "commits"),
    [(1, 3, {"d"}, {"a"}, [2, 3]), (3, 1, {"a"}, {"d"}, [3, 2]), (3, 3, set(), set(), [])],
    ids=["forward", "backward", "the same version"],
)
def test_changes_lead_from_the_first_version_to_the_second(
    spark: SparkSession,
    tmp_path: Path,
    start: int,
    end: int,
    added: set[str],
    removed: set[str],
    commits: list[int],
) -> None:
    versions = {0: [protocol(), metadata(), add("a")], 1: [add("b")], 2: [remove("a", dataChange=False)]}
    write_log(tmp_path, {**versions, 3: [add("d", dataChange=False)]})
    changes = DeltaLog.for_table(spark, tmp_path).file_changes(start, end)
    assert (changes.from_version, changes.to_version) == (start, end)
    assert {row.path for row in changes.added.collect()} == added
    assert {row.path for row in changes.removed.collect()} == removed
    assert [commit.version for commit in changes.commits] == commits
    assert changes.summary.rearranged_files == len(added)


@pytest.mark.slow
def test_changes_include_the_commits_that_the_catalog_ratified(spark: SparkSession, tmp_path: Path) -> None:
    tail = write_catalog_managed(tmp_path)
    kept = [add(name, dataChange=False) for name in FILES[:2]]
    write_checkpoint(tmp_path / "_delta_log", 1, "classic", [protocol(), metadata(), *kept])
    log = DeltaLog.for_table(spark, tmp_path)
    log.update(log_tail=tail, max_catalog_version=2)
    changes = log.file_changes(0, 2)
    assert [commit.version for commit in changes.commits] == [1, 2]
    assert (changes.summary.added_files, changes.summary.rearranged_files) == (2, 0)
    assert log.file_changes(1, 2).summary.added_files == 1
