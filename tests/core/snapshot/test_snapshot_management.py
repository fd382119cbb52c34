"""The current snapshot: loading, caching, updating and replacing it, and the cost of each."""

from __future__ import annotations

import gc
import logging
import weakref
from threading import Barrier, Event, Thread, enumerate as enumerate_threads
from typing import Any
from unittest.mock import Mock

import pytest

from deltasnap_core import (
    DeltaLog,
    DeltaTableNotFoundError,
    FileStatus,
    VersionChecksum,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.protocol.log_files import file_names
from deltasnap_core.snapshot.snapshot import InitialSnapshot
from tests.builders import (
    LOG_PATH,
    TABLE_PATH,
    UUIDS,
    add,
    compaction_file,
    content,
    metadata,
    mtime_of,
    protocol,
    staged_commit_file,
)
from tests.conftest import NOW_MS
from tests.core.snapshot.conftest import Table

INFO = "deltasnap_core.snapshot"


def names(paths: list[str]) -> list[str]:
    return [path.removeprefix(f"{LOG_PATH}/") for path in paths]


def commit_name(version: int) -> str:
    return file_names.commit_file(version)


def test_first_snapshot_starts_at_the_last_checkpoint(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, 12)
    table.checkpoint(10)
    table.files.put(file_names.LAST_CHECKPOINT, b'{"version":10,"size":2}')
    with caplog.at_level(logging.INFO, INFO):
        snapshot = table.log().snapshot
    assert (snapshot.version, snapshot.log_segment.checkpoint_provider.version) == (12, 10)
    assert "Loading version 12 starting from checkpoint 10." in caplog.text
    assert f"Returning initial snapshot Snapshot(path={LOG_PATH}, version=12)" in caplog.text
    assert names(table.store.lists) == [file_names.listing_prefix(10)]
    assert (table.store.reads, names(table.store.opens)) == ([], [file_names.LAST_CHECKPOINT])


def test_a_folder_without_a_table_has_the_initial_snapshot(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    log = table.log()
    with caplog.at_level(logging.INFO, INFO):
        snapshot = log.update()
    assert isinstance(snapshot, InitialSnapshot)
    assert (snapshot.version, snapshot.timestamp, snapshot.transactions, snapshot.domain_metadata) == (-1, -1, {}, {})
    assert f"No delta log found for the Delta table at {LOG_PATH}" in caplog.text
    assert log.update() is snapshot
    with pytest.raises(DeltaTableNotFoundError):
        _ = snapshot.metadata
    with pytest.raises(DeltaTableNotFoundError):
        log.get_snapshot_at(version=0)
    table.commit(0)
    assert log.update().version == 0


def test_update_without_new_commits_costs_one_listing_and_changes_only_the_timestamp(table: Table) -> None:
    table.commits(0, 12)
    table.checkpoint(10)
    log = table.log()
    before = log.update()
    assert before.protocol.min_reader_version == 1
    table.store.reset()
    table.clock.advance(5)
    assert log.update() is before
    assert log.last_update_timestamp == NOW_MS + 5
    assert names(table.store.lists) == [file_names.listing_prefix(10)]
    assert table.store.calls == 1


def test_a_checksum_or_compaction_written_late_keeps_the_snapshot(table: Table) -> None:
    table.commits(0, 3)
    log = table.log()
    before = log.update()
    table.checksum(3)
    table.files.put(compaction_file(0, 3), b"{}")
    assert log.update() is before


def test_update_reads_the_new_commits_and_not_the_checkpoint(table: Table) -> None:
    table.commits(0, 12)
    table.checkpoint(10)
    log = table.log()
    assert log.snapshot.log.loaded.batch.files != ()
    table.commit(13, {"txn": {"appId": "a", "version": 1}})
    table.store.reset()
    assert log.update().transactions == {"a": 1}
    assert (len(table.store.lists), names(table.store.reads), table.store.opens) == (1, [commit_name(13)], [])
    assert log.snapshot.log.loaded.checkpoint is not None


def test_replacing_the_snapshot_closes_the_old_one_and_logs_it(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, 1)
    log = table.log()
    old, closed = log.snapshot, []
    old.close = lambda successor=None: closed.append(old)  # type: ignore[method-assign]
    table.commit(2)
    with caplog.at_level(logging.INFO, INFO):
        new = log.update()
    assert closed == [old]
    assert f"Updated snapshot to {new}" in caplog.text


def test_each_clock_has_its_own_table() -> None:
    one, other = DeltaLog.for_table(None, "/tables/t", clock=lambda: 1), DeltaLog.for_table(None, "/tables/t")
    assert [log.context.table_log.clock() == 1 for log in (one, other)] == [True, False]


def test_hundred_tables_are_kept_and_the_others_only_while_they_are_used() -> None:
    DeltaLog.clear_cache()
    opened = [weakref.ref(DeltaLog.for_table(None, f"/tables/t{number}")) for number in range(102)]
    used = DeltaLog.for_table(None, "/tables/t2")
    assert used is opened[2]()
    assert DeltaLog.for_table(None, "/tables/another") is not used
    gc.collect()
    assert [number for number, log in enumerate(opened) if log() is None] == [0, 1, 3]
    DeltaLog.clear_cache()
    gc.collect()
    assert [log() for log in opened if log() is not None] == [used]


def test_update_since_a_time_does_nothing_after_a_later_update(table: Table) -> None:
    table.commit(0)
    log = table.log()
    before = log.update()
    table.commit(1)
    assert log.update(check_if_updated_since_ts=NOW_MS) is before
    assert log.update(check_if_updated_since_ts=NOW_MS + 1).version == 1


@pytest.mark.parametrize(
    ("limit_ms", "age_ms", "stale"),
    [(0, 0, True), (1, 0, False), (1000, 0, False), (1000, 1000, False), (1000, 1001, True)],
    ids=["no limit", "shortest limit", "fresh", "at the limit", "beyond"],
)
def test_snapshot_is_stale_beyond_the_limit(table: Table, limit_ms: int, age_ms: int, stale: bool) -> None:
    table.commit(0)
    log = table.log(staleness_limit_ms=limit_ms)
    assert log.is_snapshot_stale
    log.update()
    table.clock.advance(age_ms)
    assert log.is_snapshot_stale is stale


def test_stale_snapshot_is_updated_before_it_is_returned(table: Table) -> None:
    table.commit(0)
    log = table.log(staleness_limit_ms=1000)
    log.update()
    table.commit(1)
    table.clock.advance(1001)
    assert log.update(staleness_acceptable=True).version == 1


def test_scans_know_the_totals_after_a_count(table: Table) -> None:
    table.commits(0, 1)
    table.commit(2, add("a", size=7), add("b", size=8))
    snapshot = table.log().snapshot
    found = [snapshot.scan()._totals, (snapshot.num_of_files, snapshot.size_in_bytes), snapshot.scan()._totals]
    assert found == [None, (2, 15), (2, 15)]


def test_fresh_snapshot_is_returned_and_updated_in_the_background(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.commit(0)
    log = table.log(staleness_limit_ms=1000)
    log.update()
    table.commit(1)
    release, listings = Event(), []
    list_from = table.store.list_from

    def slow(path: str) -> Any:
        listings.append(path)
        assert release.wait(10)
        return list_from(path)

    monkeypatch.setattr(table.store, "list_from", slow)
    assert [log.update(staleness_acceptable=True).version for _ in range(3)] == [0, 0, 0]
    release.set()
    (background,) = [thread for thread in enumerate_threads() if thread.name == "deltasnap-state-update"]
    background.join(10)
    assert (log.snapshot.version, len(listings)) == (1, 1)


def test_failed_background_update_keeps_the_snapshot_and_warns(
    table: Table, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table.commit(0)
    log = table.log(staleness_limit_ms=1000)
    before = log.update()

    monkeypatch.setattr(table.store, "list_from", Mock(side_effect=OSError("out of order")))
    assert log.update(staleness_acceptable=True) is before
    for thread in enumerate_threads():
        if thread.name == "deltasnap-state-update":
            thread.join(10)
    assert "An update in the background failed" in caplog.text
    assert log.snapshot is before


@pytest.mark.parametrize("last", [0, 2])
def test_deleted_table_is_detected(last: int, table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, last)
    log = table.log()
    log.update()
    table.files.delete(*list(table.files.statuses.values()))
    assert isinstance(log.update(), InitialSnapshot)
    assert "No delta log found" in caplog.text
    table.commit(0)
    assert log.update().version == 0


def test_recreated_table_is_detected_by_its_files_and_its_id(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, 1)
    log = table.log()
    assert log.snapshot.metadata.id == "table-id"
    table.files.put_commit(0, protocol(), metadata(table_id="another"), mtime=mtime_of(9))
    table.commit(1)
    assert log.update().metadata.id == "another"
    assert f"{commit_name(0)} has changed" in caplog.text
    assert "Change in the table id detected while updating snapshot: table-id" in caplog.text


def test_restored_table_with_fewer_versions_is_detected(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, 5)
    table.checkpoint(4)
    log = table.log()
    assert log.snapshot.protocol is not None
    gone = [file for file in table.files.statuses.values() if file.name >= file_names.listing_prefix(3)]
    table.files.delete(*gone)
    assert log.update().version == 2
    assert "went back from version 5 to 2" in caplog.text


def test_cleaned_up_log_still_loads_from_the_newer_checkpoint(table: Table, caplog: pytest.LogCaptureFixture) -> None:
    table.commits(0, 5)
    log = table.log()
    assert log.snapshot.protocol is not None
    table.checkpoint(4)
    table.commits(6, 6)
    table.files.delete(*[table.files.statuses[f"{LOG_PATH}/{commit_name(v)}"] for v in range(3)])
    assert (log.update().version, log.snapshot.log_segment.checkpoint_provider.version) == (6, 4)
    assert f"The log at {LOG_PATH} was cleaned up" in caplog.text
    with pytest.raises((VersionNotFoundError, VersionGapError)):
        log.get_snapshot_at(version=3)


def test_closed_table_is_loaded_again(table: Table) -> None:
    table.commits(0, 1)
    log = table.log()
    assert log.snapshot.version == 1
    table.commit(2)
    log.close()
    assert (log.last_update_timestamp, log.snapshot.version) == (-1, 2)


def test_update_after_commit_requests_only_the_commit(table: Table) -> None:
    table.commits(0, 2)
    log = table.log()
    before = log.snapshot
    table.commit(3)
    table.store.reset()
    after = log.update_after_commit(3, pre_commit_segment=before.log_segment)
    assert (after.version, log.snapshot) == (3, after)
    assert (table.store.lists, names(table.store.statuses)) == ([], [commit_name(3)])
    assert log.update_after_commit(2) is after
    assert log.update() is after


def test_update_after_commit_beyond_unknown_commits_lists_the_log(table: Table) -> None:
    table.commits(0, 2)
    log = table.log()
    before = log.snapshot
    table.commits(3, 5)
    of_four = VersionChecksum(table_size_bytes=7, num_files=7, num_metadata=1, num_protocol=1)
    after = log.update_after_commit(4, of_four, pre_commit_segment=before.log_segment)
    assert (after.version, after.checksum) == (5, None)
    with pytest.raises(VersionNotFoundError) as caught:
        log.get_log_segment_after_commit(7)
    assert (caught.value.version, caught.value.latest) == (7, 5)


def test_snapshot_at_the_current_version_is_the_current_snapshot(table: Table) -> None:
    table.commits(0, 3)
    log = table.log()
    current = log.snapshot
    table.store.reset()
    assert log.get_snapshot_at(3) is current
    other = log.get_snapshot_at(3, min_file_retention_timestamp=0)
    assert (other is current, other.min_file_retention_timestamp, table.store.calls) == (False, 0, 0)


def test_snapshot_at_an_earlier_version_starts_from_the_nearest_checkpoint_below(table: Table) -> None:
    table.commits(0, 9)
    table.checkpoint(3)
    table.checkpoint(7)
    log = table.log()
    starts = {v: log.get_snapshot_at(v).log_segment.checkpoint_provider.version for v in (2, 3, 6, 7, 8)}
    assert starts == {2: -1, 3: 3, 6: 3, 7: 7, 8: 7}


def test_snapshot_at_an_earlier_version_reuses_data_of_the_current_one(table: Table) -> None:
    table.commits(0, 9)
    table.checkpoint(3)
    log = table.log()
    assert log.snapshot.protocol is not None
    table.store.reset()
    assert log.get_snapshot_at(5).protocol is not None
    assert (len(table.store.lists), table.store.reads) == (1, [])


def test_snapshot_at_an_unknown_version_lists_the_existing_ones(table: Table) -> None:
    table.commits(0, 3)
    with pytest.raises(VersionNotFoundError) as caught:
        table.log().get_snapshot_at(version=4)
    error = caught.value
    assert (error.path, error.version, error.earliest, error.latest) == (TABLE_PATH, 4, 0, 3)


@pytest.mark.parametrize("wanted", [{}, {"version": 1, "timestamp": 1}], ids=["neither", "both"])
def test_snapshot_at_requires_a_version_or_a_timestamp(table: Table, wanted: dict[str, Any]) -> None:
    table.commits(0, 1)
    with pytest.raises(ValueError, match="Expected either a version or a timestamp"):
        table.log().get_snapshot_at(**wanted)


def staged(version: int, *actions: Any, table: Table) -> FileStatus:
    name = staged_commit_file(version, UUIDS[version])
    return table.files.put(f"{file_names.STAGED_COMMIT_FOLDER}/{name}", content(actions))


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_managed_table_includes_ratified_commits(table: Table, caplog: pytest.LogCaptureFixture, feature: str) -> None:
    managed = protocol(3, 7, readerFeatures=[feature], writerFeatures=[feature])
    table.commit(0, managed, metadata())
    tail = [staged(v, {"txn": {"appId": "a", "version": v}}, table=table) for v in (1, 2)]
    log = table.log()
    assert log.update(log_tail=tail, max_catalog_version=2).transactions == {"a": 2}
    assert log.get_snapshot_at(1, log_tail=tail, max_catalog_version=2).transactions == {"a": 1}
    assert "managed by a catalog" not in caplog.text
    alone = table.log().update()
    assert (alone.version, alone.transactions) == (0, {})
    assert "managed by a catalog: version 0 comes from its published commits alone" in caplog.text


def test_commits_of_the_catalog_replace_a_damaged_checkpoint(table: Table) -> None:
    table.commits(0, 1)
    table.commit(2, {"txn": {"appId": "another content", "version": 2}})
    table.checkpoint(1, broken=True)
    tail = [staged(v, {"txn": {"appId": "a", "version": v}}, table=table) for v in (2, 3)]
    log = table.log()
    assert log.update(log_tail=tail, max_catalog_version=3).transactions == {"a": 3}
    assert log.get_snapshot_at(2, log_tail=tail, max_catalog_version=3).transactions == {"a": 2}


def test_snapshot_has_the_commits_of_the_catalog_that_was_queried_last(table: Table) -> None:
    table.commit(0, protocol(), metadata())
    log = table.log()
    alone = log.update()
    queried = log.update(max_catalog_version=0)
    assert (alone.log.catalog.is_known, queried.log.catalog.max_version) == (False, 0)
    assert log.update(max_catalog_version=0) is log.get_snapshot_at(0, max_catalog_version=0) is queried
    assert log.get_snapshot_at(0) is queried
    assert not log.update().log.catalog.is_known
    assert log.get_snapshot_at(0, max_catalog_version=0).log.catalog.is_known


def test_threads_share_one_delta_log_for_a_table(table: Table) -> None:
    table.commits(0, 3)
    table.log()
    found: list[DeltaLog] = []
    barrier = Barrier(8)

    def open_it() -> None:
        barrier.wait()
        none: Any = None
        log = DeltaLog.for_table(none, f"{TABLE_PATH}/", store=table.store)
        assert log.update().version == 3
        found.append(log)

    threads = [Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1
    DeltaLog.clear_cache()
    none: Any = None
    assert DeltaLog.for_table(none, TABLE_PATH, store=table.store) is not found[0]


@pytest.mark.slow
def test_following_many_commits_keeps_only_the_last_snapshot(table: Table) -> None:
    table.commit(0)
    log = table.log()
    seen: list[weakref.ref[Any]] = []
    for version in range(1, 61):
        table.commit(version, {"txn": {"appId": "a", "version": version}})
        if version % 30 == 0:
            table.checkpoint(version, protocol(), metadata(), {"txn": {"appId": "a", "version": version}})
        snapshot = log.update()
        assert snapshot.transactions == {"a": version}
        seen.append(weakref.ref(snapshot))
        table.store.reset()
    del snapshot
    gc.collect()
    assert sum(ref() is not None for ref in seen) == 1
