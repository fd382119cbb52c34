"""What is new since a known version, at the price of what is new."""

from __future__ import annotations

import pytest

from deltasnap_core.log.new_commits import commits_after, look_from
from deltasnap_core.storage.log_store import FileStatus
from tests.builders import LOG_PATH, CountingLogStore, MemoryLogStore, checkpoint, checksum, commits


def store_of(*files: list[FileStatus]) -> CountingLogStore:
    return CountingLogStore(MemoryLogStore(*files))


@pytest.mark.parametrize(
    ("last", "calls"), [(100, 1), (101, 2), (105, 6), (107, 8), (108, 9), (5000, 9)], ids=lambda value: str(value)
)
def test_cost_is_that_of_what_is_new(last: int, calls: int) -> None:
    store = store_of(commits(0, last), checkpoint(103), checksum(104))
    assert commits_after(store, LOG_PATH, 100) == tuple(commits(101, last))
    assert store.calls == calls
    assert not [path for path in store.listed if path < commits(101, 101)[0].path]


@pytest.mark.parametrize(
    ("files", "version", "expected"),
    [
        pytest.param([commits(0, 2)], -1, commits(0, 2), id="from the start"),
        pytest.param([commits(0, 2), commits(4, 5)], 1, commits(2, 2), id="up to a gap"),
        pytest.param([commits(0, 20), commits(22, 25)], 1, commits(2, 20), id="up to a gap, many"),
        pytest.param([], 3, [], id="no folder"),
    ],
)
def test_commits_after(files: list[list[FileStatus]], version: int, expected: list[FileStatus]) -> None:
    assert commits_after(store_of(*files), LOG_PATH, version) == tuple(expected)


def test_look_at_a_log_without_news_costs_two_requests() -> None:
    store = store_of(commits(0, 5))
    assert look_from(store, LOG_PATH, 5).later == ()
    assert store.calls == 2


def test_look_shows_the_known_commit_as_it_is_now_also_where_it_is_gone() -> None:
    assert look_from(store_of(commits(0, 6)), LOG_PATH, 5).known == commits(5, 5)[0]
    cleaned = look_from(store_of(commits(6, 9), checkpoint(6)), LOG_PATH, 5)
    assert (cleaned.known, cleaned.later) == (None, tuple(commits(6, 9)))


def test_look_from_the_greatest_version_finds_nothing_later() -> None:
    greatest = 2**63 - 1
    assert look_from(store_of(commits(greatest, greatest)), LOG_PATH, greatest).later == ()
