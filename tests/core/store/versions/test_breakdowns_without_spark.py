"""The breakdown of a version, applied from the version before it, equals one that is counted from its rows."""

# ruff: noqa: F401, F811

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.rules.totals.file_breakdown import FileBreakdown, FileGroup
from deltasnap_core.store.versions.stored_breakdowns import StoredBreakdowns
from tests.builders import Action, add, metadata, protocol, remove, write_log
from tests.driver_bases import spark

LATER = 10**13


def of(path: str, day: str | None, size: int) -> Action:
    return add(path, size=size, partitionValues={"id": day})


def gone(path: str, day: str | None, size: int | None, at: int = LATER) -> Action:
    return remove(path, deletion_timestamp=at, size=size, partitionValues={"id": day}, extendedFileMetadata=True)


COMMITS: dict[int, list[Action]] = {
    0: [protocol(), metadata(partitionColumns=["id"]), of("a", "1", 10), of("b", "1", 5_000), of("c", None, 1 << 20)],
    1: [gone("a", "1", 10), of("d", "2", 20)],
    2: [of("e", "2", 70_000), gone("b", "1", 5_000, at=1), gone("never", "3", None)],
    3: [of("a", "1", 11), gone("d", "2", 20)],
    4: [],
    5: [gone("c", None, 1 << 20, at=LATER + 5), of("c", None, 2 << 20), of("f", "4", 0)],
    6: [gone("e", "2", 70_000), gone("f", "4", 0), gone("a", "1", 11), gone("c", None, 2 << 20)],
}


def counted(store: SnapshotStore, version: int) -> FileBreakdown:
    found = store._reader.version("t", version)
    return found.driver_rows.breakdown(found.manifest)


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [((1, 1), (2, 6)), tuple((v, v) for v in range(1, 7))])
def test_applied_breakdown_equals_a_counted_one(
    spark: None, tmp_path: Path, ranges: tuple[tuple[int, int], ...]
) -> None:
    write_log(tmp_path / "t", COMMITS)
    store, log = SnapshotStore.open(None, tmp_path / "store"), DeltaLog.for_table(None, tmp_path / "t")
    store.write_range("t", log, 0, 0)
    found = [store.file_breakdown("t", 0)]
    for first, last in ranges:
        store.write_range("t", log, first, last)
        found.append(store.file_breakdown("t", last))
    assert found == [counted(store, version) for version in (0, *(last for _, last in ranges))]


def test_breakdown_counts_live_files_by_partition_and_tombstones_by_time(spark: None, tmp_path: Path) -> None:
    write_log(tmp_path / "t", COMMITS)
    store, log = SnapshotStore.open(None, tmp_path / "store"), DeltaLog.for_table(None, tmp_path / "t")
    store.write_range("t", log, 0, 3)
    found = store.file_breakdown("t", 3)
    sizes = {values: (sums.files, sums.size) for values, sums in found.partitions.items()}
    assert sizes == {(("id", "1"),): (1, 11), (("id", None),): (1, 1 << 20), (("id", "2"),): (1, 70_000)}
    assert found.deletions is not None
    assert {at: (sums.files, sums.size, sums.without_size) for at, sums in found.deletions.items()} == {
        LATER: (2, 20, 1),
    }
    assert [path for path, _ in found.largest.files] == ["c", "e", "a"]
    assert [path for path, _ in found.smallest.files] == ["a", "e", "c"]


@pytest.mark.parametrize(
    "wrong", [FileGroup.of_file("one too many", 5, ()), FileGroup.of_tombstone(LATER, 5)], ids=["files", "tombstones"]
)
def test_wrong_breakdown_is_detected_by_the_state_and_counted_again(
    spark: None, tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: FileGroup
) -> None:
    write_log(tmp_path / "t", COMMITS)
    store, log = SnapshotStore.open(None, tmp_path / "store"), DeltaLog.for_table(None, tmp_path / "t")
    store.write_range("t", log, 0, 0)
    damaged = store.file_breakdown("t", 0).updated([wrong])
    assert damaged is not None
    StoredBreakdowns(stored=store._reader.table("t")).write(store.manifest("t", 0), damaged)
    with caplog.at_level(logging.WARNING):
        store.write_range("t", log, 1, 1)
    assert "files by size and partition are counted again" in caplog.text
    assert store.file_breakdown("t", 1) == counted(store, 1)
