"""The version at a time, the history, and the versions that can be reconstructed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists

from deltasnap_core.errors import (
    CorruptLogError,
    DeltaTableNotFoundError,
    TimestampNotFoundError,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.commits import commit_scan
from deltasnap_core.log.history.delta_history_manager import DeltaHistoryManager
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.protocol.log_files.file_names import checksum_file, commit_file
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import to_url
from tests.builders import (
    FIRST_COMMIT_MS,
    LOG_PATH,
    TABLE_PATH,
    Action,
    CountingLogStore,
    MemoryLogStore,
    add,
    checkpoint,
    commit_info,
    commits,
    content,
    metadata,
    mtime_of,
    write_log,
)

ENABLED = {"delta.enableInCommitTimestamps": "true"}


def log_of(*actions: tuple[Action, ...], mtimes: dict[int, int] | None = None) -> MemoryLogStore:
    """A log with one commit for each tuple, from version 0 on."""
    store = MemoryLogStore()
    for version, commit in enumerate(actions):
        store.put_commit(version, *commit, mtime=(mtimes or {}).get(version))
    return store


def manager_of(*actions: tuple[Action, ...], mtimes: dict[int, int] | None = None) -> DeltaHistoryManager:
    return DeltaHistoryManager(log_of(*actions, mtimes=mtimes), LOG_PATH)


def log_with_mtimes(*mtimes: int) -> MemoryLogStore:
    return log_of(*[(commit_info(),) for _ in mtimes], mtimes=dict(enumerate(mtimes)))


def by_mtimes(*mtimes: int) -> DeltaHistoryManager:
    return DeltaHistoryManager(log_with_mtimes(*mtimes), LOG_PATH)


def log_enabled_at_2() -> MemoryLogStore:
    """In-commit timestamps enabled by version 2; the timestamp in version 1 is ignored."""
    since = {**ENABLED, "delta.inCommitTimestampEnablementVersion": "2"}
    since |= {"delta.inCommitTimestampEnablementTimestamp": "5000"}
    return log_of(
        (commit_info(), metadata()),
        (commit_info(inCommitTimestamp=9_999_999),),
        (commit_info(inCommitTimestamp=5000), metadata(configuration=since)),
        (commit_info(inCommitTimestamp=6000),),
        (commit_info(inCommitTimestamp=7000),),
        mtimes={0: 1000, 1: 2000, 2: 90_000, 3: 80_000, 4: 70_000},
    )


def enabled_at_2() -> DeltaHistoryManager:
    return DeltaHistoryManager(log_enabled_at_2(), LOG_PATH)


def test_timestamps_by_modification_time_are_adjusted_to_increase_strictly() -> None:
    manager = by_mtimes(0, 5, 10, 7, 8, 14, 14)
    assert manager.commit_timestamps() == {0: 0, 1: 5, 2: 10, 3: 11, 4: 12, 5: 14, 6: 15}
    assert manager.commit_timestamps(3, 4) == {3: 11, 4: 12}
    assert [entry.timestamp for entry in manager.get_history(limit=3)] == [15, 14, 12]


@pytest.mark.parametrize(("limit", "versions"), [(0, []), (1, [2]), (2**70, [2, 1, 0]), (None, [2, 1, 0])])
def test_history_has_the_requested_number_of_commits(limit: int | None, versions: list[int]) -> None:
    assert [entry.version for entry in by_mtimes(0, 1, 2).get_history(limit)] == versions


def test_timestamps_in_the_commits_count_only_from_the_enabling_version() -> None:
    manager = enabled_at_2()
    assert manager.commit_timestamps() == {0: 1000, 1: 2000, 2: 5000, 3: 6000, 4: 7000}
    assert [entry.timestamp for entry in manager.get_history()] == [7000, 6000, 5000, 2000, 1000]


@pytest.mark.parametrize(
    ("timestamp", "version"),
    [(1000, 0), (1999, 0), (2000, 1), (4999, 1), (5000, 2), (6500, 3), (7000, 4)],
)
def test_time_travel_across_the_enabling_version(timestamp: int, version: int) -> None:
    assert enabled_at_2().get_active_commit_at_time(timestamp).version == version


def own_times(*times: int, **configuration: str) -> DeltaHistoryManager:
    """In-commit timestamps of versions from 0 on; those that count are in the properties of the last version."""
    enabled = metadata(configuration={**ENABLED, **{f"delta.{key}": value for key, value in configuration.items()}})
    *earlier, last = [commit_info(inCommitTimestamp=time) for time in times]
    return manager_of(*[(info,) for info in earlier], (last, enabled), mtimes=dict(enumerate(range(len(times)))))


def test_a_time_before_the_first_timestamp_of_the_commits_is_never_an_earlier_version() -> None:
    since = {"inCommitTimestampEnablementVersion": "2", "inCommitTimestampEnablementTimestamp": "10"}
    manager = own_times(0, 0, 5000, 6000, **since)
    with pytest.raises(TimestampNotFoundError):
        manager.get_active_commit_at_time(50)
    assert manager.get_active_commit_at_time(50, can_return_earliest_commit=True).version == 2


@pytest.mark.parametrize(("timestamp", "version"), [(1, 1), (4999, 1), (5000, 2), (6000, 3)])
def test_the_enabling_commit_tells_its_time_if_the_properties_do_not(timestamp: int, version: int) -> None:
    manager = own_times(0, 0, 5000, 6000, inCommitTimestampEnablementVersion="2")
    assert manager.get_active_commit_at_time(timestamp).version == version


@pytest.mark.parametrize(
    ("times", "timestamp"),
    [((100, 300, 200, 400, 500), 250), ((100, 300, 200, 400, 500), 150), ((100, 200, 300, 50, 500), 350)],
)
def test_time_travel_that_meets_decreasing_timestamps_is_an_error(times: tuple[int, ...], timestamp: int) -> None:
    with pytest.raises(CorruptLogError, match="expected an in-commit timestamp that is not before"):
        own_times(*times).get_active_commit_at_time(timestamp)


@given(times=lists(integers(0, 40), min_size=1, max_size=12), since=integers(0, 12), timestamp=integers(0, 45))
def test_time_travel_agrees_with_a_linear_search(times: list[int], since: int, timestamp: int) -> None:
    ascending = sorted(times)
    since = since if since < len(times) else 0
    enabling = {"Version": str(since), "Timestamp": str(ascending[since])} if since else {}
    manager = own_times(*ascending, **{f"inCommitTimestampEnablement{key}": each for key, each in enabling.items()})
    first, last = (since, len(times)) if not since or ascending[since] <= timestamp else (0, since)
    known = manager.commit_timestamps()
    expected = max((version for version in range(first, last) if known[version] <= timestamp), default=None)
    try:
        found = manager.get_active_commit_at_time(timestamp, can_return_last_commit=True).version
    except TimestampNotFoundError:
        assert expected is None
    else:
        assert found == expected


def test_commit_that_vanishes_between_listing_and_reading_is_named() -> None:
    store = log_enabled_at_2()
    listing = list_log(store, LOG_PATH)
    store.delete(listing.commits[3])
    with pytest.raises(CorruptLogError, match=commit_file(3)):
        DeltaHistoryManager(store, LOG_PATH, listing=listing).get_active_commit_at_time(6500)


def test_timestamps_enabled_from_the_start_have_no_enabling_version() -> None:
    manager = manager_of(
        (commit_info(inCommitTimestamp=100), metadata(configuration=ENABLED)), (commit_info(inCommitTimestamp=200),)
    )
    assert manager.commit_timestamps() == {0: 100, 1: 200}
    assert manager.get_active_commit_at_time(150).version == 0


def test_timestamps_enabled_before_the_first_existing_commit_count() -> None:
    manager = manager_of((commit_info(inCommitTimestamp=100),), (commit_info(inCommitTimestamp=200),))
    assert manager.commit_timestamps() == {0: 100, 1: 200}


def test_timestamps_no_longer_enabled_do_not_count() -> None:
    manager = manager_of(
        (commit_info(inCommitTimestamp=100), metadata(configuration=ENABLED)), (commit_info(), metadata())
    )
    assert manager.commit_timestamps() == {0: mtime_of(0), 1: mtime_of(1)}


def test_enabling_version_comes_from_the_checksum_file_if_it_exists() -> None:
    log = log_enabled_at_2()
    crc = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1, "setTransactions": []}
    crc |= {"metadata": metadata(configuration=ENABLED)["metaData"]}
    crc |= {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    log.put(checksum_file(4), json.dumps(crc).encode())
    store = CountingLogStore(log)
    assert DeltaHistoryManager(store, LOG_PATH).commit_timestamps(4) == {4: 7000}
    assert len(store.reads) == 2, "the checksum file of the latest commit, and the one commit asked for"


def test_known_properties_are_not_queried() -> None:
    store = CountingLogStore(log_enabled_at_2())
    known = DeltaHistoryManager(store, LOG_PATH, configuration=lambda: ENABLED)
    assert known.commit_timestamps(3) == {3: 6000, 4: 7000}
    assert len(store.reads) == 2
    assert DeltaHistoryManager(store, LOG_PATH, configuration=dict).commit_timestamps(0, 1) == {0: 1000, 1: 2000}


def test_latest_commit_without_the_timestamp_required_by_its_checksum_file_is_corrupt() -> None:
    store = log_of((commit_info(inCommitTimestamp=100), metadata(configuration=ENABLED)), (commit_info(),))
    crc = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1}
    crc |= {"metadata": metadata(configuration=ENABLED)["metaData"]}
    store.put(checksum_file(1), json.dumps(crc).encode())
    with pytest.raises(CorruptLogError) as error:
        DeltaHistoryManager(store, LOG_PATH).commit_timestamps()
    assert error.value.path == commits(1, 1)[0].path


def test_history_of_a_listing_lists_nothing() -> None:
    log = log_with_mtimes(1, 2, 3)
    listing, store = list_log(log, LOG_PATH), CountingLogStore(log)
    again = DeltaHistoryManager(store, LOG_PATH, listing=listing)
    assert ([entry.version for entry in again.get_history()], again.latest_version()) == ([2, 1, 0], 2)
    assert store.lists == []


def test_versions_of_a_log_with_a_63_bit_version_cost_only_existing_files() -> None:
    great = 2**63 - 1
    manager = DeltaHistoryManager(MemoryLogStore(commits(0, 2), commits(great, great)), LOG_PATH, configuration=dict)
    assert manager.reconstructable_versions() == (0, 1, 2)
    assert (manager.earliest_recreatable_version(), manager.latest_version()) == (0, great)
    assert list(manager.commit_timestamps()) == [0, 1, 2, great]
    alone = DeltaHistoryManager(MemoryLogStore(commits(great, great)), LOG_PATH)
    with pytest.raises(VersionGapError) as error:
        alone.earliest_recreatable_version()
    assert error.value.missing.runs == ((0, great - 1),)


def test_commit_without_the_timestamp_it_must_have_is_corrupt() -> None:
    manager = manager_of(
        (commit_info(inCommitTimestamp=100), metadata(configuration=ENABLED)),
        (add("a"),),
        (commit_info(inCommitTimestamp=300),),
    )
    with pytest.raises(CorruptLogError) as error:
        manager.commit_timestamps()
    assert error.value.path == commits(1, 1)[0].path


@pytest.mark.parametrize(
    ("timestamp", "options", "expected"),
    [
        pytest.param(200, {}, 1, id="exactly"),
        pytest.param(250, {}, 1, id="between"),
        pytest.param(300, {}, 2, id="exactly the last"),
        pytest.param(301, {}, None, id="after the last"),
        pytest.param(301, {"can_return_last_commit": True}, 2, id="after the last, allowed"),
        pytest.param(99, {}, None, id="before the first"),
        pytest.param(99, {"can_return_last_commit": True}, None, id="before the first, the last allowed"),
        pytest.param(99, {"can_return_earliest_commit": True}, 0, id="before the first, allowed"),
    ],
)
def test_time_means_the_last_commit_at_or_before_it(
    timestamp: int, options: dict[str, bool], expected: int | None
) -> None:
    manager = by_mtimes(100, 200, 300)
    if expected is not None:
        assert manager.get_active_commit_at_time(timestamp, **options).version == expected
        return
    with pytest.raises(TimestampNotFoundError) as error:
        manager.get_active_commit_at_time(timestamp, **options)
    assert (error.value.timestamp_ms, error.value.earliest_ms, error.value.latest_ms) == (timestamp, 100, 300)


def truncated() -> DeltaHistoryManager:
    return DeltaHistoryManager(MemoryLogStore(commits(3, 9), checkpoint(5)), LOG_PATH, configuration=dict)


def test_versions_of_a_truncated_log() -> None:
    manager = truncated()
    assert (manager.earliest_version(), manager.earliest_recreatable_version(), manager.latest_version()) == (3, 5, 9)
    assert manager.reconstructable_versions() == (5, 6, 7, 8, 9)
    assert manager.get_active_commit_at_time(mtime_of(4), must_be_recreatable=False).version == 4
    with pytest.raises(TimestampNotFoundError) as error:
        manager.get_active_commit_at_time(mtime_of(4))
    assert error.value.earliest_ms == mtime_of(5)


@pytest.mark.parametrize(
    ("version", "options", "exists"),
    [
        (5, {}, True),
        (9, {}, True),
        (4, {}, False),
        (4, {"must_be_recreatable": False}, True),
        (2, {"must_be_recreatable": False}, False),
        (10, {}, False),
        (10, {"allow_out_of_range": True}, True),
    ],
)
def test_version_exists_within_the_range(version: int, options: dict[str, bool], exists: bool) -> None:
    if exists:
        truncated().check_version_exists(version, **options)
        return
    with pytest.raises(VersionNotFoundError) as error:
        truncated().check_version_exists(version, **options)
    assert (error.value.earliest, error.value.latest) == (5 if options == {} else 3, 9)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param([commits(0, 3)], (0, 1, 2, 3), id="whole"),
        pytest.param([commits(0, 1), commits(3, 6), checkpoint(5)], (0, 1, 5, 6), id="gap"),
        pytest.param([checkpoint(4), commits(5, 5)], (4, 5), id="checkpoint without its commit"),
        pytest.param([checkpoint(4, parts=2, missing=[2]), commits(4, 5)], (), id="incomplete checkpoint"),
    ],
)
def test_reconstructable_versions_have_a_checkpoint_or_all_their_commits(
    files: list[list[object]], expected: tuple[int, ...]
) -> None:
    assert DeltaHistoryManager(MemoryLogStore(*files), LOG_PATH).reconstructable_versions() == expected  # type: ignore[arg-type]


def test_log_without_recreatable_version_names_missing_versions() -> None:
    with pytest.raises(VersionGapError) as error:
        DeltaHistoryManager(MemoryLogStore(commits(2, 3), commits(5, 6)), LOG_PATH).earliest_recreatable_version()
    assert error.value.version == 6
    assert tuple(error.value.missing) == (0, 1, 4)


@pytest.mark.parametrize(
    "ask",
    [
        DeltaHistoryManager.get_history,
        DeltaHistoryManager.latest_version,
        DeltaHistoryManager.earliest_recreatable_version,
        lambda manager: manager.get_active_commit_at_time(0),
    ],
)
@pytest.mark.parametrize("store", [MemoryLogStore(), MemoryLogStore(checkpoint(1, parts=2, missing=[1]))])
def test_missing_table_has_no_history(store: MemoryLogStore, ask: Callable[[DeltaHistoryManager], object]) -> None:
    with pytest.raises(DeltaTableNotFoundError) as error:
        ask(DeltaHistoryManager(store, LOG_PATH))
    assert error.value.path == TABLE_PATH


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


def test_history_is_read_lazily() -> None:
    store = CountingLogStore(log_with_mtimes(*range(1000)))
    assert next(DeltaHistoryManager(store, LOG_PATH).iterate_history()).version == 999
    assert len(store.reads) < 500


def test_history_omits_a_commit_deleted_after_the_listing() -> None:
    store = MemoryLogStore()
    for version in range(3):
        store.put_commit(version, commit_info())
    del store.contents[commits(0, 0)[0].path]
    assert [entry.version for entry in DeltaHistoryManager(store, LOG_PATH).get_history()] == [2, 1]


@pytest.mark.parametrize("line", [b'{"commitInfo":{"operation"', b'{"commitInfo":[1]}'])
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


def test_earliest_version_of_a_log_without_commits_is_its_first_checkpoint() -> None:
    manager = DeltaHistoryManager(MemoryLogStore(checkpoint(5), checkpoint(9)), LOG_PATH, configuration=dict)
    assert (manager.earliest_version(), manager.latest_version()) == (5, 9)


@pytest.mark.parametrize("last", [[], [commit_info()], [add("a")]], ids=["empty", "without the time", "without info"])
def test_latest_commit_without_its_required_time_is_an_error(last: list[Action]) -> None:
    manager = manager_of(
        (commit_info(inCommitTimestamp=100), metadata(configuration=ENABLED)),
        (commit_info(inCommitTimestamp=200),),
        tuple(last),
    )
    with pytest.raises(CorruptLogError, match="inCommitTimestamp"):
        manager.get_history()
    assert manager.get_active_commit_at_time(150).version == 0


@pytest.mark.parametrize("broken", [2, 4])
def test_damaged_commit_does_not_hide_other_commits(broken: int) -> None:
    store = log_of((commit_info(), metadata()), *((commit_info(),) for _ in range(4)))
    store.put(commit_file(broken), b"{nope")
    manager = DeltaHistoryManager(store, LOG_PATH)
    others = [range(broken), range(broken + 1, 5)]
    found = [entry.version for each in others if each for entry in manager.get_history(start=each[0], end=each[-1])]
    assert sorted(found) == [version for version in range(5) if version != broken]


@pytest.mark.parametrize("lines", [1, 8])
def test_history_of_small_commits_without_commit_info_parses_only_their_lines(
    monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
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
