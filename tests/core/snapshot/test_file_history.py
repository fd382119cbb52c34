"""The history of files, their changes between versions, and the snapshots that keep counted files in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core import DeltaLog, TableLog
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.replay.driver.held_files import HeldFiles
from tests.builders import add, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.catalog_tables import FILES, write_catalog_managed
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITS = {0: [protocol(), metadata(), add("a")], 1: [add("b")], 2: [add("c")], 3: [remove("a")]}


@pytest.mark.parametrize(
    ("checkpoints", "damaged", "lost", "expected"),
    [
        ((), (), (), ({"a": 0, "b": 1, "c": 2}, 4)),
        ((0,), (), (0,), ({"a": None, "b": 1, "c": 2}, 3)),
        ((1,), (), (0, 1), ({"a": None, "b": None, "c": 2}, 2)),
        ((1, 2), (1,), (0, 1), ({"a": None, "b": None, "c": None}, 1)),
        ((1, 3), (1,), (0, 1), ({"b": None, "c": None}, 0)),
    ],
    ids=["empty", "a checkpoint of version 0", "first", "the first is damaged", "only the version itself"],
)
def test_history_starts_at_the_first_version_that_can_be_read(
    spark: SparkSession,
    tmp_path: Path,
    checkpoints: tuple[int, ...],
    damaged: tuple[int, ...],
    lost: tuple[int, ...],
    expected: tuple[dict[str, int | None], int],
) -> None:
    log = write_log(tmp_path, COMMITS)
    for version in checkpoints:
        actions = [add(name) for name in "abc"[: version + 1] if not (name == "a" and version == 3)]
        for file in write_checkpoint(log, version, "classic", [protocol(), metadata(), *actions]):
            if version in damaged:
                file.write_bytes(b"damaged")
    for version in lost:
        (log / commit_file(version)).unlink()
    tables, (added, count) = DeltaLog.for_table(spark, tmp_path).snapshot.tables, expected
    assert {row.path: row.added_version for row in tables.entries.collect()} == added
    history = tables._version.file_history()
    assert (0 if history.events is None else history.events.count()) == count


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("start", "end", "added", "removed", "commits"),
    [(1, 3, {"d"}, {"a"}, [2, 3]), (3, 1, {"a"}, {"d"}, [3, 2]), (3, 3, set(), set(), [])],
    ids=["forward", "backward", "the same version"],
)
def test_changes_lead_from_the_first_version_to_the_second(
    spark: SparkSession, tmp_path: Path, start: int, end: int, added: set[str], removed: set[str], commits: list[int]
) -> None:
    versions = {0: [protocol(), metadata(), add("a")], 1: [add("b")], 2: [remove("a", dataChange=False)]}
    write_log(tmp_path, {**versions, 3: [add("d", dataChange=False)]})
    changes = DeltaLog.for_table(spark, tmp_path).file_changes(start, end)
    assert (changes.from_version, changes.to_version) == (start, end)
    assert {row.path for row in changes.added.collect()} == added
    assert {row.path for row in changes.removed.collect()} == removed
    assert [commit.version for commit in changes.commits] == commits
    assert changes.summary.rearranged_files == len(added)


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


def test_only_the_current_snapshot_keeps_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path, {0: [protocol(), metadata(), add("a")]})
    log = log_without_spark(TableLog.for_path(tmp_path))
    earlier, held = log.snapshot, list[bool]()
    count = HeldFiles.count

    def counted(*given: Any, hold: bool) -> Any:
        held.append(hold)
        return count(*given, hold=hold)

    monkeypatch.setattr(HeldFiles, "count", counted)
    write_log(tmp_path, {1: [add("b")]})
    later = log.update()
    assert [each.computed_state.num_of_files for each in (earlier, later)] == [1, 2]
    assert held == [False, True]
