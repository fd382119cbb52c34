"""The breakdown of the newest version in the store: computed once, updated by commits, never of another log."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from deltasnap_core.rules.totals.file_breakdown import FileBreakdown, FileGroup, FileSums, RankedFiles
from deltasnap_core.rules.totals.tombstone_times import TombstoneSums, TombstoneTimes
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
from deltasnap_core.storage.urls import to_url
from deltasnap_core.store.format.breakdown_file import breakdown_bytes, breakdown_of
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.snapshot_store import SnapshotStore
from deltasnap_core.store.stored_version import StoredVersion
from deltasnap_core.store.versions.pruning import prune, usage
from deltasnap_core.store.versions.stored_breakdowns import StoredBreakdowns
from deltasnap_core.store.versions.stored_table import StoredTable
from deltasnap_core.store.writing import range_writer
from tests.builders import Action, add, metadata, protocol, remove, write_log
from tests.driver_bases import use_driver_bases
from tests.thorough import one_in

NEW_BASES = ChangePolicy(base_fraction=0.3, least_rows=3, fan_in=2)
KEEPS_CHANGES = ChangePolicy(base_fraction=9, least_rows=99, fan_in=3)
ONE_FILE = FileBreakdown.of([FileGroup.of_file("a", 1, ())])


def files(stored: StoredTable) -> list[str]:
    """Return the names of the stored breakdowns."""
    return sorted(file.name for file in Path(stored.folder.removeprefix("file://")).rglob("breakdowns/*.parquet"))


def test_missing_breakdown_is_none_and_a_written_one_is_read(stored: StoredTable) -> None:
    (manifest,) = stored.current_manifests([3])
    breakdowns = StoredBreakdowns(stored=stored)
    assert breakdowns.read(manifest) is None
    breakdowns.write(manifest, ONE_FILE)
    assert breakdowns.read(manifest) == ONE_FILE
    breakdowns.remove([manifest])
    breakdowns.remove([manifest])
    assert breakdowns.read(manifest) is None


def test_file_of_a_breakdown_has_a_row_for_each_group_and_names_its_version(stored: StoredTable) -> None:
    """Stores of this release have these files."""
    (manifest,) = stored.current_manifests([3])
    assert manifest.identity is not None
    breakdown = FileBreakdown(
        sizes={0: FileSums(2, 7)},
        partitions={(("p", "1"), ("q", None)): FileSums(2, 1 << 70)},
        num_partitions=9,
        deletions=TombstoneTimes.of([(0, TombstoneSums(3, 5, 1))]),
        largest=RankedFiles(files=(("b", 4),), bound=("a", 3), largest_first=True),
        smallest=RankedFiles(files=(("a", 3),), bound=None, largest_first=False),
    )
    content = breakdown_bytes(breakdown, manifest)
    assert content is not None
    table = pq.read_table(BytesIO(content))
    assert json.loads((table.schema.metadata or {})[b"deltasnap"]) == {
        "format": 2,
        "version": 3,
        "chain": manifest.identity.chain,
        "minFileRetentionTimestamp": 0,
        "numPartitions": 9,
        "hasDeletions": True,
        "largestBound": ["a", 3],
        "smallestBound": None,
    }
    empty = dict.fromkeys(("number", "partition", "path", "files", "size", "without_size"))
    assert table.to_pylist() == [
        {**empty, "kind": "size_bin", "number": 0, "files": 2, "size": 7},
        {**empty, "kind": "partition", "partition": [("p", "1"), ("q", None)], "files": 2, "size": 1 << 70},
        {**empty, "kind": "largest", "path": "b", "files": 1, "size": 4},
        {**empty, "kind": "smallest", "path": "a", "files": 1, "size": 3},
        {**empty, "kind": "deleted_at", "number": 0, "files": 3, "size": 5, "without_size": 1},
    ]
    assert breakdown_of(content, manifest) == breakdown
    assert breakdown_of(content, replace(manifest, version=4, base=replace(manifest.base, first=4, last=4))) is None


def test_breakdown_of_another_log_or_retention_is_not_read(stored: StoredTable) -> None:
    (manifest,) = stored.current_manifests([3])
    assert manifest.identity is not None
    StoredBreakdowns(stored=stored).write(manifest, ONE_FILE)
    others = [
        replace(manifest, identity=replace(manifest.identity, chain="another")),
        replace(manifest, identity=None),
        replace(manifest, min_file_retention_timestamp=1),
    ]
    assert [StoredBreakdowns(stored=stored).read(other) for other in others] == [None] * 3


def test_version_without_identity_stores_no_breakdown(stored: StoredTable) -> None:
    (manifest,) = stored.current_manifests([3])
    StoredBreakdowns(stored=stored).write(replace(manifest, identity=None), ONE_FILE)
    assert files(stored) == []


def test_damaged_breakdown_counts_as_missing(stored: StoredTable, caplog: pytest.LogCaptureFixture) -> None:
    (manifest,) = stored.current_manifests([3])
    breakdowns = StoredBreakdowns(stored=stored)
    breakdowns.write(manifest, ONE_FILE)
    (file,) = Path(stored.folder.removeprefix("file://")).rglob("breakdowns/*.parquet")
    for content in (b"", b"no Parquet", file.read_bytes()[:-20]):
        file.write_bytes(content)
        with caplog.at_level(logging.WARNING):
            assert breakdowns.read(manifest) is None
        assert "is counted again" in caplog.text
        caplog.clear()


def test_prune_keeps_breakdowns_of_versions_and_removes_others(stored: StoredTable) -> None:
    manifests = stored.current_manifests([2, 3])
    for manifest in manifests:
        StoredBreakdowns(stored=stored).write(manifest, ONE_FILE)
    assert usage(stored).num_unreferenced_files == 0
    prune(stored, min_age_ms=-60_000)
    assert len(files(stored)) == 2
    prune(stored, keep=1, min_age_ms=-60_000)
    assert files(stored) == [f"{3:020d}.parquet"]


class Counted:
    """The number of full passes over a version."""

    def __init__(self) -> None:
        self.times = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found, breakdown = Counted(), StoredVersion.breakdown

    def count(self: StoredVersion) -> FileBreakdown:
        found.times += 1
        return breakdown(self)

    monkeypatch.setattr(StoredVersion, "breakdown", count)
    return found


START: list[Action] = [protocol(), metadata(), *(add(f"f{n}", size=n, partitionValues={"p": "1"}) for n in range(9))]
LATER: list[list[Action]] = [
    [remove("f1"), add("g", size=70, partitionValues={"p": None})],
    [metadata(table_id="another")],
    [remove("g", size=70), remove("f8"), add("f1", size=5)],
    [add("f1", size=6), add("h", size=1)],
]


def store_of(
    spark: SparkSession | None, folder: Path, engine: Any, policy: ChangePolicy = NEW_BASES
) -> tuple[SnapshotStore, DeltaLog, StoredTable]:
    write_log(folder / "t", dict(enumerate([START, *LATER])))
    log = DeltaLog.for_table(spark, folder / "t", options=SnapshotOptions(engine=engine))
    store = SnapshotStore.open(spark, folder / "store", engine=engine, policy=policy)
    return store, log, store._reader.table("t")


@pytest.mark.slow
@pytest.mark.parametrize("engine", one_in(2, ["auto", "spark"]))
def test_rows_are_counted_once_for_a_base_and_updated_by_commits(
    spark: SparkSession, tmp_path: Path, counted: Counted, engine: str
) -> None:
    store, log, stored = store_of(spark, tmp_path, engine)
    store.write_range("t", log, 0, 0)
    assert files(stored) == []
    assert store.file_breakdown("t", 0).sizes[0].files == 2
    assert counted.times == 1
    bases = set()
    for version in range(1, len(LATER) + 1):
        store.write_range("t", log, version, version)
        manifest = store.manifest("t", version)
        bases.add(manifest.base)
        found = store.file_breakdown("t", manifest)
        assert counted.times == 1
        assert files(stored) == [f"{version:020d}.parquet"]
        again = store._reader.version("t", version).breakdown()
        counted.times = 1
        assert found == again
    assert len(bases) > 1  # the state of a new base is that of its changes
    assert found.partitions == {(): (2, 7), (("p", "1"),): (7, 27)}
    assert found.largest.files[:2] == (("f7", 7), ("f1", 6))
    assert {sums.files for sums in (found.deletions or {}).values()} == {2}


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_store_of_an_earlier_release_is_counted_and_then_updated(
    spark: SparkSession, tmp_path: Path, counted: Counted, engine: str
) -> None:
    store, log, stored = store_of(spark, tmp_path, engine)
    store.write_range("t", log, 0, 2)
    assert files(stored) == []  # as written by an earlier release
    store.write_range("t", log, 3, 3)
    assert files(stored) == []
    store.file_breakdown("t", 3)
    store.write_range("t", log, 4, 4)
    found = store.file_breakdown("t", 4)
    assert counted.times == 1
    assert found == store._reader.version("t", 4).breakdown()


def test_large_range_is_counted_again(tmp_path: Path, counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    store, log, stored = store_of(None, tmp_path, "auto", KEEPS_CHANGES)
    store.write_range("t", log, 0, 0)
    store.file_breakdown("t", 0)
    monkeypatch.setattr(range_writer, "MAX_BREAKDOWN_ACTIONS", 3)
    store.write_range("t", log, 1, 4)
    assert files(stored) == []
    assert sum(sums.files for sums in store.file_breakdown("t", 4).sizes.values()) == 9
    assert counted.times == 2


@pytest.mark.slow
def test_rolled_back_log_has_a_separate_breakdown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver_bases(monkeypatch)
    store, log, stored = store_of(None, tmp_path, "auto", KEEPS_CHANGES)
    store.write_range("t", log, 0, 3)
    store.file_breakdown("t", 3)
    for version in (2, 3, 4):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    write_log(tmp_path / "t", {2: [add("other", size=3)], 3: [remove("other"), add("another", size=40)]})
    DeltaLog.clear_cache()
    log = DeltaLog.for_table(None, tmp_path / "t")
    for version in (2, 3):
        store.write_range("t", log, version, version)
        assert store.file_breakdown("t", version) == store._reader.version("t", version).breakdown()
    assert to_url(tmp_path) in stored.folder
    found = store.file_breakdown("t", 3)
    assert found.largest.files[0] == ("g", 70)
    assert ("another", 40) in found.largest.files
    assert ("other", 3) not in found.largest.files
