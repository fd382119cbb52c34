"""What a write adds to the store. The driver writes the bases, so that these tests need no JVM."""

# ruff: noqa: F401, F811

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from deltasnap_core import DeltaLog, SnapshotStore
from deltasnap_core.errors import CorruptLogError, SparkRequiredError, StorageError
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.replay import engine
from deltasnap_core.replay.engine import Question
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from deltasnap_core.store.format.manifest import VersionChanges
from deltasnap_core.store.versions.common_version import LogRelation
from tests.builders import Action, add, metadata, protocol, remove, write_log
from tests.checkpoint_files import write_checkpoint
from tests.driver_bases import spark

COMMITS: dict[int, list[Action]] = {
    0: [protocol(), metadata(), add("a", size=10), add("b", size=20)],
    1: [remove("a"), add("c", size=30), add("d", size=40)],
    2: [],
    3: [remove("b"), remove("c")],
}


@pytest.fixture
def store(spark: None, tmp_path: Path) -> SnapshotStore:
    return SnapshotStore.open(None, tmp_path / "store")


@pytest.fixture
def log(tmp_path: Path) -> DeltaLog:
    write_log(tmp_path / "t", COMMITS)
    return DeltaLog.for_table(None, tmp_path / "t")


def test_only_missing_versions_are_written(store: SnapshotStore, log: DeltaLog) -> None:
    first = store.write_range("t", log, 0, 1)
    assert (first.written, first.common.relation) == ((0, 1), LogRelation.NEW)
    second = store.write_range("t", log, 1, 3)
    assert (second.written, second.common.relation) == ((2, 3), LogRelation.SAME)
    assert [manifest.version for manifest in second] == [1, 2, 3]
    assert list(second.current) == store.versions("t") == [0, 1, 2, 3]
    again = store.write_range("t", log, 0, 3)
    assert (again.written, list(again.current)) == ((), [0, 1, 2, 3])


def test_versions_are_written_in_any_order_and_listed_ascending(store: SnapshotStore, log: DeltaLog) -> None:
    assert list(store.write_versions("t", log, [3]).current) == [3]
    assert list(store.write_versions("t", log, [0, 2]).current) == [0, 2, 3]
    filled = store.write_range("t", log, 0, 3)
    assert (filled.written, list(filled.current)) == ((1,), [0, 1, 2, 3])
    assert store.manifest("t", 1).base == store.manifest("t", 0).base
    assert {store.computed_state("t", version).num_of_files for version in (1, 2)} == {3}


def test_manifest_shows_the_changes_and_the_engine_of_its_version(store: SnapshotStore, log: DeltaLog) -> None:
    manifests = list(store.write_range("t", log, 0, 3))
    assert [manifest.version_changes for manifest in manifests] == [
        None,
        VersionChanges(num_added_files=2, num_removed_files=1, added_bytes=70, removed_bytes=10),
        VersionChanges(num_added_files=0, num_removed_files=0, added_bytes=0, removed_bytes=0),
        VersionChanges(num_added_files=0, num_removed_files=2, added_bytes=0, removed_bytes=50),
    ]
    assert [manifest.computed_by for manifest in manifests] == [
        "driver: 2 actions read",
        "driver: 3 actions applied to version 0",
        "driver: 0 actions applied to version 1",
        "driver: 2 actions applied to version 2",
    ]
    assert {(manifest.table, manifest.table_id, manifest.log_path) for manifest in manifests} == {
        ("t", "table-id", log.path)
    }


def test_progress_names_the_versions(store: SnapshotStore, log: DeltaLog) -> None:
    steps: list[tuple[str, int, int]] = []
    store.write_range("t", log, 0, 3, on_progress=lambda *step: steps.append(step))
    assert steps == [
        ("Writing the base of version 0", 0, 1),
        ("Reading the commits 1 to 3", 0, 3),
        ("Writing the changes of versions 1 to 3", 0, 3),
        ("Wrote versions 1 to 3", 3, 3),
    ]


def test_version_without_its_commit_is_a_base(store: SnapshotStore, log: DeltaLog, tmp_path: Path) -> None:
    folder = tmp_path / "t" / "_delta_log"
    live = [add("b", size=20), add("c", size=30), add("d", size=40)]
    write_checkpoint(folder, 2, "classic", [protocol(), metadata(), *live])
    (folder / commit_file(2)).unlink()
    found = list(store.write_range("t", log, 0, 3))
    assert [manifest.base.last for manifest in found] == [0, 0, 2, 2]
    assert [store.computed_state("t", version).num_of_files for version in range(4)] == [2, 3, 3, 1]


@pytest.mark.parametrize("damage", [b"garbage {", b'{"add":{"path":3}}', b'{"metaData":{"id":null}}', b'{"add":'])
@pytest.mark.parametrize("stored_before", [[], [0, 1], [3]], ids=str)
def test_damaged_commit_with_a_checkpoint_counts_as_missing(
    store: SnapshotStore, log: DeltaLog, tmp_path: Path, damage: bytes, stored_before: list[int]
) -> None:
    if stored_before:
        store.write_versions("t", log, stored_before)
    folder = tmp_path / "t" / "_delta_log"
    live = [add("b", size=20), add("c", size=30), add("d", size=40)]
    write_checkpoint(folder, 2, "classic", [protocol(), metadata(), *live])
    (folder / commit_file(2)).write_bytes(damage)
    found = store.write_range("t", log, 0, 3)
    assert [manifest.base.last for manifest in found][:3] == [0, 0, 2]
    assert [store.computed_state("t", version).num_of_files for version in range(4)] == [2, 3, 3, 1]
    write_log(tmp_path / "t", {4: [add("e", size=50)]})
    again = store.write_range("t", log, 0, 4)
    assert (again.written, again.common.relation) == ((4,), LogRelation.SAME)
    assert store.computed_state("t", 4).size_in_bytes == 90


def test_damaged_commit_without_checkpoint_stores_nothing(store: SnapshotStore, log: DeltaLog, tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log" / commit_file(2)).write_bytes(b"garbage {")
    with pytest.raises(CorruptLogError, match=r"2\.json, line 1"):
        store.write_range("t", log, 0, 3)
    assert store.versions("t") == []


def test_version_after_a_move_elsewhere_removes_a_file_with_a_whole_path(store: SnapshotStore, tmp_path: Path) -> None:
    commits = {0: [protocol(), metadata(), add("/abs/a"), add("b")], 1: [remove("/abs/a")], 2: [remove("b")]}
    folder = write_log(tmp_path / "t", commits)
    store.write_range("t", DeltaLog.for_table(None, tmp_path / "t"), 0, 0)
    for file in folder.iterdir():
        MemoryFileSystem().pipe_file(f"/moved/t/_delta_log/{file.name}", file.read_bytes())
    moved = DeltaLog.for_table(None, "memory://moved/t")
    for version, live in {1: ["b"], 2: []}.items():
        assert store.write_range("t", moved, version, version).common.relation is LogRelation.SAME
        assert store.computed_state("t", version).num_of_files == len(live)
        assert store.read_arrow("t", version, columns=["path"])["path"].to_pylist() == live
    assert [store.manifest("t", version).base.last for version in (0, 1, 2)] == [0, 1, 1]


def test_version_that_lost_its_file_is_written_again(store: SnapshotStore, log: DeltaLog, tmp_path: Path) -> None:
    store.write_range("t", log, 0, 1)
    (changes,) = store.manifest("t", 1).changes
    (file,) = (tmp_path / "store").rglob(Path(changes.files[0].path).parent.name)
    shutil.rmtree(file)
    assert store.write_range("t", log, 0, 1).written == (1,)
    assert store.read_arrow("t", 1).num_rows == 3


def test_version_without_a_manifest_is_written_after_those_before_it(store: SnapshotStore, log: DeltaLog) -> None:
    store.write_range("t", log, 0, 3)
    stored = store.table("t")
    stored.storage.delete([stored.manifest_url(store.table("t").current_names()[3])])
    assert store.write_range("t", log, 2, 3).written == (3,)
    assert [(each.first, each.last) for each in store.manifest("t", 3).changes] == [(1, 3)]
    assert [row["path"] for row in store.read_arrow("t", 3).to_pylist()] == ["d"]


def test_generation_is_named_after_the_table_at_its_first_version(store: SnapshotStore, tmp_path: Path) -> None:
    write_log(tmp_path / "t", {0: [protocol(), metadata(table_id="first")], 1: [metadata(table_id="second")]})
    store.write_range("t", DeltaLog.for_table(None, tmp_path / "t"), 0, 1)
    assert {name.generation for name in store.table("t").current_names().values()} == {"000001-first"}


def test_only_a_forked_generation_begins_with_a_marker(store: SnapshotStore, log: DeltaLog, tmp_path: Path) -> None:
    stored = store.table("t")
    store.write_range("t", log, 0, 3)
    assert stored.stored_versions().forks == ()
    for version in (2, 3):
        (tmp_path / "t" / "_delta_log" / commit_file(version)).unlink()
    write_log(tmp_path / "t", {2: [add("other", size=5)]})
    DeltaLog.clear_cache()
    written = store.write_range("t", DeltaLog.for_table(None, tmp_path / "t"), 0, 2)
    assert (written.written, written.common.relation) == ((2,), LogRelation.FORKED)
    fork = "000002of000001at1-table-id"
    assert stored.stored_versions().forks == (fork,)
    assert {version: name.generation for version, name in store.table("t").current_names().items()} == {
        0: "000001-table-id",
        1: "000001-table-id",
        2: fork,
    }
    assert written.current == store.table("t").current_names()


def test_each_commit_is_read_once(store: SnapshotStore, log: DeltaLog, monkeypatch: pytest.MonkeyPatch) -> None:
    read, read_bytes = list[str](), FsspecLogStore.read_bytes

    def noting(files: FsspecLogStore, path: str) -> bytes:
        read.append(path)
        return read_bytes(files, path)

    monkeypatch.setattr(FsspecLogStore, "read_bytes", noting)
    store.write_range("t", log, 0, 1)
    of_log = sorted(path.rpartition("/")[2] for path in read if "/_delta_log/" in path and path.endswith(".json"))
    assert of_log == [commit_file(0), commit_file(1)]


@pytest.mark.parametrize("statistics", [True, False])
def test_checkpoint_without_the_size_of_a_file_is_wrong(store: SnapshotStore, tmp_path: Path, statistics: bool) -> None:
    folder = write_log(tmp_path / "t", {0: [protocol(), metadata()]})
    (checkpoint,) = write_checkpoint(folder, 1, "classic", [protocol(), metadata(), add("a", size=None)])  # type: ignore[arg-type]
    pq.write_table(pq.read_table(checkpoint), checkpoint, write_statistics=statistics)
    with pytest.raises(CorruptLogError, match=r"expected add\.size") as error:
        store.write_range("t", DeltaLog.for_table(None, tmp_path / "t"), 1, 1)
    assert error.value.path == to_url(checkpoint)
    assert store.versions("t") == []


def test_table_with_a_small_stored_version_needs_no_spark(store: SnapshotStore, log: DeltaLog) -> None:
    assert store.reason_for_spark("t") is not None
    store.write_range("t", log, 0, 0)
    assert store.reason_for_spark("t") is None
    (candidate,) = store.tables("t", 0).optimize_candidate_values()
    assert (candidate.files, candidate.small_bytes, candidate.files_after) == (2, 30, 1)


def test_files_of_a_version_are_counted_without_spark_where_its_state_is(
    store: SnapshotStore, log: DeltaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write_range("t", log, 0, 1)
    rows = replace(engine.LIMITS[Question.ROWS], most=0)
    monkeypatch.setattr(engine, "LIMITS", {**engine.LIMITS, Question.ROWS: rows})
    with pytest.raises(SparkRequiredError):
        store.read_arrow("t", 1)
    state = store.computed_state("t", 1)
    with store.files_and_tombstones("t", 1, ("path", "size"), ("path",)) as (files, tombstones):
        assert isinstance(files, pa.Table)
        assert (files.num_rows, tombstones.num_rows) == (state.num_of_files, state.num_of_removes)
