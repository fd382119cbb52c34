"""The commits of a catalog and the checkpoints in a listing, at the bounds of its range."""

from __future__ import annotations

from deltasnap_core.log.listing.catalog_commits import CatalogCommits
from deltasnap_core.log.listing.log_listing import CommitRun, list_log
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint, commits, staged_commits, uuid_checkpoint


def test_commits_of_the_catalog_outside_the_range_are_ignored() -> None:
    store = MemoryLogStore(commits(0, 9))
    listing = list_log(store, LOG_PATH, first=3, last=6, catalog=CatalogCommits(log_tail=tuple(staged_commits(1, 8))))
    assert list(listing.commits) == [3, 4, 5, 6]
    assert all("_staged_commits" in file.path for file in listing.commits.values())


def test_commits_of_the_catalog_are_included_up_to_the_bounds_of_the_range() -> None:
    store = MemoryLogStore(commits(0, 2))
    assert list(
        list_log(store, LOG_PATH, first=3, last=5, catalog=CatalogCommits(log_tail=tuple(staged_commits(3, 5)))).commits
    ) == [3, 4, 5]
    tail = CatalogCommits(log_tail=tuple(staged_commits(3, 5)))
    assert list(list_log(store, LOG_PATH, first=0, catalog=tail).commits) == [0, 1, 2, 3, 4, 5]


def test_known_checkpoint_of_the_same_version_is_kept_despite_a_better_one() -> None:
    store = MemoryLogStore(commits(0, 10), checkpoint(10))
    builder = LogSegmentBuilder(store, LOG_PATH)
    known = builder.build()
    assert known.checkpoint_provider.kind == "classic"
    for better in uuid_checkpoint(10):
        store.statuses[better.path] = better
    assert builder.update(known, keep_checkpoint=True) == known
    assert builder.update(known).checkpoint_provider.kind == "uuid"


def test_known_checkpoint_beyond_a_log_that_was_rolled_back_is_not_kept() -> None:
    store = MemoryLogStore(commits(0, 10), checkpoint(10), checkpoint(5))
    builder = LogSegmentBuilder(store, LOG_PATH)
    known = builder.build()
    store.delete(*commits(9, 10), *checkpoint(10))
    found = builder.update(known, keep_checkpoint=True)
    assert (found.version, found.checkpoint_provider.version) == (8, 5)


def test_versions_before_complete_commits_have_a_checkpoint_or_are_the_start() -> None:
    whole = list_log(MemoryLogStore(commits(0, 9), checkpoint(4)), LOG_PATH)
    assert whole.starts_before(9) == (-1,)
    store = MemoryLogStore(commits(0, 1), commits(3, 5), commits(7, 9), *map(checkpoint, (2, 4, 6, 8)))
    listing = list_log(store, LOG_PATH)
    assert [listing.starts_before(version) for version in (1, 3, 6, 9)] == [(-1,), (2,), (6,), (6, 8)]


def test_commits_between_versions_exclude_gaps() -> None:
    listing = list_log(MemoryLogStore(commits(0, 3), commits(6, 8)), LOG_PATH)
    assert listing.commits_between(2, 6) == (*commits(2, 3), *commits(6, 6))
    assert listing.commits_between(4, 5) == ()
    assert [isinstance(listing.commits_between(2, last), CommitRun) for last in (3, 4)] == [True, False]
    assert listing.latest_version == 8
