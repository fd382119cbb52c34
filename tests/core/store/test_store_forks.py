"""A log that is replaced before or while a range is written, and the storage requests of a range."""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from deltasnap_core import DeltaLog, FileStatus, LogStore, SnapshotStore, TableLog
from deltasnap_core.errors import LogChangedError, VersionNotFoundError
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.replay.sessions import GivenSession
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.rows.parquet_files import ParquetFiles
from deltasnap_core.store.versions.common_version import LogRelation
from tests.builders import CountingLogStore, metadata, mtime_of, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.store.manifests import commit_actions
from tests.driver_bases import use_driver_bases


def write_branch(table: Path, last: int, *, after: int | None = None) -> Path:
    """Write versions 0 to `last`; after a version, with different commits of the same sizes at other times."""
    branch = {version: "a" if after is None or version <= after else "b" for version in range(last + 1)}
    folder = write_log(table, {version: commit_actions(version, name) for version, name in branch.items()})
    for version, name in branch.items():
        if name == "b":
            seconds = (mtime_of(version) + 500) / 1000
            os.utime(folder / file_names.commit_file(version), (seconds, seconds))
    return folder


def restore(table: Path, last: int, *, after: int | None = None) -> None:
    """Replace the log of a table."""
    shutil.rmtree(table, ignore_errors=True)
    write_branch(table, last, after=after)


def files_of(store: SnapshotStore, version: int) -> set[str]:
    return set(store.read_arrow("events", version, columns=["path"])["path"].to_pylist())


def expected_files(version: int, *, after: int | None = None) -> set[str]:
    return {f"{'a' if after is None or v <= after else 'b'}-{v:03d}" for v in range(version + 1)}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_branch(tmp_path / "events", 6)
    return tmp_path / "events"


def log_of(table: Path, store: LogStore | None = None) -> DeltaLog:
    DeltaLog.clear_cache()
    return DeltaLog.for_table(None, table, store=store)


@pytest.mark.slow
def test_restored_table_with_new_commits_keeps_common_versions_and_stores_the_rest_again(
    table: Path, store: SnapshotStore, caplog: pytest.LogCaptureFixture
) -> None:
    first = store.write_range("events", log_of(table), 0, 6)
    assert first.common.relation is LogRelation.NEW
    restore(table, 8, after=3)
    log = log_of(table)
    assert store.common_version("events", log.context.table_log).version == 3
    with caplog.at_level(logging.WARNING):
        stored = store.write_range("events", log, 2, 8)
    assert (stored.common.relation, stored.common.version) == (LogRelation.FORKED, 3)
    assert stored.written == (4, 5, 6, 7, 8)
    assert "version 3 in common" in caplog.text
    assert store.versions("events") == list(range(9))
    for version in range(9):
        assert files_of(store, version) == expected_files(version, after=3)
    assert [manifest.generation[:6] for manifest in stored] == ["000001"] * 2 + ["000002"] * 5
    again = store.write_range("events", log, 0, 8)
    assert (again.common.relation, again.written) == (LogRelation.SAME, ())


@pytest.mark.slow
def test_fork_of_a_fork_is_pruned_to_current_versions(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 6)
    restore(table, 6, after=3)
    store.write_range("events", log_of(table), 0, 6)
    restore(table, 5, after=4)
    stored = store.write_range("events", log_of(table), 0, 5)
    assert stored.common.version == 3
    assert store.versions("events") == list(range(6))
    report = store.prune("events", min_age_ms=-60_000)
    assert len(report.generations) == 1
    assert store.usage("events").num_unreferenced_files == 0
    assert store.usage("events").num_generations == 2
    for version in range(6):
        assert files_of(store, version) == expected_files(version, after=4)
    assert store.prune("events", keep=2, min_age_ms=-60_000).versions == (0, 1, 2, 3)
    assert files_of(store, 5) == expected_files(5, after=4)


@pytest.mark.slow
def test_rolled_back_log_excludes_later_versions(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 6)
    restore(table, 4)
    log = log_of(table)
    with pytest.raises(VersionNotFoundError):
        store.write_range("events", log, 4, 6)
    assert store.versions("events") == list(range(7))
    stored = store.write_range("events", log, 4, 4)
    assert (stored.common.relation, stored.common.version, stored.written) == (LogRelation.ROLLED_BACK, 4, ())
    assert store.versions("events") == list(range(5))
    write_branch(table, 6, after=4)
    store.write_range("events", log, 5, 6)
    assert files_of(store, 6) == expected_files(6, after=4)


def test_rolled_back_log_is_recorded_without_spark(tmp_path: Path, table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 0, 6)
    restore(table, 4)
    small = SnapshotStore.open(None, tmp_path / "store")
    common = small.common_version("events", TableLog.for_path(table))
    assert (common.relation, common.version, common.latest_in_log) == (LogRelation.ROLLED_BACK, 4, 4)
    small.begin_fork("events", common)
    assert small.versions("events") == list(range(5))
    assert small.common_version("events", TableLog.for_path(table)).relation is LogRelation.SAME
    small.begin_fork("events", common)
    assert small.versions("events") == list(range(5))


@pytest.mark.parametrize("stored_again", [False, True], ids=["nothing written", "latest written"])
def test_log_rolled_back_to_before_the_first_stored_version_has_lost_versions_until_it_is_written_on(
    table: Path, store: SnapshotStore, stored_again: bool
) -> None:
    store.write_range("events", log_of(table), 3, 6)
    restore(table, 1)
    common = store.common_version("events", TableLog.for_path(table))
    assert (common.relation, common.version, common.lost.text()) == (LogRelation.ROLLED_BACK, 1, "3 to 6")
    store.begin_fork("events", common)
    assert store.versions("events") == []
    if stored_again:
        store.write_range("events", log_of(table), 1, 1)
        assert store.versions("events") == [1]
    assert store.common_version("events", TableLog.for_path(table)).lost.text() == "3 to 6"
    restore(table, 3, after=1)
    assert not store.common_version("events", TableLog.for_path(table)).lost
    store.write_range("events", log_of(table), 3, 3)
    assert files_of(store, 3) == expected_files(3, after=1)
    assert not store.common_version("events", TableLog.for_path(table)).lost


def test_another_table_with_fewer_versions_was_recreated_without_them(table: Path, store: SnapshotStore) -> None:
    store.write_range("events", log_of(table), 3, 6)
    shutil.rmtree(table)
    write_log(table, {0: [protocol(), metadata(table_id="another")]})
    common = store.common_version("events", TableLog.for_path(table))
    assert (common.relation, common.version, common.lost.text()) == (LogRelation.RECREATED, None, "3 to 6")


class SwappedLogStore:
    """The log of a table that is replaced after this many listings and reads."""

    def __init__(self, swap: Callable[[], object], calls: int) -> None:
        self._store = FsspecLogStore()
        self._swap = swap
        self._left = calls

    def _counted(self) -> None:
        if self._left == 0:
            self._swap()
        self._left -= 1

    def list_from(self, path: str) -> Iterator[FileStatus]:
        self._counted()
        return self._store.list_from(path)

    def lists_from_name(self, folder: str) -> bool:
        return self._store.lists_from_name(folder)

    def status(self, path: str) -> FileStatus | None:
        return self._store.status(path)

    def read_bytes(self, path: str) -> bytes:
        self._counted()
        return self._store.read_bytes(path)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        self._counted()
        return self._store.read_many(paths)

    def open(self, path: str) -> object:
        self._counted()
        return self._store.open(path)


@pytest.mark.thorough
@pytest.mark.parametrize("calls", [1, 2], ids=["before the commits are read", "before the log is listed again"])
@pytest.mark.parametrize(("last", "after"), [(6, -1), (8, 1), (1, None)], ids=["recreated", "restored", "rolled back"])
def test_log_replaced_meanwhile_adds_nothing(
    table: Path, store: SnapshotStore, calls: int, last: int, after: int | None
) -> None:
    store.write_range("events", log_of(table), 0, 1)
    before = store.table("events").manifests()
    swapped = SwappedLogStore(partial(restore, table, last, after=after), calls)
    with pytest.raises(LogChangedError, match="was replaced while it was read"):
        store.write_range("events", log_of(table, swapped), 0, 1 + 4)  # type: ignore[arg-type]
    assert store.table("events").manifests() == before
    if last >= 5:
        store.write_range("events", log_of(table), 0, 5)
        assert files_of(store, 5) == expected_files(5, after=after)


@pytest.mark.parametrize("message", ["Reading", "Writing the changes", "Wrote"])
def test_log_replaced_at_any_step_commits_nothing(table: Path, store: SnapshotStore, message: str) -> None:
    def on_progress(what: str, done: int, total: int) -> None:
        if what.startswith(message):
            restore(table, 6, after=-1)

    store.write_range("events", log_of(table), 0, 0)
    with pytest.raises(LogChangedError) as error:
        store.write_range("events", log_of(table), 0, 6, on_progress=on_progress)
    assert error.value.file == file_names.commit_file(0)
    assert store.versions("events") == [0]


def test_commits_added_and_cleaned_up_concurrently_are_handled(table: Path, store: SnapshotStore) -> None:
    def on_progress(what: str, done: int, total: int) -> None:
        if what.startswith("Writing the changes"):
            write_log(table, {7: commit_actions(7)})
            for version in (0, 1):
                (table / "_delta_log" / file_names.commit_file(version)).unlink(missing_ok=True)

    store.write_range("events", log_of(table), 0, 6, on_progress=on_progress)
    assert not (table / "_delta_log" / file_names.commit_file(0)).exists()
    assert store.versions("events") == list(range(7))


def test_version_after_a_newer_checkpoint_and_a_cleanup_is_stored(table: Path, store: SnapshotStore) -> None:
    def on_progress(what: str, done: int, total: int) -> None:
        if what == "Writing the base of version 4":
            write_checkpoint(
                table / "_delta_log", 3, "classic", [action for v in range(4) for action in commit_actions(v)]
            )
            for version in range(4):
                (table / "_delta_log" / file_names.commit_file(version)).unlink(missing_ok=True)

    store.write_range("events", log_of(table), 0, 0)
    store.write_range("events", log_of(table), 4, 6, on_progress=on_progress)
    assert (store.versions("events"), files_of(store, 6)) == ([0, 4, 5, 6], expected_files(6))


class CountingFiles(WritableFiles):
    """Files of a store that count listings and reads."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.requested: Counter[str] = Counter()

    def names(self, folder: str) -> list[str]:
        self.requested["lists"] += 1
        return super().names(folder)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        self.requested["reads"] += bool(paths)
        return super().read_many(paths)


def asked_for(folder: Path, count: int, gaps: Mapping[int, int]) -> dict[str, int]:
    """The requests of storing `count` versions after version 0, except those stored before (`gaps`: first to last)."""
    write_branch(folder / "events", count)
    log_store = CountingLogStore(FsspecLogStore())
    files = CountingFiles(to_url(folder / "store"))
    sessions = GivenSession(None)
    spark_files = SparkFiles.of(None, sessions)
    parquet = ParquetFiles(sessions=sessions, storage=files, spark_files=spark_files, folder=to_url(folder / "store"))
    store = SnapshotStore(ReplayEngine(sessions), parquet)
    log = log_of(folder / "events", log_store)
    store.write_range("events", log, 0, 0)
    for first, last in gaps.items():
        store.write_range("events", log, first, last)
    log_store.reset()
    files.requested.clear()
    stored = store.write_range("events", log, 1, count)
    store.table("events").computed_states(list(stored))
    store.table("events").log_segments(list(stored))
    assert all(manifest.commit is not None and manifest.commit.sample for manifest in stored)
    reads = Counter(log_store.reads + log_store.opens)
    assert max(reads.values()) == 1
    assert len(reads) == len(stored.written) + 1  # the commit of a stored version shows that the log is the same
    return {"log": len(log_store.lists), "statuses": len(log_store.statuses), **files.requested}


@pytest.mark.slow
def test_range_of_any_length_costs_the_same_requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_driver_bases(monkeypatch)
    few = asked_for(tmp_path / "few", 5, {})
    many = asked_for(tmp_path / "many", 30, {})
    assert few.pop("reads") <= 4
    assert many.pop("reads") <= 6  # the list of commits is then a separate document
    assert few == many == {"log": 2, "lists": 2, "statuses": 0}


@pytest.mark.slow
def test_gaps_cost_no_further_listing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_driver_bases(monkeypatch)
    requested = asked_for(tmp_path, 9, {3: 3, 6: 6})
    assert (requested["log"], requested["lists"], requested["statuses"]) == (2, 2, 0)
