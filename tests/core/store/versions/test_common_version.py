"""Whether the log is still the stored one: determined by its commits, never by the table id."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from deltasnap_core.errors import UnsupportedStoreError
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.store.format.shared_documents import Part
from deltasnap_core.store.format.version_documents import DELTAS
from deltasnap_core.store.versions.common_version import LogRelation, find_common_version, is_version_of
from deltasnap_core.store.versions.stored_table import StoredTable
from tests.builders import CountingLogStore, MemoryLogStore, checkpoint, commits, metadata, mtime_of, uuid_checkpoint
from tests.core.store.manifests import (
    commit_actions,
    compared,
    log_store,
    store_versions,
    stored_table,
    table_log,
    write_later_format,
)

LAST = 9


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    store_versions(stored_table(folder), table_log(log_store(range(LAST + 1))), range(LAST + 1))
    return folder


@pytest.fixture
def stored(store_folder: Path, tmp_path: Path) -> StoredTable:
    """The versions 0 to LAST of a log."""
    return stored_table(Path(shutil.copytree(store_folder, tmp_path / "store")))


def other_after(version: int, last: int, *, touched: int = 0) -> MemoryLogStore:
    """The log restored up to a version, with different new commits up to `last`, at other times."""
    store = log_store(range(last + 1), dict.fromkeys(range(version + 1, last + 1), "b"))
    for file in commits(version + 1, last):
        known = store.statuses[file.path]
        store.statuses[file.path] = replace(known, modification_time=known.modification_time + 1)
    for path, file in list(store.statuses.items()):
        store.statuses[path] = replace(file, modification_time=file.modification_time + touched)
    return store


def test_log_without_stored_versions_is_new(tmp_path: Path) -> None:
    common = compared(stored_table(tmp_path), log_store(range(3)))
    assert (common.relation, common.version, common.latest_stored, common.latest_in_log) == (
        LogRelation.NEW,
        None,
        None,
        2,
    )


@pytest.mark.parametrize("last", [LAST, LAST + 5], ids=["as it was", "with later commits"])
def test_log_that_was_stored_is_the_same_at_one_read(stored: StoredTable, last: int) -> None:
    store = CountingLogStore(log_store(range(last + 1)))
    common = compared(stored, store)
    assert (common.relation, common.version, common.is_continued) == (LogRelation.SAME, LAST, True)
    assert (common.table_id, common.current, str(common)) == ("table-id", tuple(range(LAST + 1)), "the log is same")
    assert (len(store.lists), len(store.reads), store.opens) == (1, 1, [])


def test_log_copied_without_times_is_the_same_at_one_read(stored: StoredTable) -> None:
    store = CountingLogStore(log_store(range(LAST + 1), touched=12_345))
    common = compared(stored, store)
    assert (common.relation, common.version) == (LogRelation.SAME, LAST)
    assert len(store.reads) == 1


@pytest.mark.parametrize("fork", [0, 4, LAST - 1])
@pytest.mark.parametrize("last", [LAST, LAST + 3])
@pytest.mark.parametrize("touched", [0, 777], ids=["times kept", "times lost"])
def test_restored_log_forked_at_the_last_common_version(
    stored: StoredTable, fork: int, last: int, touched: int
) -> None:
    common = compared(stored, other_after(fork, last, touched=touched))
    assert (common.relation, common.version, common.is_continued) == (LogRelation.FORKED, fork, False)


def test_restored_log_with_fewer_new_commits_forked(stored: StoredTable) -> None:
    common = compared(stored, other_after(3, 6))
    assert (common.relation, common.version) == (LogRelation.FORKED, 3)
    assert str(common) == "the log was forked: version 3 in common, stored up to 9"


@pytest.mark.parametrize("last", [0, 5, LAST - 1])
def test_log_that_ends_before_the_stored_versions_was_rolled_back(stored: StoredTable, last: int) -> None:
    common = compared(stored, log_store(range(last + 1)))
    assert (common.relation, common.version, common.latest_stored) == (LogRelation.ROLLED_BACK, last, LAST)
    assert not common.is_continued


def test_common_version_has_the_table_id_that_was_stored_for_it(tmp_path: Path) -> None:
    found = stored_table(tmp_path)
    for version, table_id in ((0, "first"), (1, "second")):
        store_versions(found, table_log(log_store(range(3))), [version], table_id=table_id)
    assert [compared(found, log_store(range(last + 1))).table_id for last in (0, 1, 2)] == ["first", "second", "second"]


def test_log_rolled_back_between_stored_versions_shares_the_earlier_one(tmp_path: Path) -> None:
    found = stored_table(tmp_path)
    store_versions(found, table_log(log_store(range(LAST + 1))), [0, 3, 7])
    common = compared(found, log_store(range(6)))
    assert (common.relation, common.version) == (LogRelation.ROLLED_BACK, 3)


def test_log_with_different_commits_from_the_start_was_recreated_despite_the_same_id(stored: StoredTable) -> None:
    common = compared(stored, other_after(-1, LAST + 1))
    assert (common.relation, common.version) == (LogRelation.RECREATED, None)


@pytest.mark.parametrize("first", [3, LAST], ids=["some stored versions left", "one left"])
def test_log_that_lost_old_commits_is_identified_by_the_remaining_ones(stored: StoredTable, first: int) -> None:
    same, other = log_store(range(LAST + 3)), other_after(5, LAST + 3)
    for store in (same, other):
        store.delete(*(store.statuses[file.path] for file in commits(0, first - 1)))
        store.statuses |= {file.path: file for file in checkpoint(first)}
    assert compared(stored, same).relation is LogRelation.SAME
    forked = compared(stored, other)
    assert (forked.relation, forked.version) == (
        (LogRelation.FORKED, 5) if first == 3 else (LogRelation.RECREATED, None)
    )


@pytest.mark.parametrize(
    ("table_id", "touched", "expected"),
    [
        ("table-id", 0, LogRelation.SAME),
        ("another", 0, LogRelation.RECREATED),
        ("table-id", -mtime_of(LAST), LogRelation.RECREATED),
    ],
    ids=["later commits of the table", "another table", "commits older than the stored ones"],
)
def test_log_without_stored_versions_is_the_same_if_possible(
    stored: StoredTable, table_id: str, touched: int, expected: LogRelation
) -> None:
    store = MemoryLogStore(checkpoint(LAST + 1))
    for version in range(LAST + 2, LAST + 4):
        actions = [*commit_actions(0)[:1], metadata(table_id=table_id)] if version == LAST + 3 else []
        file = store.put_commit(version, *actions)
        store.statuses[file.path] = replace(file, modification_time=file.modification_time + touched)
    assert compared(stored, store).relation is expected


@pytest.mark.parametrize(("older", "expected"), [((), LogRelation.SAME), ((2,), LogRelation.RECREATED)])
def test_log_without_stored_versions_is_another_one_if_any_of_its_commits_is_older(
    stored: StoredTable, older: tuple[int, ...], expected: LogRelation
) -> None:
    store = MemoryLogStore(checkpoint(LAST + 1))
    for number in (2, 3, 4):
        actions = commit_actions(0)[:2] if number == 4 else []
        store.put_commit(LAST + number, *actions, mtime=mtime_of(LAST) + (-1 if number in older else 0))
    assert compared(stored, store).relation is expected


@pytest.fixture(params=[b"", b" \n", b"\0" * 9, b'{"add":{"path"', b'{"metaData":{}}'], ids=str)
def damage(request: pytest.FixtureRequest) -> bytes:
    """The content of a commit that cannot be read, or that has no actions."""
    content: bytes = request.param
    return content


@pytest.mark.parametrize(("damaged", "last"), [(0, LAST), (4, LAST + 2), (LAST, LAST), (LAST, LAST + 2)])
def test_damaged_commit_is_no_fork(stored: StoredTable, damage: bytes, damaged: int, last: int) -> None:
    store = log_store(range(last + 1))
    store.put(file_names.commit_file(damaged), damage)
    common = compared(stored, store)
    assert (common.relation, common.version) == (LogRelation.SAME, LAST)


def test_commit_damaged_without_a_change_of_its_size_is_no_fork(stored: StoredTable) -> None:
    store = log_store(range(LAST + 1))
    file = store.statuses[commits(LAST, LAST)[0].path]
    store.put(file.name, b"x" * file.size, mtime=file.modification_time + 5)
    assert compared(stored, store).relation is LogRelation.SAME


@pytest.mark.parametrize("damaged", [(1, 2), (5,), (LAST,), (2, 3, 6, 7)], ids=str)
def test_fork_begins_at_a_readable_other_commit(stored: StoredTable, damage: bytes, damaged: tuple[int, ...]) -> None:
    store = other_after(4, LAST)
    for version in damaged:
        store.put(file_names.commit_file(version), damage)
    common = compared(stored, store)
    assert (common.relation, common.version) == (LogRelation.FORKED, 4)


def test_rolled_back_log_with_a_damaged_last_commit_shares_one_before(stored: StoredTable, damage: bytes) -> None:
    store = log_store(range(6))
    store.put(file_names.commit_file(6), damage)
    common = compared(stored, store)
    assert (common.relation, common.version) == (LogRelation.ROLLED_BACK, 5)


def test_only_stored_version_stays_if_its_commit_is_damaged(tmp_path: Path, damage: bytes) -> None:
    found, store = stored_table(tmp_path), log_store(range(LAST + 1))
    store_versions(found, table_log(store), [LAST])
    store.put(file_names.commit_file(LAST), damage)
    common = compared(found, store)
    assert (common.relation, common.version) == (LogRelation.SAME, LAST)


@pytest.mark.parametrize("damage", [b"", b'{"add":{"path"'], indirect=True)
@pytest.mark.parametrize("stored_from", [0, LAST], ids=["all versions stored", "only the newest stored"])
def test_damaged_commit_below_an_unchanged_one_is_no_fork(tmp_path: Path, damage: bytes, stored_from: int) -> None:
    found, store = stored_table(tmp_path), log_store(range(LAST + 1))
    log = table_log(store)
    deltas = {file.name: [file.size, file.modification_time] for file in log.list().commits.values()}
    store_versions(found, log, range(stored_from, LAST + 1), parts={DELTAS: Part(entries=deltas)})
    store.put(file_names.commit_file(3), damage)
    common = compared(found, store)
    assert (common.relation, common.version) == (LogRelation.SAME, LAST)
    store.put_commit(3, *commit_actions(3, "another"))
    assert not compared(found, store).is_continued


def test_version_with_a_broken_manifest_is_skipped(stored: StoredTable) -> None:
    stored.storage.write(stored.manifest_url(stored.stored_versions().current[-1]), b"{")
    assert compared(stored, log_store(range(LAST + 1))).relation is LogRelation.SAME
    assert compared(stored, other_after(4, LAST)).version == 4


def test_version_of_a_later_release_is_not_skipped(stored: StoredTable) -> None:
    name = stored.stored_versions().current[-1]
    write_later_format(stored, name)
    with pytest.raises(UnsupportedStoreError, match=r"has format 4, but .* up to 3\. Upgrade deltasnap"):
        compared(stored, log_store(range(LAST + 1)))
    with pytest.raises(UnsupportedStoreError, match=str(name)):
        stored.read_sound_manifests([name])


def test_version_of_unknown_identity_is_compared_by_size_and_time(tmp_path: Path) -> None:
    found = stored_table(tmp_path)
    store_versions(found, table_log(log_store(range(3))), range(3), identity=None, commit=None)
    assert compared(found, log_store(range(4))).relation is LogRelation.SAME
    assert compared(found, log_store(range(4), touched=5)).relation is LogRelation.RECREATED


@pytest.mark.slow
def test_many_versions_are_compared_by_halves(tmp_path: Path) -> None:
    found, last = stored_table(tmp_path), 60
    store_versions(found, table_log(log_store(range(last + 1))), range(last + 1))
    store = CountingLogStore(other_after(42, last, touched=9))
    assert compared(found, store).version == 42
    assert len(store.reads) < 16  # a commit that differs is read once more: it may be damaged


def test_listing_that_starts_after_the_fork_is_completed(stored: StoredTable) -> None:
    store = CountingLogStore(other_after(2, LAST + 1))
    listing = table_log(store).list()
    late = replace(listing, commits={v: file for v, file in listing.commits.items() if v > 6}, first=7)
    store.reset()
    assert compared(stored, store, late).version == 2
    assert len(store.lists) == 1


def test_version_stored_from_its_checkpoint_is_identified_by_it(tmp_path: Path) -> None:
    found, store = stored_table(tmp_path), log_store(range(4, 6))
    store.statuses |= {file.path: file for file in checkpoint(3)}
    store_versions(found, table_log(store), [3])
    (manifest,) = found.read_manifests(found.stored_versions().current)
    listing = table_log(store).list()
    assert is_version_of(manifest, store, listing) is True
    assert compared(found, store).relation is LogRelation.SAME
    (file,) = checkpoint(3)
    store.statuses[file.path] = replace(file, size=1)
    assert is_version_of(manifest, store, table_log(store).list()) is False
    store.delete(file)
    assert is_version_of(manifest, store, table_log(store).list()) is None
    store.statuses |= {other.path: other for other in uuid_checkpoint(3)}
    assert is_version_of(manifest, store, table_log(store).list()) is None


def test_log_is_listed_from_the_newest_stored_version_on(stored: StoredTable) -> None:
    store = CountingLogStore(log_store(range(LAST + 3)))
    common = find_common_version(stored, stored.stored_versions(), table_log(store))
    assert (common.relation, common.version, common.latest_in_log) == (LogRelation.SAME, LAST, LAST + 2)
    assert len(store.lists) == 1


def test_listing_that_starts_after_the_stored_versions_is_completed(stored: StoredTable) -> None:
    store = log_store(range(LAST + 3))
    listing = table_log(store).list()
    late = {version: file for version, file in listing.commits.items() if version > LAST}
    common = compared(stored, store, replace(listing, commits=late, first=LAST + 1))
    assert (common.relation, common.version) == (LogRelation.SAME, LAST)
    assert compared(stored, other_after(4, LAST + 2), replace(listing, commits=late, first=LAST + 1)).version == 4


def test_commit_that_disappears_while_it_is_compared_shows_nothing(stored: StoredTable) -> None:
    store = log_store(range(LAST + 1))
    listing = table_log(store).list()
    (manifest,) = stored.manifests([LAST]).values()
    store.delete(*commits(LAST, LAST))
    assert is_version_of(manifest, store, listing) is None


def test_log_is_another_one_if_no_stored_version_can_be_read(stored: StoredTable) -> None:
    for name in stored.stored_versions().current:
        stored.storage.write(stored.manifest_url(name), b"{")
    common = compared(stored, log_store(range(LAST + 1)))
    assert (common.relation, common.version, common.table_id) == (LogRelation.RECREATED, None, None)
