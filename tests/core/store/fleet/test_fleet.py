"""The fleet of a store: one row per table, using only the store."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.stored_fleet import FILE_BYTES, store_table
from deltasnap_core import Problem, Protocol, SnapshotStore
from deltasnap_core.errors import CorruptStoreError, StorageError, StoredVersionNotFoundError
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.fleet import last_polls
from deltasnap_core.store.versions.stored_table import StoredTable
from deltasnap_core.support import FLEET_SCHEMA, LastPoll
from tests.snapshots import assert_snapshot

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 100 * DAY
COMMITS = [(NOW - (40 - number) * DAY, number + 1) for number in range(41)]
"""One commit a day, the last one now; each adds one file."""

WARNING = Problem.of_check(check="small_files", severity="warning", text="Many small files.", advice="Run `OPTIMIZE`.")
ERROR = Problem.of_check(check="contiguous_log", severity="error", text="Version 3 is lost.", advice="Restore it.")


def opened(folder: Path) -> SnapshotStore:
    return SnapshotStore.open(None, folder)


def stored(folder: Path) -> SnapshotStore:
    """Return a store with the versions of `COMMITS`."""
    store_table(folder, "events", COMMITS)
    return opened(folder)


def polled(folder: Path, **fields: Any) -> SnapshotStore:
    """Return a store with the versions of `COMMITS`, and a poll."""
    store = stored(folder)
    store.polls.write("events", poll(**fields))
    return store


def row_of(store: SnapshotStore, table: str = "events", now_ms: int = NOW) -> dict[str, Any]:
    rows = store.fleet([table], now_ms=now_ms).to_pylist()
    assert len(rows) == 1
    return dict(rows[0])


def poll(**fields: Any) -> LastPoll:
    return LastPoll(
        **{"polled_at_ms": NOW, "latest_version": 40, "last_commit_ms": NOW, "checked_version": 40, **fields}
    )


def test_row_has_the_numbers_of_the_newest_stored_version(tmp_path: Path) -> None:
    features: Any = {"reader_features": ("b",), "writer_features": ("a", "b")}
    store_table(tmp_path, "events", COMMITS, protocol=Protocol(min_reader_version=3, min_writer_version=7, **features))
    of_table = poll(latest_version=42, last_commit_ms=NOW - 1_000, owners=("team:web",), path="s3://lake/events")
    store = opened(tmp_path)
    store.polls.write("events", replace(of_table, facts_version=40, vacuum_bytes=5, time_travel_bytes=6))
    assert_snapshot(Path(__file__).with_name("fleet.json"), row_of(store, now_ms=NOW + 5_000))


@pytest.mark.parametrize(("files", "ratio"), [(0, 0.0), (1, 1.0)])
def test_share_of_small_files_of_an_almost_empty_table_is_known(tmp_path: Path, files: int, ratio: float) -> None:
    store_table(tmp_path, "events", [(NOW, files)])
    row = row_of(opened(tmp_path))
    assert (row["num_files"], row["small_file_ratio"]) == (files, ratio)


def test_bytes_of_an_earlier_version_that_vacuum_would_free_are_not_shown(tmp_path: Path) -> None:
    store = polled(tmp_path, facts_version=39, vacuum_bytes=5)
    assert row_of(store)["vacuum_bytes"] is None


def test_schema_is_the_documented_one(tmp_path: Path) -> None:
    store_table(tmp_path, "events", COMMITS)
    assert opened(tmp_path).fleet(now_ms=NOW).schema == FLEET_SCHEMA
    assert opened(tmp_path / "nothing").fleet().schema == FLEET_SCHEMA


def test_table_without_a_poll_is_unknown(tmp_path: Path) -> None:
    store_table(tmp_path, "events", COMMITS)
    row = row_of(opened(tmp_path))
    assert (row["condition"], row["reason"]) == ("unknown", "deltasnap has not read the log of this table yet.")
    assert (row["latest_version"], row["versions_behind"], row["vacuum_bytes"]) == (None, None, None)
    assert (row["num_files"], row["growth_7d_bytes"], row["age_ms"]) == (41, 7 * FILE_BYTES, 0)


@pytest.mark.parametrize(
    ("problems", "condition", "reason", "advice"),
    [
        ((), "healthy", "", ""),
        ((WARNING,), "warned", "Many small files.", "Run `OPTIMIZE`."),
        ((WARNING, ERROR), "broken", "Version 3 is lost.", "Restore it."),
    ],
)
def test_last_poll_decides(
    tmp_path: Path, problems: tuple[Problem, ...], condition: str, reason: str, advice: str
) -> None:
    store = polled(tmp_path, problems=problems)
    row = row_of(store)
    assert (row["condition"], row["reason"], row["advice"]) == (condition, reason, advice)


def test_age_of_a_table_whose_last_commit_is_in_the_future_is_unknown(tmp_path: Path) -> None:
    store_table(tmp_path, "events", [(NOW - DAY * number, 1) for number in range(5, -1, -1)])
    store = opened(tmp_path)
    row = row_of(store, now_ms=NOW - HOUR // 12)
    assert (row["last_commit_ms"], row["age_ms"], row["age_ratio"]) == (NOW, 0, 0.0)  # the clocks of two machines
    row = row_of(store, now_ms=NOW - HOUR // 12 - 1)
    assert (row["last_commit_ms"], row["age_ms"], row["age_ratio"]) == (NOW, None, None)


@pytest.mark.parametrize(("pause_ms", "expected"), [(3, 120.0), (59_999, 120.0), (60_000, 120.0), (120_000, 60.0)])
def test_age_is_compared_with_the_usual_pause_or_a_minute(tmp_path: Path, pause_ms: int, expected: float) -> None:
    store_table(tmp_path, "events", [(NOW - number * pause_ms, 1) for number in range(5, -1, -1)])
    row = row_of(opened(tmp_path), now_ms=NOW + 2 * HOUR)
    assert (row["usual_pause_ms"], row["age_ratio"]) == (pause_ms, expected)


def test_commit_dated_just_after_now_has_no_age(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.polls.write("events", poll(last_commit_ms=NOW + 5_000))
    assert row_of(store)["age_ms"] == 0


def test_store_that_is_behind_does_not_make_a_table_stale(tmp_path: Path) -> None:
    store = stored(tmp_path)
    late = poll(latest_version=41, last_commit_ms=None, stale_after_ms=1)
    store.polls.write("events", late)
    row = row_of(store, now_ms=NOW + HOUR)
    assert (row["condition"], row["age_ms"], row["versions_behind"]) == ("healthy", None, 1)


def test_damaged_manifest_affects_only_its_table(tmp_path: Path) -> None:
    store_table(tmp_path, "events", COMMITS)
    store_table(tmp_path, "others", COMMITS)
    store = opened(tmp_path)
    store.polls.write("events", poll())
    store.polls.write("others", poll())
    newest = sorted((tmp_path / "events" / "manifests").iterdir())[-1]
    newest.write_bytes(newest.read_bytes().replace(b'"numOfFiles":41', b'"numOfFiles":42'))
    damaged, sound = store.fleet(now_ms=NOW).to_pylist()
    assert (damaged["table"], damaged["condition"], damaged["check"]) == ("events", "broken", "store")
    assert newest.name in damaged["reason"]
    assert damaged["advice"].startswith("Move the file away")
    assert damaged["advice"] not in damaged["reason"]
    assert (damaged["num_files"], sound["condition"], sound["num_files"]) == (None, "healthy", 41)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("sizeInBytes", "many", "expected the size of the version, found 'many'"),
        ("numOfFiles", None, "expected the numbers of a version ('>' not supported"),
        ("fileSizeHistogram", {}, "expected the numbers of a version ('sortedBinBoundaries')"),
    ],
)
def test_newest_version_without_valid_numbers_is_damage(name: str, value: Any, reason: str, tmp_path: Path) -> None:
    store = polled(tmp_path)
    newest = store.manifest("events", 40)
    wrong = replace(newest, computed_state={**newest.computed_state, name: value})
    store.table("events").commit([wrong])
    row = row_of(store)
    assert (row["condition"], row["check"], row["num_files"]) == ("broken", "store", None)
    assert f"{40:020d}.json: {reason}" in row["reason"]


def test_earlier_version_without_a_valid_time_is_left_out(tmp_path: Path) -> None:
    store_table(tmp_path, "events", COMMITS)
    store, untimed = opened(tmp_path), cast(Any, "x")
    store.polls.write("events", poll())
    store.table("events").commit([replace(store.manifest("events", 39), timestamp=untimed)])
    assert (row_of(store)["condition"], row_of(store)["num_files"]) == ("healthy", 41)


def test_lost_manifest_of_the_checked_version_is_damage_unless_the_table_was_rolled_back(tmp_path: Path) -> None:
    store_table(tmp_path, "events", COMMITS)
    sorted((tmp_path / "events" / "manifests").iterdir())[-1].unlink()
    store = opened(tmp_path)
    found = []
    for latest, checked in ((40, 40), (41, 40), (40, 39), (39, 40)):
        store.polls.write("events", poll(latest_version=latest, checked_version=checked))
        row = row_of(store)
        found.append((row["condition"], row["check"], row["reason"], row["stored_version"]))
    lost = ("broken", "store", "Version 40 was stored, but its manifest is gone from the store.", 39)
    assert found == [lost, lost, ("healthy", None, "", 39), ("healthy", None, "", 39)]


def test_version_pruned_while_the_fleet_is_read_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = polled(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(
            StoredTable,
            "read_manifests",
            Mock(side_effect=StoredVersionNotFoundError(store="s", table="events", version=40)),
        )
        row = row_of(store)
    assert (row["condition"], row["num_versions"], row["num_files"]) == ("healthy", 41, None)
    known = store.table("events").current_names()
    assert len(store.polls.points("events", poll(), known)) > 3
    for manifest in (tmp_path / "events" / "manifests").iterdir():
        manifest.unlink()
    assert store.polls.points("events", poll(), known) == {}


def test_lock_released_while_it_is_read_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, write_new, attempts = opened(tmp_path), WritableFiles.write_new, list[str]()

    def taken_at_first(files: WritableFiles, path: str, content: bytes) -> bool:
        attempts.append(path)
        return len(attempts) > 1 and write_new(files, path, content)

    monkeypatch.setattr(WritableFiles, "write_new", taken_at_first)
    monkeypatch.setattr(last_polls, "_WAIT_SECONDS", 0)
    with store.polls.alone("events"):
        assert len(attempts) == 2
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_lock_of_a_request_without_an_answer_is_held_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_new = WritableFiles.write_new
    monkeypatch.setattr(WritableFiles, "write_new", lambda *arguments: write_new(*arguments) and False)
    monkeypatch.setattr(last_polls, "time", SimpleNamespace(monotonic=lambda: 0, sleep=pytest.fail))
    with opened(tmp_path).polls.alone("events"):
        assert [path.name for path in (tmp_path / "events").iterdir()] == ["last_poll.json.lock"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


class HeldLock:
    """A storage with a lock that others hold. renewed: how often its content changes before they release it."""

    def __init__(self, renewed: int | None) -> None:
        self.reads, self.deleted = 0, 0
        self._renewed = renewed

    def write_new(self, path: str, token: bytes) -> bool:
        return self.deleted > 0 or (self._renewed is not None and self.reads > self._renewed)

    def read(self, path: str) -> bytes:
        self.reads += 1
        return b"held" if self._renewed is None else f"held {self.reads}".encode()

    def delete(self, paths: Sequence[str]) -> None:
        self.deleted += 1


@pytest.mark.parametrize(
    ("renewed", "reads", "deleted"), [(None, 6, 2), (9, 10, 1)], ids=["left behind by a dead process", "renewed"]
)
def test_lock_is_taken_after_twenty_seconds_without_renewal(
    renewed: int | None, reads: int, deleted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count(0, 5)
    monkeypatch.setattr(last_polls, "time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None))
    storage: Any = HeldLock(renewed)
    with last_polls.LastPolls(storage=storage, root="file:///store").alone("events"):
        assert storage.reads == reads
    assert storage.deleted == deleted


def test_table_stored_by_a_later_release_is_unknown_with_advice_to_upgrade(tmp_path: Path) -> None:
    store = polled(tmp_path)
    sorted((tmp_path / "events" / "manifests").iterdir())[-1].write_bytes(b'{"format": 4}')
    row = row_of(store)
    assert (row["condition"], row["check"], row["num_files"]) == ("unknown", "store", None)
    assert "has format 4" in row["reason"]
    assert "Upgrade deltasnap" in row["advice"]


def test_store_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(StorageError, match="expected a folder, found a file"):
        opened(tmp_path / "store")


def test_unreadable_table_has_a_row_unreachable_store_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object, path: str) -> bytes:
        raise StorageError(path=path, reason="access denied")

    store = opened(tmp_path)
    monkeypatch.setattr(WritableFiles, "read", fail)
    row = row_of(store)
    assert (row["condition"], row["check"]) == ("unknown", "store")
    assert "access denied" in row["reason"]
    monkeypatch.setattr(WritableFiles, "folders", fail)
    with pytest.raises(StorageError, match="access denied"):
        row_of(store)


def test_damaged_poll_makes_the_table_unknown_with_a_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = polled(tmp_path)
    (tmp_path / "events" / "last_poll.json").write_bytes(b'{"format": 1')
    row = row_of(store)
    assert (row["condition"], row["check"], row["num_files"]) == ("unknown", "store", 41)
    assert "The last poll of this table cannot be read: " in row["reason"]
    assert "last_poll.json" in caplog.text


@pytest.mark.parametrize("damaged", ["manifest", "poll", "poll of another format"])
def test_status_for_alerts_matches_the_fleet(tmp_path: Path, damaged: str) -> None:
    store = polled(tmp_path)
    newest = sorted((tmp_path / "events" / "manifests").iterdir())[-1]
    file = newest if damaged == "manifest" else tmp_path / "events" / "last_poll.json"
    file.write_bytes(b"{" if damaged != "poll of another format" else b'{"format": 9}')
    status, row = store.polls.statuses(["events"], NOW)["events"], row_of(store)
    assert status is not None
    assert (status.level, status.reason, status.checks) == (row["condition"], row["reason"], ("store",))


def test_rows_are_sorted_worst_first_then_by_name(tmp_path: Path) -> None:
    store = opened(tmp_path)
    for name, problems in {"d": (), "c": (ERROR,), "b": (WARNING,), "a": ()}.items():
        store_table(tmp_path, name, COMMITS[:1])
        store.polls.write(name, poll(problems=problems, checked_version=0))
    store_table(tmp_path, "e", COMMITS[:1])
    assert store.fleet(now_ms=NOW)["table"].to_pylist() == ["c", "e", "b", "a", "d"]


def test_table_without_stored_versions_has_a_row_if_requested(tmp_path: Path) -> None:
    row = row_of(opened(tmp_path))
    assert (row["condition"], row["num_versions"], row["stored_version"]) == ("unknown", 0, None)


def test_number_beyond_64_bits_is_null(tmp_path: Path) -> None:
    store_table(tmp_path, "events", COMMITS, size_in_bytes=1 << 70)
    assert row_of(opened(tmp_path))["size_in_bytes"] is None


def test_table_with_a_poll_costs_two_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = stored(tmp_path)
    store.polls.write("events", replace(poll(), points=store.polls.points("events", poll())))
    read: list[str] = []
    one, many = WritableFiles.read, WritableFiles.read_many

    def read_one(self: WritableFiles, path: str) -> bytes:
        read.append(path)
        return one(self, path)

    def read_many(self: WritableFiles, paths: Sequence[str]) -> list[bytes]:
        read.extend(paths)
        return many(self, paths)

    monkeypatch.setattr(WritableFiles, "read", read_one)
    monkeypatch.setattr(WritableFiles, "read_many", read_many)
    assert row_of(store)["growth_30d_bytes"] == 30 * FILE_BYTES
    assert [path.rpartition("/")[2].partition(".")[0] for path in read] == ["last_poll", "000001-id-of-events"]


def test_pruning_keeps_the_last_poll_and_the_history(tmp_path: Path) -> None:
    store = polled(tmp_path)
    store.fleet(now_ms=NOW, keep=True)
    report = store.prune("events", keep=3, min_age_ms=0)
    assert report.versions == tuple(range(38))
    row = row_of(store)
    assert (row["condition"], row["num_versions"], row["growth_7d_bytes"]) == ("healthy", 3, None)
    assert store.fleet_history().num_rows == 1
    assert store.usage("events").num_unreferenced_files == 0


def test_stored_fleets_are_read_back_in_order(tmp_path: Path) -> None:
    store = stored(tmp_path)
    fleets = [store.fleet(now_ms=NOW + hour * HOUR, keep=True) for hour in (2, 0, 1)]
    history = store.fleet_history()
    assert history["taken_at_ms"].to_pylist() == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert history.schema.names == ["taken_at_ms", *FLEET_SCHEMA.names]
    assert pa.concat_tables(fleets)["age_ms"].to_pylist() == [2 * HOUR, 0, HOUR]
    assert store.fleet_history(NOW + HOUR, NOW + HOUR)["age_ms"].to_pylist() == [HOUR]
    assert opened(tmp_path / "nothing").fleet_history().num_rows == 0


def test_columns_that_an_earlier_release_did_not_keep_are_null(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.polls.write("events", poll())
    store.fleet(now_ms=NOW, keep=True)
    (file,) = (path for path in tmp_path.rglob("*.parquet") if f"{NOW}" in path.name)
    kept = pq.read_table(file)
    pq.write_table(kept.drop_columns(["time_travel_bytes"]), file, write_page_checksum=True)
    assert store.fleet_history().equals(kept)


def test_damaged_file_of_the_history_is_an_error_that_names_it(tmp_path: Path) -> None:
    store = stored(tmp_path)
    store.fleet(now_ms=NOW, keep=True)
    (file,) = (path for path in tmp_path.rglob("*.parquet") if f"{NOW}" in path.name)
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(CorruptStoreError, match=file.name):
        store.fleet_history()


def test_old_fleets_are_pruned(tmp_path: Path) -> None:
    store = stored(tmp_path)
    for hour in range(3):
        store.fleet(now_ms=NOW + hour * HOUR, keep=True)
    for hour in range(3):  # left behind by killed processes
        left = tmp_path / "@fleet" / f".tmp-{hour}"
        left.touch()
        os.utime(left, ((NOW + hour * HOUR) / 1000,) * 2)
    assert store.prune_fleet_history(NOW + HOUR) == 1
    assert [path.name for path in sorted(tmp_path.glob("@fleet/.*"))] == [".tmp-1", ".tmp-2"]
    assert store.fleet_history()["taken_at_ms"].to_pylist() == [NOW + HOUR, NOW + 2 * HOUR]
    assert store.prune_fleet_history(NOW + HOUR) == 0


def test_history_is_not_a_table_of_the_store(tmp_path: Path) -> None:
    store = stored(tmp_path)
    store.fleet(now_ms=NOW, keep=True)
    assert store.fleet(now_ms=NOW)["table"].to_pylist() == ["events"]
    with pytest.raises(ValueError, match="table name"):
        store.versions("@fleet")


@pytest.mark.spark  # a server
def test_fleet_on_s3_matches_a_local_store(tmp_path: Path, s3_options: dict[str, Any]) -> None:
    local = opened(tmp_path)
    for name in ("events", "orders"):
        store_table(tmp_path, name, COMMITS)
        local.polls.write(name, poll())
    fsspec.filesystem("s3", **s3_options).put(str(tmp_path), "lake/store", recursive=True)
    remote = SnapshotStore.open(None, "s3://lake/store", s3_options)
    assert remote.fleet(now_ms=NOW, keep=True) == local.fleet(now_ms=NOW)
    assert remote.fleet_history()["table"].to_pylist() == ["events", "orders"]
    remote.polls.write("orders", poll(problems=(ERROR,)))
    assert remote.fleet(now_ms=NOW)["table"].to_pylist() == ["orders", "events"]
    assert SnapshotStore.open(None, "s3://lake/nothing", s3_options).fleet().num_rows == 0
