"""The version at a time, the history, and the versions that can be reconstructed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

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
from deltasnap_core.log.history.delta_history_manager import Commit, DeltaHistoryManager
from deltasnap_core.log.listing.log_listing import list_log
from deltasnap_core.protocol.log_files.file_names import checksum_file, commit_file
from tests.builders import (
    LOG_PATH,
    TABLE_PATH,
    Action,
    CountingLogStore,
    MemoryLogStore,
    add,
    checkpoint,
    commit_info,
    commits,
    metadata,
    mtime_of,
    protocol,
    timed_protocol,
)
from tests.core.log.history.delta_history_manager_builders import by_mtimes, log_of, log_with_mtimes, manager_of

ENABLED = {"delta.enableInCommitTimestamps": "true"}


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


def test_timestamps_in_the_commits_count_only_from_the_enabling_version() -> None:
    manager = enabled_at_2()
    assert manager.commit_timestamps() == {0: 1000, 1: 2000, 2: 5000, 3: 6000, 4: 7000}
    assert [entry.timestamp for entry in manager.get_history()] == [7000, 6000, 5000, 2000, 1000]


@pytest.mark.parametrize(
    ("timestamp", "version"), [(1000, 0), (1999, 0), (2000, 1), (4999, 1), (5000, 2), (6500, 3), (7000, 4)]
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
    [
        ((100, 300, 200, 400, 500), 250),
        ((100, 300, 200, 400, 500), 150),
        ((100, 200, 300, 50, 500), 350),
        ((300, 200, 400, 500, 600), 250),
    ],
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


def test_time_at_which_a_missing_commit_may_be_the_last_is_an_error() -> None:
    store = log_with_mtimes(1000, 2000, 3000, 4000)
    store.delete(store.statuses[f"{LOG_PATH}/{commit_file(2)}"])
    store.statuses |= {file.path: file for file in checkpoint(9)}
    history = DeltaHistoryManager(store, LOG_PATH, configuration=dict)
    assert history.get_active_commit_at_time(2000).version == 1
    for timestamp, version, missing in ((2001, 2, "version 2"), (4001, 4, "versions 4 to 9")):
        with pytest.raises(VersionGapError, match=rf"^Version {version} of .*{missing}"):
            history.get_active_commit_at_time(timestamp, can_return_last_commit=True, must_be_recreatable=False)


def test_time_travel_lists_again_if_a_commit_was_cleaned_up_before_it_was_read() -> None:
    store = log_enabled_at_2()
    since = {"delta.inCommitTimestampEnablementVersion": "2", "delta.inCommitTimestampEnablementTimestamp": "5000"}

    def cleaned_up() -> Mapping[str, str]:
        store.delete(*(file for file in commits(0, 3) if store.status(file.path)))
        return ENABLED | since

    history = DeltaHistoryManager(store, LOG_PATH, configuration=cleaned_up)
    found = history.get_active_commit_at_time(6500, must_be_recreatable=False, can_return_earliest_commit=True)
    assert found == Commit(version=4, timestamp=7000)


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


def test_timestamps_in_commits_do_not_count_if_the_protocol_lacks_their_feature() -> None:
    first = (protocol(1, 2), metadata(configuration=ENABLED), commit_info(inCommitTimestamp=100))
    manager = manager_of(first, (commit_info(inCommitTimestamp=200),))
    assert manager.commit_timestamps() == {0: mtime_of(0), 1: mtime_of(1)}


def test_enabling_version_comes_from_the_checksum_file_if_it_exists() -> None:
    log = log_enabled_at_2()
    crc = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1, "setTransactions": []}
    crc |= {"metadata": metadata(configuration=ENABLED)["metaData"], "inCommitTimestampOpt": 7000}
    crc |= timed_protocol()
    log.put(checksum_file(4), json.dumps(crc).encode())
    store = CountingLogStore(log)
    assert DeltaHistoryManager(store, LOG_PATH).commit_timestamps(4) == {4: 7000}
    assert len(store.reads) == 3, "the checksum file of the latest commit, that commit, and the one asked for"


@pytest.mark.parametrize("is_enabled", [False, True])
def test_checksum_file_that_the_latest_commit_contradicts_does_not_count(*, is_enabled: bool) -> None:
    configurations = [ENABLED, {}] if is_enabled else [{}, ENABLED]
    info = commit_info(inCommitTimestamp=100) if is_enabled else commit_info()
    store = log_of((info, metadata(configuration=configurations[0])))
    crc = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1, **timed_protocol()}
    crc |= {"metadata": metadata(configuration=configurations[1])["metaData"]}
    store.put(checksum_file(0), json.dumps(crc).encode())
    assert DeltaHistoryManager(store, LOG_PATH).commit_timestamps() == {0: 100 if is_enabled else mtime_of(0)}


def test_checksum_file_of_another_version_does_not_count() -> None:
    again = {"delta.inCommitTimestampEnablementVersion": "2", "delta.inCommitTimestampEnablementTimestamp": "300"}
    store = log_of(
        (commit_info(inCommitTimestamp=100), metadata(configuration=ENABLED)),
        (commit_info(), metadata()),
        (commit_info(inCommitTimestamp=300), metadata(configuration=ENABLED | again)),
    )
    crc = {"tableSizeBytes": 0, "numFiles": 0, "numMetadata": 1, "numProtocol": 1, **timed_protocol()}
    crc |= {"metadata": metadata(configuration=ENABLED)["metaData"], "inCommitTimestampOpt": 100}
    store.put(checksum_file(2), json.dumps(crc).encode())
    found = DeltaHistoryManager(store, LOG_PATH).commit_timestamps()
    assert found == {0: mtime_of(0), 1: mtime_of(1), 2: 300}


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
def test_time_means_the_commit_at_or_before_it(timestamp: int, options: dict[str, bool], expected: int | None) -> None:
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
def test_loadable_versions_have_a_checkpoint_or_all_commits(
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


def test_limit_of_the_history_is_the_number_of_its_entries() -> None:
    manager = by_mtimes(100, 200, 300)
    assert [[entry.version for entry in manager.get_history(limit)] for limit in (0, 1, 9)] == [[], [2], [2, 1, 0]]
    assert [entry.version for entry in manager.get_history(start=1, end=1)] == [1]
    with pytest.raises(ValueError, match="limit must be 0 or more, not -1"):
        manager.get_history(limit=-1)


def test_log_of_a_checkpoint_without_commits_has_no_time() -> None:
    manager = DeltaHistoryManager(MemoryLogStore(checkpoint(5)), LOG_PATH, configuration=dict)
    with pytest.raises(TimestampNotFoundError) as error:
        manager.get_active_commit_at_time(mtime_of(5))
    assert (error.value.earliest_ms, error.value.latest_ms) == (None, None)


def test_time_before_the_first_commit_with_a_state_is_none_of_the_commits_without_one() -> None:
    store = MemoryLogStore(checkpoint(2), commits(5, 6), checkpoint(6))
    manager = DeltaHistoryManager(store, LOG_PATH, configuration=dict)
    with pytest.raises(TimestampNotFoundError) as error:
        manager.get_active_commit_at_time(mtime_of(5))
    assert error.value.earliest_ms == mtime_of(6)
    assert manager.get_active_commit_at_time(mtime_of(5), can_return_earliest_commit=True).version == 6
    with pytest.raises(TimestampNotFoundError):
        DeltaHistoryManager(
            MemoryLogStore(checkpoint(2), commits(5, 6)), LOG_PATH, configuration=dict
        ).get_active_commit_at_time(mtime_of(6))


@pytest.mark.parametrize("metadata_line", [{"metaData": {"id": 1}}, {"metaData": {}}], ids=["mistyped", "empty"])
def test_damaged_metadata_is_named_if_it_decides_the_times(metadata_line: Action) -> None:
    manager = manager_of((commit_info(), metadata()), (commit_info(inCommitTimestamp=100), metadata_line))
    with pytest.raises(CorruptLogError) as error:
        manager.commit_timestamps()
    assert (error.value.path, error.value.line) == (commits(1, 1)[0].path, 2)


def test_latest_commit_decides_in_a_log_that_cannot_be_read() -> None:
    store = MemoryLogStore(commits(0, 1))  # without content
    store.put_commit(2, commit_info(inCommitTimestamp=7))
    store.delete(commits(1, 1)[0])
    assert DeltaHistoryManager(store, LOG_PATH).commit_timestamps(2) == {2: 7}
    store.put_commit(3, commit_info())
    assert DeltaHistoryManager(store, LOG_PATH).commit_timestamps(2) == {2: mtime_of(2), 3: mtime_of(3)}
