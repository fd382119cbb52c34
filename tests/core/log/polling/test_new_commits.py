"""New commits since a known version, at a cost proportional to them: with a listing, or by name."""

from __future__ import annotations

import pytest

from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.polling.new_commits import NewCommits, commit_of, find_new_commits
from deltasnap_core.storage.log_store import FileStatus
from tests.builders import LOG_PATH, CountingLogStore, MemoryLogStore, checkpoint, checksum, commits

BOTH_WAYS = pytest.mark.parametrize("lists", [True, False], ids=["listed", "by name"])


def store_of(*files: list[FileStatus], lists: bool = False) -> CountingLogStore:
    return CountingLogStore(MemoryLogStore(*files, lists_from_name=lists))


def poll(store: CountingLogStore, version: int) -> NewCommits:
    return find_new_commits(LogSegmentBuilder(store, LOG_PATH), version)


@pytest.mark.parametrize(
    ("last", "calls"), [(100, 3), (101, 3), (105, 7), (107, 9), (108, 10), (5000, 10)], ids=lambda value: str(value)
)
def test_lookup_by_name_costs_only_new_files(last: int, calls: int) -> None:
    store = store_of(commits(0, last), checkpoint(98), checksum(104))
    assert poll(store, 100) == (commits(100, 100)[0], tuple(commits(101, last)))
    assert store.calls == calls
    assert not [path for path in store.listed if path < commits(101, 101)[0].path]


@pytest.mark.parametrize("last", [100, 101, 5000])
def test_poll_costs_one_listing_if_the_storage_can_list_from_a_name(last: int) -> None:
    store = store_of(commits(0, last), checkpoint(103), checksum(104), lists=True)
    later = None if last == 100 else tuple(commits(101, last))  # the checkpoint shows that they are gone
    assert poll(store, 100) == (commits(100, 100)[0], later)
    assert store.calls == 1
    assert not [path for path in store.listed if path < checksum(100)[0].path]


@BOTH_WAYS
@pytest.mark.parametrize(
    ("files", "version", "expected"),
    [
        pytest.param([commits(0, 2), commits(4, 5)], 1, commits(2, 2), id="up to a gap"),
        pytest.param([commits(0, 20), commits(22, 25)], 1, commits(2, 20), id="up to a gap, many"),
        pytest.param([commits(0, 3), commits(5, 5)], 3, [], id="nothing but a gap"),
        pytest.param([], 3, [], id="no folder"),
    ],
)
def test_poll_returns_commits_up_to_the_first_missing_one(
    files: list[list[FileStatus]], version: int, expected: list[FileStatus], *, lists: bool
) -> None:
    _, later = poll(store_of(*files, lists=lists), version)
    is_cut = lists and bool(files) and not expected
    assert later == (None if is_cut else tuple(expected))


@BOTH_WAYS
def test_poll_returns_the_current_state_of_the_known_commit_even_if_it_is_gone(*, lists: bool) -> None:
    assert poll(store_of(commits(0, 6), lists=lists), 5)[0] == commits(5, 5)[0]
    assert poll(store_of(commits(6, 9), checkpoint(6), lists=lists), 5) == (None, tuple(commits(6, 9)))


@BOTH_WAYS
def test_poll_from_the_maximum_version_finds_no_later_commits(*, lists: bool) -> None:
    greatest = 2**63 - 1
    assert poll(store_of(commits(greatest, greatest), lists=lists), greatest)[1] == ()


@BOTH_WAYS
def test_commit_of_a_version_is_found_by_one_request(*, lists: bool) -> None:
    store = store_of(commits(3, 5), checksum(6), lists=lists)
    assert commit_of(store, LOG_PATH, 4) == commits(4, 4)[0]
    assert store.calls == 1
    assert [commit_of(store, LOG_PATH, version) for version in (2, 6, 7)] == [None, None, None]
    assert commit_of(store_of(lists=lists), LOG_PATH, 4) is None


@BOTH_WAYS
@pytest.mark.parametrize(("version", "is_cut"), [(4, False), (5, False), (6, True)])
def test_only_a_later_checkpoint_shows_that_commits_are_gone(version: int, is_cut: bool, *, lists: bool) -> None:
    memory = MemoryLogStore(commits(0, 5), checkpoint(version), lists_from_name=lists)
    memory.put("_last_checkpoint", b'{"version": %d, "size": 9}' % version)
    assert poll(CountingLogStore(memory), 5)[1] == (None if is_cut else ())
