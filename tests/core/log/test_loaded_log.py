"""The files that a load reads again, for an unchanged log and for a replaced one."""

from __future__ import annotations

import pytest

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.loaded_log import LoadedLog, LogLoader
from deltasnap_core.protocol.log_files.file_names import commit_file, uuid_checkpoint_file
from tests.builders import LOG_PATH, CountingLogStore, MemoryLogStore, add, content, metadata, mtime_of, protocol


def store_of(last: int) -> MemoryLogStore:
    store = MemoryLogStore()
    for version in range(last + 1):
        store.put_commit(version, *([] if version else [protocol(), metadata()]), txn(f"v{version}"))
    return store


def txn(name: str) -> dict[str, object]:
    return {"txn": {"appId": name, "version": 1}}


def loaded(store: MemoryLogStore | CountingLogStore, known: LoadedLog | None = None) -> LoadedLog:
    builder = LogSegmentBuilder(store, LOG_PATH)
    return LogLoader(store=store, builder=builder).load(builder.build(), known)


def read_again(store: MemoryLogStore, known: LoadedLog) -> tuple[list[str], LoadedLog]:
    counting = CountingLogStore(store)
    found = loaded(counting, known)
    return [path.rpartition("/")[2] for path in counting.reads], found


def test_growing_log_is_read_from_the_cursor() -> None:
    store = store_of(3)
    known = loaded(store)
    store.put_commit(4, add("a"), txn("v4"))
    assert read_again(store, known)[0] == [commit_file(4)]


@pytest.mark.parametrize(
    ("replaced", "reads"), [(0, [0]), (2, [2, 3, 4, 5]), (5, [5])], ids=["first", "in the middle", "last"]
)
def test_replaced_commit_is_read_again_and_only_the_new_one_counts(replaced: int, reads: list[int]) -> None:
    store = store_of(5)
    known = loaded(store)
    first = [protocol(), metadata()] if replaced == 0 else []
    store.put_commit(replaced, *first, txn("another"), mtime=mtime_of(99))
    read, found = read_again(store, known)
    assert read == [commit_file(version) for version in reads]
    anew = loaded(store)
    assert found.batch.lines.to_pylist() == anew.batch.lines.to_pylist()
    assert (found.batch.files, found.non_file) == (anew.batch.files, anew.non_file)
    assert f"v{replaced}" not in found.non_file.transactions


def test_checkpoints_found_damaged_one_after_another_are_not_used_again() -> None:
    store = store_of(5)
    for version in (2, 4):
        marker = {"checkpointMetadata": {"version": version}}
        name = uuid_checkpoint_file(version, "80a083e8-7026-4e79-81be-64bd76c43a11", "json")
        store.put(name, content([protocol(), metadata(), marker]))
    builder = LogSegmentBuilder(store, LOG_PATH)
    loader = LogLoader(store=store, builder=builder)
    log, used = loader.load(builder.build()), list[int | None]()
    while log.checkpoint is not None:
        used.append(log.checkpoint.version)
        assert len(used) < 3
        log = log.without(CorruptLogError(path=log.checkpoint.paths[0], reason="a page is damaged"))
    assert used == [4, 2]


def test_rolled_back_log_with_new_commits_drops_cached_versions() -> None:
    known = loaded(store_of(5))
    restored = store_of(6)
    for version in range(3, 7):
        restored.put_commit(version, txn(f"other {version}"), mtime=mtime_of(version) - 10**9)
    found = loaded(restored, known)
    assert sorted(found.non_file.transactions) == ["other 3", "other 4", "other 5", "other 6", "v0", "v1", "v2"]
    assert found.non_file == loaded(restored).non_file
