"""What `prune` removes and `usage` counts: manifests and files without rows, so no Spark."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from deltasnap_core.errors import CorruptStoreError, UnsupportedStoreError
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.versions.pruning import prune, usage
from deltasnap_core.store.versions.stored_table import StoredTable
from tests.core.store.manifests import GENERATION, log_store, store_versions, table_log, write_later_format

LATER = "000002-other-id"
DAY_MS = 86_400_000


def write_unreferenced(folder: Path, name: str, *, age_ms: int) -> Path:
    """Write a file of 10 bytes that belongs to no version."""
    file = folder / "events" / GENERATION / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(10))
    written = time.time() - age_ms / 1000
    os.utime(file, (written, written))
    return file


def current(stored: StoredTable) -> list[int]:
    return [name.version for name in stored.stored_versions().current]


def test_second_prune_reports_versions_of_an_interrupted_one(
    stored: StoredTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = WritableFiles.delete

    def interrupted(files: WritableFiles, paths: Iterable[str]) -> None:
        delete(files, paths)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(WritableFiles, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            prune(stored, keep=1)
    assert current(stored) == [3]
    report = prune(stored, keep=2)
    assert (report.versions, report.pruned_before) == ((), 3)


def test_prune_removes_only_old_unreferenced_files(stored: StoredTable, tmp_path: Path) -> None:
    old = write_unreferenced(tmp_path, "old.parquet", age_ms=DAY_MS + 60_000)
    young = write_unreferenced(tmp_path, "young.parquet", age_ms=DAY_MS - 60_000)
    before = usage(stored)
    assert (before.num_versions, before.num_generations) == (4, 1)
    assert (before.num_unreferenced_files, before.unreferenced_bytes) == (2, 20)
    report = prune(stored)
    assert (report.versions, report.generations, report.num_files, report.size_in_bytes) == ((), (), 1, 10)
    assert (old.exists(), young.exists()) == (False, True)
    after = usage(stored)
    assert (after.num_files, after.size_in_bytes) == (before.num_files - 1, before.size_in_bytes - 10)
    assert prune(stored, min_age_ms=DAY_MS // 2).num_files == 1
    assert usage(stored).num_unreferenced_files == 0
    assert current(stored) == [0, 1, 2, 3]


def test_prune_keeps_the_latest_versions_and_removes_young_manifests(stored: StoredTable) -> None:
    report = prune(stored, keep=3)
    assert (report.versions, current(stored)) == ((0,), [1, 2, 3])
    assert report.num_files >= 1
    assert prune(stored, keep=1).versions == (1, 2)
    assert prune(stored, keep=5).versions == ()


def test_only_pruned_versions_count_as_pruned(stored: StoredTable) -> None:
    stored.storage.delete([stored.manifest_url(stored.stored_versions().current[0])])
    assert (current(stored), stored.stored_versions().pruned_before) == ([1, 2, 3], 0)
    prune(stored, keep=2)
    stored.storage.delete([stored.manifest_url(stored.stored_versions().current[0])])
    prune(stored, keep=5, min_age_ms=0)
    assert (current(stored), stored.stored_versions().pruned_before) == ([3], 2)


def test_versions_of_a_new_generation_are_not_pruned_ones(stored: StoredTable) -> None:
    prune(stored, keep=2)
    fork = stored.stored_versions().forked_generation(2)
    stored.begin_fork(fork)
    assert stored.stored_versions().pruned_before == 2
    store_versions(stored, table_log(log_store(range(2))), range(2), "000003-other-id")
    assert stored.stored_versions().pruned_before == 0


def test_prune_removes_nothing_if_a_manifest_that_stays_is_damaged(stored: StoredTable, tmp_path: Path) -> None:
    old = write_unreferenced(tmp_path, "old.parquet", age_ms=2 * DAY_MS)
    damaged = stored.manifest_url(stored.stored_versions().current[2])
    stored.storage.write(damaged, b"{")
    with pytest.raises(CorruptStoreError, match=re.escape(damaged)):
        prune(stored, keep=2)
    write_later_format(stored, stored.stored_versions().current[2])
    with pytest.raises(UnsupportedStoreError, match=re.escape(damaged)):
        prune(stored, keep=2)
    assert (current(stored), old.exists()) == ([0, 1, 2, 3], True)
    assert prune(stored, keep=1).versions == (0, 1, 2)


def test_prune_removes_generations_that_were_replaced(stored: StoredTable) -> None:
    store_versions(stored, table_log(log_store(range(2))), range(2), LATER)
    assert prune(stored, keep_generations=2).generations == ()
    report = prune(stored)
    assert (report.versions, report.generations) == ((), (GENERATION,))
    assert stored.stored_versions().generations == (LATER,)
    assert current(stored) == [0, 1]


def test_prune_keeps_lost_versions_until_a_rolled_back_log_is_written_on(stored: StoredTable) -> None:
    fork = stored.stored_versions().forked_generation(1)
    stored.begin_fork(fork)
    assert prune(stored).generations == ()
    assert tuple(stored.stored_versions().lost_after(1)) == (2, 3)
    assert current(stored) == [0, 1]
    store_versions(stored, table_log(log_store(range(3))), [2], fork)
    assert prune(stored, min_age_ms=0).num_files > 0
    assert [(name.generation, name.version) for name in stored.stored_versions().manifests] == [
        (GENERATION, 0),
        (GENERATION, 1),
        (fork, 2),
    ]


@pytest.mark.parametrize("arguments", [{"keep": 0}, {"keep_generations": 0}], ids=str)
def test_prune_that_keeps_nothing_is_rejected(stored: StoredTable, arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be 1 or more"):
        prune(stored, **arguments)
    assert current(stored) == [0, 1, 2, 3]
