"""The history of commits: its entries, its order, what it costs, and damaged commits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deltasnap_core import CorruptLogError, DeltaHistoryManager
from deltasnap_core.log.commits import commit_scan
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from tests.builders import (
    FIRST_COMMIT_MS,
    LOG_PATH,
    CountingLogStore,
    MemoryLogStore,
    add,
    commit_info,
    commits,
    content,
    metadata,
    mtime_of,
    protocol,
    write_log,
)
from tests.checkpoint_files import write_checkpoint
from tests.core.log.history.delta_history_manager_builders import by_mtimes, log_of, log_with_mtimes, manager_of


@pytest.mark.parametrize(("limit", "versions"), [(0, []), (1, [2]), (2**70, [2, 1, 0]), (None, [2, 1, 0])])
def test_history_has_the_requested_number_of_commits(limit: int | None, versions: list[int]) -> None:
    assert [entry.version for entry in by_mtimes(0, 1, 2).get_history(limit)] == versions


def test_history_of_a_listing_lists_nothing() -> None:
    log = log_with_mtimes(1, 2, 3)
    listing, store = list_log(log, LOG_PATH), CountingLogStore(log)
    again = DeltaHistoryManager(store, LOG_PATH, listing=listing)
    assert ([entry.version for entry in again.get_history()], again.latest_version()) == ([2, 1, 0], 2)
    assert store.lists == []


def test_history_has_every_field_and_versions_newest_first() -> None:
    first = commit_info("CREATE TABLE", userName="ada", tags={"a": "b"}, unheard={"of": 1})
    second = commit_info(
        "MERGE", operationParameters={"predicate": "[]", "n": 3}, operationMetrics={"numOutputRows": "7"},
        readVersion=0, isolationLevel="Serializable", isBlindAppend=False, engineInfo="e", txnId="t",
    )  # fmt: skip
    newest, oldest = manager_of((metadata(), first), (second, add("a"))).get_history()
    assert (newest.version, newest.operation, newest.read_version, newest.is_blind_append) == (1, "MERGE", 0, False)
    assert newest.operation_parameters == {"predicate": "[]", "n": "3"}
    assert newest.operation_metrics == {"numOutputRows": "7"}
    assert (oldest.version, oldest.timestamp, oldest.user_name) == (0, mtime_of(0), "ada")
    assert (oldest.tags, oldest.extra) == ({"a": "b"}, {"unheard": {"of": 1}})


def test_history_of_a_commit_without_commit_info_has_version_and_time() -> None:
    (entry,) = manager_of((metadata(), add("a", partitionValues={"commitInfo": "x"}))).get_history()
    assert (entry.version, entry.timestamp, entry.operation) == (0, FIRST_COMMIT_MS, None)


def test_history_range_includes_both_ends() -> None:
    manager = by_mtimes(1, 2, 3, 4, 5)
    assert [entry.version for entry in manager.get_history(start=1, end=3)] == [3, 2, 1]
    assert [entry.version for entry in manager.get_history(2, start=1, end=3)] == [3, 2]
    assert [entry.version for entry in manager.get_history(limit=0)] == []


def test_history_with_a_limit_costs_one_listing_and_the_requested_commits() -> None:
    store = CountingLogStore(log_with_mtimes(*range(1000)))
    assert len(DeltaHistoryManager(store, LOG_PATH, configuration=dict).get_history(limit=5)) == 5
    assert (len(store.lists), len(store.reads), store.calls) == (1, 5, 6)


def test_history_omits_a_commit_deleted_after_the_listing() -> None:
    store = MemoryLogStore()
    for version in range(3):
        store.put_commit(version, commit_info())
    del store.contents[commits(0, 0)[0].path]
    assert [entry.version for entry in DeltaHistoryManager(store, LOG_PATH).get_history()] == [2, 1]


@pytest.mark.parametrize("blanks", [b"", b"\n", b" \t\n\r\n"])
def test_blank_lines_before_a_commit_info_are_skipped(blanks: bytes) -> None:
    store = MemoryLogStore()
    store.put(commits(0, 0)[0].name, blanks + content([metadata()]) + blanks + content([commit_info("MERGE")]) + blanks)
    (entry,) = DeltaHistoryManager(store, LOG_PATH, configuration=dict).get_history()
    assert entry.operation == "MERGE"


@pytest.mark.parametrize(
    "line", [b'{"commitInfo":{"operation"', b'{"commitInfo":[1]}', b'{"commitInfo":{"operation":"\xff"}}']
)
def test_history_names_the_broken_line(line: bytes) -> None:
    store = MemoryLogStore()
    store.put_commit(0, metadata())
    store.put(commits(1, 1)[0].name, b'{"add":{}}\n\n' + line + b"\n")
    with pytest.raises(CorruptLogError) as error:
        DeltaHistoryManager(store, LOG_PATH, configuration=dict).get_history()
    assert (error.value.path, error.value.line) == (commits(1, 1)[0].path, 3)


def test_history_finds_the_commit_info_of_a_large_commit(tmp_path: Path) -> None:
    large = [add(f"file-{n:06d}" + "x" * 200) for n in range(5000)]
    log = write_log(tmp_path, {0: [*large, commit_info("WRITE \u2028 twice")], 1: [commit_info("DELETE"), *large]})
    history = DeltaHistoryManager(FsspecLogStore(), to_url(log)).get_history()
    assert [(entry.version, entry.operation) for entry in history] == [(1, "DELETE"), (0, "WRITE \u2028 twice")]


@pytest.mark.slow
def test_history_of_every_golden_table_agrees_with_its_versions(golden: Path) -> None:
    tables = 0
    for expected_file in sorted((golden / "expected").glob("*.json")):
        expected = json.loads(expected_file.read_text())
        if "error" in expected["latest"] and expected["latest"]["error"] == "no_table":
            continue
        log = golden / "tables" / expected_file.stem / "_delta_log"
        manager = DeltaHistoryManager(FsspecLogStore(), to_url(log))
        recreatable = set(manager.reconstructable_versions())
        assert set(expected["all_versions"]) <= recreatable, expected_file.stem
        in_commit = {int(v): s["in_commit_timestamp"] for v, s in expected["versions"].items() if "error" not in s}
        reported = {v: t for v, t in in_commit.items() if t is not None}
        timestamps = manager.commit_timestamps()
        assert {v: timestamps[v] for v in reported if v in timestamps} == {
            v: t for v, t in reported.items() if v in timestamps
        }
        tables += 1
    assert tables >= 162


@pytest.mark.parametrize("broken", [2, 4])
def test_damaged_commit_does_not_hide_other_commits(broken: int) -> None:
    store = log_of((commit_info(), metadata()), *((commit_info(),) for _ in range(4)))
    store.put(commit_file(broken), b"{nope")
    manager = DeltaHistoryManager(store, LOG_PATH)
    others = [range(broken), range(broken + 1, 5)]
    found = [entry.version for each in others if each for entry in manager.get_history(start=each[0], end=each[-1])]
    assert sorted(found) == [version for version in range(5) if version != broken]


@pytest.mark.parametrize("lines", [1, 8])
def test_history_of_small_commits_without_info_parses_their_lines(monkeypatch: pytest.MonkeyPatch, lines: int) -> None:
    manager = manager_of(*[(*[add(f"{n}") for n in range(lines)],) for _ in range(3)])
    monkeypatch.setattr(commit_scan, "_tables", lambda *_: pytest.fail("parsed a whole commit"))
    assert [entry.version for entry in manager.get_history()] == [2, 1, 0]


def test_history_finds_a_commit_info_after_the_first_lines() -> None:
    (entry,) = manager_of((*[add(f"{n}") for n in range(8)], commit_info("WRITE"))).get_history()
    assert entry.operation == "WRITE"


@pytest.mark.parametrize("blank", [b"", b"\n" * 9])
def test_long_commit_without_commit_info_is_in_the_history(blank: bytes) -> None:
    store = log_of((metadata(),), (commit_info("WRITE"),))
    store.put(commit_file(0), blank + content([add(f"{n}") for n in range(9)]))
    history = DeltaHistoryManager(store, LOG_PATH).get_history()
    assert [(entry.version, entry.operation) for entry in history] == [(1, "WRITE"), (0, None)]


@pytest.mark.parametrize("suffix", ["", "-preview"])
def test_history_has_the_same_times_after_the_commit_with_metadata_was_cleaned_up(suffix: str, tmp_path: Path) -> None:
    enabled = {f"delta.enableInCommitTimestamps{suffix}": "true"}
    first = [protocol(1, 7, writerFeatures=[f"inCommitTimestamp{suffix}"]), metadata(configuration=enabled)]
    of = [[commit_info(inCommitTimestamp=mtime_of(v) - 30_000), *(first if v == 0 else [])] for v in range(4)]
    log = write_log(tmp_path / "t", dict(enumerate(of)))
    times = {v: mtime_of(v) - (0 if suffix else 30_000) for v in range(4)}
    manager = DeltaHistoryManager(FsspecLogStore(), to_url(log))
    assert {entry.version: entry.timestamp for entry in manager.get_history()} == times
    write_checkpoint(log, 2, "classic", first)
    for version in (0, 1):
        (log / commit_file(version)).unlink()
    assert {entry.version: entry.timestamp for entry in manager.get_history()} == {v: times[v] for v in (2, 3)}
