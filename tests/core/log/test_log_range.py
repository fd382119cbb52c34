from __future__ import annotations

from pathlib import Path

import pytest

from deltasnap_core import (
    ActionNotFoundError,
    DeltaTableNotFoundError,
    TableLog,
    UnsupportedProtocolError,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.listing.changing_log import list_again
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.non_file_actions import NonFileActions
from tests.builders import (
    LOG_PATH,
    CountingLogStore,
    MemoryLogStore,
    add,
    checkpoint,
    commits,
    metadata,
    protocol,
    write_log,
)


def counted(*files: object) -> tuple[CountingLogStore, TableLog]:
    store = CountingLogStore(MemoryLogStore(*files))  # type: ignore[arg-type]
    return store, TableLog(store, LOG_PATH)


def test_range_costs_one_listing_and_its_segments_match_the_builder() -> None:
    store, log = counted(commits(0, 30), checkpoint(10), checkpoint(20))
    found = log.range(5, 25)
    assert len(store.lists) == 1
    builder = LogSegmentBuilder(store=store, log_path=LOG_PATH)
    assert list(found.segments()) == list(range(5, 26))
    for version in (5, 9, 10, 19, 20, 25):
        assert found.segment(version) == builder.build(version)


def test_version_within_a_range_that_needs_an_unknown_feature_is_rejected(tmp_path: Path) -> None:
    unknown = protocol(3, 7, readerFeatures=["fromTheFuture"], writerFeatures=["fromTheFuture"])
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [unknown], 2: [protocol()], 3: [add("a")]})
    logged = TableLog.for_path(tmp_path).range(0, 3)
    with pytest.raises(UnsupportedProtocolError, match="fromTheFuture"):
        logged.non_file_actions(NonFileActions(), logged.read_commits(0, 3), 0, 3)


def test_range_after_actions_that_are_missing_is_rejected_at_its_first_version(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [add("a")], 2: [add("b")]})
    logged = TableLog.for_path(tmp_path).range(1, 2)
    batch = logged.read_commits(1, 2)
    with pytest.raises(ActionNotFoundError) as raised:
        logged.non_file_actions(NonFileActions(), batch, 1, 2)  # as after a checkpoint without them
    assert raised.value.version == 1


def test_commit_within_a_range_that_names_a_manifest_is_rejected(tmp_path: Path) -> None:
    write_log(tmp_path, {0: [protocol(), metadata()], 1: [{"checkpoint": {"path": "manifest"}}], 2: [add("a")]})
    logged = TableLog.for_path(tmp_path).range(0, 2)
    with pytest.raises(UnsupportedProtocolError, match="adaptiveMetadata"):
        logged.non_file_actions(NonFileActions(), logged.read_commits(0, 2), 0, 2)


def test_listing_starts_a_thousand_versions_earlier_and_further_back_only_without_a_checkpoint() -> None:
    store, log = counted(commits(0, 1500), checkpoint(900))
    listing = log.builder.list_versions(1400)
    assert (listing.first, listing.latest_version, len(store.lists)) == (400, 1500, 1)
    store, log = counted(commits(0, 1500))
    assert log.builder.list_versions(1400).first == 0
    assert len(store.lists) == 2


def test_listing_reaches_back_to_its_first_checkpoint() -> None:
    _, log = counted(commits(0, 1500), checkpoint(900))
    listing = log.builder.list_versions(1400)
    assert [listing.reaches_back(version) for version in (300, 899, 900, 1400)] == [False, False, True, True]
    assert log.builder.list_versions(3).reaches_back(0)


def test_unknown_versions_are_reported_with_existing_ones() -> None:
    _, log = counted(commits(0, 4))
    with pytest.raises(VersionNotFoundError) as error:
        log.range(3, 6)
    assert (error.value.version, error.value.earliest, error.value.latest) == (5, 0, 4)


def test_missing_commit_within_a_range_is_reported() -> None:
    _, log = counted(commits(0, 2), commits(4, 6))
    with pytest.raises((VersionGapError, VersionNotFoundError)):
        log.range(1, 6)


def test_folder_without_a_log_is_reported_and_listed_again_as_empty() -> None:
    _, log = counted(commits(0, 4))
    listing = log.builder.list_versions(0)
    _, gone = counted()
    with pytest.raises(DeltaTableNotFoundError):
        gone.builder.list_versions(0)
    assert list_again(gone.store, listing).latest_version is None
    assert list_again(log.store, listing) == listing


def test_range_of_a_listing_needs_no_further_request() -> None:
    store, log = counted(commits(0, 9), checkpoint(5))
    listing = log.builder.list_versions(0)
    store.reset()
    log.range(2, 9, listing)
    assert store.calls == 0
