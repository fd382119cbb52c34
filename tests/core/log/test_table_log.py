"""The API without Spark: versions and polling, their cost, and the detection of a replaced log."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import CatalogCommits, LogCursor, LogStatus, TableLog
from deltasnap_core.clock import milliseconds
from deltasnap_core.errors import (
    ActionNotFoundError,
    CorruptLogError,
    DeltaTableNotFoundError,
    TimestampNotFoundError,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.loaded_log import LoadedLog, load_log
from deltasnap_core.log.polling.log_poll import continues_from
from deltasnap_core.protocol.log_files.file_names import (
    checkpoint_file,
    checksum_file,
    commit_file,
    uuid_checkpoint_file,
)
from deltasnap_core.storage.urls import to_url
from tests.builders import (
    LOG_PATH,
    TABLE_PATH,
    UUIDS,
    Action,
    CountingLogStore,
    MemoryLogStore,
    add,
    commit_info,
    content,
    metadata,
    mtime_of,
    protocol,
    timed_protocol,
    write_log,
)
from tests.checkpoint_files import write_checkpoint
from tests.conftest import FixedClock


def store_of(last: int, *, table_id: str = "table-id", lists: bool = False) -> MemoryLogStore:
    store = MemoryLogStore(lists_from_name=lists)
    for version in range(last + 1):
        store.put_commit(version, *first_actions(version, table_id), add(f"{version}.parquet"))
    return store


def first_actions(version: int, table_id: str) -> list[Action]:
    return [] if version else [protocol(), metadata(table_id=table_id)]


def table(store: MemoryLogStore | CountingLogStore) -> TableLog:
    return TableLog(store, LOG_PATH)


def cursor_of(store: MemoryLogStore, version: int) -> LogCursor:
    log = table(store)
    return log.cursor(log.status(), version)


# Versions.


def test_version_has_all_facts_of_its_log_without_a_replay(clock: FixedClock) -> None:
    store = store_of(0)
    store.put_commit(
        1,
        metadata(configuration={"delta.appendOnly": "true", "path": "x"}),
        {"txn": {"appId": "a", "version": 7}},
        {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
        {"domainMetadata": {"domain": "c", "configuration": "c", "removed": False}},
        {"domainMetadata": {"domain": "gone", "configuration": "", "removed": True}},
    )
    version = TableLog(store, LOG_PATH, clock=clock).latest()
    assert (version.version, version.timestamp, version.checksum) == (1, mtime_of(1), None)
    assert (version.protocol.min_reader_version, version.metadata.id) == (1, "table-id")
    assert version.properties == {
        "delta.appendOnly": "true",
        "delta.minReaderVersion": "1",
        "delta.minWriterVersion": "2",
    }
    assert (version.transactions, list(version.domains.items())) == ({"a": 7}, [("c", "c"), ("d", "{}")])
    assert (version.in_commit_timestamp, version.place_of_metadata) == (None, (version.segment.deltas[1].path, 1))
    assert [file.name for file in version.segment.deltas] == [commit_file(0), commit_file(1)]


def test_version_without_its_commit_has_no_timestamp_in_it_and_metadata_of_the_checkpoint(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")]})
    (file,) = write_checkpoint(log, 1, "classic", [protocol(), metadata(), add("a")])
    for version in (0, 1):
        (log / commit_file(version)).unlink()
    latest = TableLog.for_path(tmp_path).latest()
    assert latest.in_commit_timestamp is None
    assert latest.place_of_metadata == (to_url(file), None)


def test_metadata_of_a_log_that_cannot_be_read_has_no_place() -> None:
    store = store_of(1)
    store.put(commit_file(0), b"{")
    assert table(store).latest().place_of_metadata == (LOG_PATH, None)


def test_version_is_found_by_number_or_by_time() -> None:
    log = table(store_of(3))
    assert log.at(1).version == log.at(timestamp=mtime_of(2) - 1).version == 1
    assert log.at(timestamp=mtime_of(99)).version == 3
    for wrong in ({}, {"version": 1, "timestamp": 1}):
        with pytest.raises(ValueError, match="Expected either a version or a timestamp"):
            log.at(**wrong)  # type: ignore[arg-type]
    with pytest.raises(VersionNotFoundError):
        log.at(4)


FAR_WEST, FAR_EAST = timezone(timedelta(hours=-14)), timezone(timedelta(hours=14))


@pytest.mark.parametrize(
    "last", [2**63 - 1, 2**70, datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=FAR_WEST)]
)
def test_any_time_after_the_last_commit_returns_the_last_commit(last: datetime | int) -> None:
    assert table(store_of(2)).at(timestamp=last).version == 2


@pytest.mark.parametrize("first", [-(2**63), datetime.min.replace(tzinfo=UTC), datetime.min.replace(tzinfo=FAR_EAST)])
def test_any_time_before_the_first_commit_is_rejected(first: datetime | int) -> None:
    with pytest.raises(TimestampNotFoundError):
        table(store_of(2)).at(timestamp=first)


@pytest.mark.parametrize("version", [-1, 1.0, "1"])
def test_invalid_version_is_a_wrong_argument(version: Any) -> None:
    for ask in (table(store_of(2)).at, table(store_of(2)).list):
        with pytest.raises(ValueError, match="Expected a version of 0 or more"):
            ask(version)


def test_version_of_a_catalog_table_is_its_latest() -> None:
    catalog = CatalogCommits(max_version=2)
    assert table(store_of(3)).latest(catalog=catalog).version == 2
    assert table(store_of(3)).at(timestamp=mtime_of(99), catalog=catalog).version == 2


def test_timestamp_of_zero_is_a_timestamp() -> None:
    enabled = {"delta.enableInCommitTimestamps": "true"}
    store = MemoryLogStore()
    store.put_commit(0, commit_info(inCommitTimestamp=0), timed_protocol(), metadata(configuration=enabled))
    assert table(store).latest().timestamp == 0


def test_one_listing_serves_status_range_and_history() -> None:
    counting = CountingLogStore(store_of(9))
    log = table(counting)
    listing = log.list()
    counting.reset()
    assert log.status(listing).latest == 9
    assert log.range(2, 4, listing).versions == range(2, 5)
    assert [entry.version for entry in log.history_of(listing).get_history(limit=2)] == [9, 8]
    assert counting.lists == []


def test_range_costs_one_listing_and_rejects_missing_versions_at_no_cost() -> None:
    counting = CountingLogStore(store_of(9))
    assert table(counting).range(2, 4).versions == range(2, 5)
    assert len(counting.lists) == 1
    with pytest.raises(VersionNotFoundError) as error:
        table(counting).range(8, 2**63 - 1)
    assert (error.value.version, error.value.latest) == (10, 9)


# Polling.


def test_status_lists_every_reconstructable_version_with_one_listing() -> None:
    counting = CountingLogStore(store_of(3))
    status = table(counting).status()
    assert status == LogStatus(table_id="table-id", latest=3, versions=(0, 1, 2, 3))
    assert [file.name for file in status.commits.values()] == [commit_file(version) for version in range(4)]
    assert (len(counting.lists), counting.statuses) == (1, [])


def test_status_reports_a_missing_table_a_gap_and_a_log_without_metadata() -> None:
    with pytest.raises(DeltaTableNotFoundError) as missing:
        table(MemoryLogStore()).status()
    assert missing.value.path == TABLE_PATH
    store = store_of(3)
    store.delete(store.statuses[f"{LOG_PATH}/{commit_file(2)}"])
    for table_id in (None, "an id that is known"):
        with pytest.raises(VersionGapError):
            table(store).status(table_id=table_id)
    bare = MemoryLogStore()
    bare.put_commit(0, protocol())
    with pytest.raises(ActionNotFoundError):
        table(bare).status()


def test_empty_listing_has_no_latest_version() -> None:
    log = table(MemoryLogStore())
    with pytest.raises(DeltaTableNotFoundError, match="events"):
        log.list()
    empty = LogListing(log_path=LOG_PATH, commits={}, checkpoints=(), compactions=(), checksums={})
    with pytest.raises(DeltaTableNotFoundError, match="events"):
        log.latest_of(empty)
    with pytest.raises(DeltaTableNotFoundError, match="events"):
        log.status(empty)


def test_status_lists_again_if_a_commit_was_cleaned_up_before_it_was_read(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    table = TableLog.for_path(tmp_path)
    listing = table.list()
    write_checkpoint(log, 1, "classic", [protocol(), metadata(), add("a")])
    for version in (0, 1):
        (log / commit_file(version)).unlink()
    found = table.status(listing)
    assert (found.table_id, found.versions) == ("table-id", (1, 2))
    write_log(tmp_path, {3: [add("c")]})
    assert table.status(listing, condition=table.condition()).latest == 3


def test_status_reports_a_latest_commit_that_vanished_before_it_was_read(tmp_path: Path) -> None:
    log = write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")]})
    table = TableLog.for_path(tmp_path)
    listing = table.list()
    (log / commit_file(1)).unlink()
    with pytest.raises(CorruptLogError):
        table.status(listing)


def test_status_finds_the_tables_id_behind_a_checkpoint_that_cannot_be_read() -> None:
    store = store_of(3)
    store.put(checkpoint_file(2), b"not Parquet")
    assert table(store).status().table_id == "table-id"


@pytest.mark.parametrize(("lists", "requested"), [(True, (1, 0, 1)), (False, (0, 2, 3))], ids=["listed", "by name"])
def test_idle_poll_costs_the_same_for_a_log_of_any_length(*, lists: bool, requested: tuple[int, int, int]) -> None:
    store = store_of(50, lists=lists)
    since = cursor_of(store, 50)
    counting = CountingLogStore(store)
    assert table(counting).new_commits(since) is None
    assert (len(counting.lists), len(counting.statuses), counting.calls) == requested
    assert len(counting.listed) == requested[0]


def test_new_commits_start_after_the_cursor_and_cost_only_new_files() -> None:
    store = store_of(5)
    since = cursor_of(store, 3)
    counting = CountingLogStore(store)
    status = table(counting).new_commits(since)
    assert status == LogStatus(table_id="table-id", latest=5, versions=(4, 5))
    assert status is not None
    assert list(status.commits) == [4, 5]
    assert (len(counting.lists), counting.calls) == (0, 4)


@pytest.mark.parametrize("lists", [True, False], ids=["listed", "by name"])
def test_versions_cleaned_up_between_two_polls_are_skipped(*, lists: bool) -> None:
    store = store_of(3, lists=lists)
    since = cursor_of(store, 3)
    name = uuid_checkpoint_file(6, UUIDS[0], "json")
    store.put(name, content([protocol(), metadata(), {"checkpointMetadata": {"version": 6}}]))
    store.put_commit(7, add("7"))
    store.put("_last_checkpoint", b'{"version":6,"size":2}')
    assert table(store).new_commits(since) == LogStatus(table_id="table-id", latest=7, versions=(6, 7))


def test_recreated_table_has_a_new_id_and_all_its_versions() -> None:
    since = cursor_of(store_of(9), 9)
    status = table(store_of(2, table_id="another")).new_commits(since)
    assert status == LogStatus(table_id="another", latest=2, versions=(0, 1, 2))


def test_recreated_table_that_has_grown_beyond_the_cursor_is_detected() -> None:
    since = cursor_of(store_of(2), 2)
    anew = store_of(4, table_id="another")
    anew.put_commit(2, add("2.parquet", size=77), mtime=mtime_of(9))
    assert table(anew).new_commits(since) == LogStatus(table_id="another", latest=4, versions=(0, 1, 2, 3, 4))


def test_shorter_log_is_a_fork_with_data_to_find_the_last_common_version() -> None:
    before = store_of(5)
    since, known = cursor_of(before, 5), table(before).status().commits
    status = table(store_of(3)).new_commits(since)
    assert status == LogStatus(table_id="table-id", latest=3, versions=(0, 1, 2, 3), is_fork=True)
    assert status is not None
    assert max(version for version, commit in status.commits.items() if known[version] == commit) == 3


@pytest.mark.parametrize("last", [3, 8])
def test_restored_log_with_new_commits_is_a_fork(last: int) -> None:
    since = cursor_of(store_of(3), 3)
    restored = store_of(last)
    restored.put_commit(2, add("another-name.parquet"))
    restored.put_commit(3, add("another-name.parquet"), mtime=mtime_of(1))
    status = table(restored).new_commits(since)
    assert status is not None
    assert (status.is_fork, status.versions) == (True, tuple(range(last + 1)))


def test_commit_of_equal_size_and_other_content_is_a_fork() -> None:
    store = store_of(3)
    since = cursor_of(store, 3)
    store.put_commit(3, add("X.parquet"), mtime=mtime_of(3) + 1)
    status = table(store).new_commits(since)
    assert status is not None
    assert status.is_fork


@pytest.mark.parametrize("keep", [0, 30], ids=["empty", "cut"])
def test_truncated_commit_is_no_fork(keep: int) -> None:
    store = store_of(3)
    since = cursor_of(store, 3)
    known = table(store).status().commits[3]
    store.put(known.name, store.read_bytes(known.path)[:keep], mtime=mtime_of(9))
    assert continues_from(store, since, store.status(known.path), 3)


def test_copied_log_is_the_same_and_has_no_new_commits() -> None:
    store = store_of(3)
    since = cursor_of(store, 3)
    store.put_commit(3, add("3.parquet"), mtime=mtime_of(99))
    assert table(store).new_commits(since) == LogStatus(table_id="table-id", latest=3, versions=())


def test_cursor_text_is_parsed_and_other_text_is_rejected() -> None:
    for version in (0, 3):
        since = LogCursor(table_id="g", version=version, size=10, modification_time=5, sha256="ab")
        assert LogCursor.from_text(since.to_text()) == since
    earlier = json.dumps({"generation": "g", "version": 3, "size": 10, "modification_time": 5})
    assert LogCursor.from_text(earlier) == LogCursor(table_id="g", version=3, size=10, modification_time=5)
    for text in (
        "12",
        '{"a": 1}',
        "not json",
        '{"generation": "g", "version": "3"}',
        '{"generation": "g", "version": -1}',
        "[" * 100_000,
    ):
        with pytest.raises(ValueError, match=r"cursor|JSON|value|nested"):
            LogCursor.from_text(text)


def test_huge_hint_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(3)
    store.put("_last_checkpoint", b" " * (17 << 20))
    assert table(store).latest().version == 3
    assert "16777216 bytes at most" in caplog.text


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff"], ids=["empty", "nested", "bytes"])
def test_useless_checksum_file_never_fails_a_load(content: bytes) -> None:
    store = store_of(3)
    store.put(checksum_file(3), content)
    latest = table(store).latest()
    assert (latest.checksum, latest.metadata.id) == (None, "table-id")


def test_huge_checksum_file_is_not_read(caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(3)
    file = store.put(checksum_file(3), b"{}")
    counting = CountingLogStore(store)
    store.statuses[file.path] = type(file)(path=file.path, size=1 << 40, modification_time=0)
    assert table(counting).latest().checksum is None
    assert (counting.reads, "is ignored" in caplog.text) == ([], True)


@pytest.mark.usefixtures("new_york")
def test_local_time_that_a_change_of_the_clocks_skips_is_moved_forward() -> None:
    skipped, after = datetime(2026, 3, 8, 2, 30, 0, 1999), datetime(2026, 3, 8, 7, 30, 0, 1999, tzinfo=UTC)
    assert milliseconds(skipped) == milliseconds(after)
    first_of_two, utc = datetime(2026, 11, 1, 1, 30), datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
    assert milliseconds(first_of_two) == milliseconds(utc)
    assert milliseconds(datetime(1901, 1, 1, 0, 0, 0, 999999)) % 1000 == 999


def test_time_is_a_datetime_or_milliseconds() -> None:
    assert milliseconds(datetime(1970, 1, 1, 0, 0, 1, 999, tzinfo=UTC)) == 1000
    assert milliseconds(datetime(1970, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == -3_600_000
    assert milliseconds(datetime(1970, 1, 2)) == int(datetime(1970, 1, 2).timestamp() * 1000)
    assert milliseconds(7) == 7
    for other in ("2026-01-01", None, 1.5):
        with pytest.raises(ValueError, match="A timestamp is a datetime or milliseconds"):
            milliseconds(other)  # type: ignore[arg-type]


def log_store(last: int) -> MemoryLogStore:
    store = MemoryLogStore()
    for version in range(last + 1):
        store.put_commit(version, *([] if version else [protocol(), metadata()]), txn(f"v{version}"))
    return store


def txn(name: str) -> dict[str, object]:
    return {"txn": {"appId": name, "version": 1}}


def loaded(store: MemoryLogStore | CountingLogStore, known: LoadedLog | None = None) -> LoadedLog:
    builder = LogSegmentBuilder(store, LOG_PATH)
    return load_log(builder, builder.build(), known)


def read_again(store: MemoryLogStore, known: LoadedLog) -> tuple[list[str], LoadedLog]:
    counting = CountingLogStore(store)
    found = loaded(counting, known)
    return [path.rpartition("/")[2] for path in counting.reads], found


def test_growing_log_is_read_from_the_cursor() -> None:
    store = log_store(3)
    known = loaded(store)
    store.put_commit(4, add("a"), txn("v4"))
    assert read_again(store, known)[0] == [commit_file(4)]


@pytest.mark.parametrize(
    ("replaced", "reads"), [(0, [0]), (2, [2, 3, 4, 5]), (5, [5])], ids=["first", "in the middle", "last"]
)
def test_replaced_commit_is_read_again_and_only_the_new_one_counts(replaced: int, reads: list[int]) -> None:
    store = log_store(5)
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
    store = log_store(5)
    for version in (2, 4):
        marker = {"checkpointMetadata": {"version": version}}
        name = uuid_checkpoint_file(version, "80a083e8-7026-4e79-81be-64bd76c43a11", "json")
        store.put(name, content([protocol(), metadata(), marker]))
    builder = LogSegmentBuilder(store, LOG_PATH)
    log, used = load_log(builder, builder.build()), list[int | None]()
    while log.checkpoint is not None:
        used.append(log.checkpoint.version)
        assert len(used) < 3
        log = log.without(CorruptLogError(path=log.checkpoint.paths[0], reason="a page is damaged"))
    assert used == [4, 2]


def test_rolled_back_log_with_new_commits_drops_cached_versions() -> None:
    known = loaded(log_store(5))
    restored = log_store(6)
    for version in range(3, 7):
        restored.put_commit(version, txn(f"other {version}"), mtime=mtime_of(version) - 10**9)
    found = loaded(restored, known)
    assert sorted(found.non_file.transactions) == ["other 3", "other 4", "other 5", "other 6", "v0", "v1", "v2"]
    assert found.non_file == loaded(restored).non_file
