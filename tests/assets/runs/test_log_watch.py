from __future__ import annotations

import pytest

from deltasnap_assets.runs.log_watch import LogRewrittenError, LogSight, LogWatch, SeenCommit
from deltasnap_core.errors import DeltaTableNotFoundError, VersionGapError
from tests.builders import LOG_PATH, Action, CountingLogStore, MemoryLogStore, add, metadata, mtime_of, protocol


def store_of(last: int, *, table_id: str = "table-id") -> MemoryLogStore:
    store = MemoryLogStore()
    for version in range(last + 1):
        store.put_commit(version, *first_actions(version, table_id), add(f"{version}.parquet"))
    return store


def first_actions(version: int, table_id: str) -> list[Action]:
    return [] if version else [protocol(), metadata(table_id=table_id)]


def watch(store: MemoryLogStore) -> LogWatch:
    return LogWatch(store=store, log_path=LOG_PATH)


def test_look_sees_every_version_that_can_be_loaded() -> None:
    assert watch(store_of(3)).look() == LogSight(generation="table-id", latest=3, versions=(0, 1, 2, 3))


def test_look_tells_of_a_missing_table_and_of_a_gap() -> None:
    with pytest.raises(DeltaTableNotFoundError):
        watch(MemoryLogStore()).look()
    store = store_of(3)
    store.delete(store.statuses[f"{LOG_PATH}/{2:020d}.json"])
    with pytest.raises(VersionGapError):
        watch(store).look()


def test_nothing_new_costs_three_small_requests_however_long_the_log() -> None:
    store = store_of(50)
    seen = watch(store).mark("table-id", 50)
    counting = CountingLogStore(store)
    assert LogWatch(store=counting, log_path=LOG_PATH).look_for_news(seen) is None
    assert (len(counting.lists), len(counting.statuses), len(counting.reads)) == (0, 2, 1)


def test_news_are_the_commits_after_the_one_seen() -> None:
    store = store_of(5)
    seen = watch(store).mark("table-id", 3)
    assert watch(store).look_for_news(seen) == LogSight(generation="table-id", latest=5, versions=(4, 5))


def test_news_of_a_table_created_anew_are_all_its_versions() -> None:
    seen = watch(store_of(9)).mark("table-id", 9)
    anew = store_of(2, table_id="another")
    assert watch(anew).look_for_news(seen) == LogSight(generation="another", latest=2, versions=(0, 1, 2))


def test_table_created_anew_is_noticed_when_it_has_grown_beyond_the_version_seen() -> None:
    seen = watch(store_of(2)).mark("table-id", 2)
    anew = store_of(4, table_id="another")
    anew.put_commit(2, add("2.parquet", size=77), mtime=mtime_of(9))
    sight = watch(anew).look_for_news(seen)
    assert sight == LogSight(generation="another", latest=4, versions=(0, 1, 2, 3, 4))


def test_log_that_went_back_is_an_error() -> None:
    seen = watch(store_of(5)).mark("table-id", 5)
    with pytest.raises(LogRewrittenError, match="ended at version 5 before and ends at version 3 now"):
        watch(store_of(3)).look_for_news(seen)


def test_commit_that_was_replaced_is_an_error() -> None:
    store = store_of(3)
    seen = watch(store).mark("table-id", 3)
    store.put_commit(3, add("another-name.parquet"))
    with pytest.raises(LogRewrittenError, match="the commit of version 3 had"):
        watch(store).look_for_news(seen)


def test_copied_log_has_no_news() -> None:
    store = store_of(3)
    seen = watch(store).mark("table-id", 3)
    store.put_commit(3, add("3.parquet"), mtime=mtime_of(99))
    assert watch(store).look_for_news(seen) == LogSight(generation="table-id", latest=3, versions=())


def test_cursor_text_is_read_back_and_any_other_text_refused() -> None:
    seen = SeenCommit(generation="g", version=3, size=10, modification_time=5)
    assert SeenCommit.from_text(seen.to_text()) == seen
    for text in ("12", '{"a": 1}', "not json"):
        with pytest.raises(ValueError, match=r"cursor|JSON|value"):
            SeenCommit.from_text(text)
