from __future__ import annotations

from deltasnap_assets.settings.config import CheckSettings
from deltasnap_assets.tables.checks.expectations import (
    checkpoint_lag,
    checksum_agrees,
    small_files,
    tombstone_ratio,
)
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.file_size_histogram import FileSizeHistogram
from deltasnap_core.snapshot.checksum_validation import ChecksumDifference
from tests.assets.tables.test_metadata import state
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint, commits

MIB = 1024 * 1024


def test_checkpoint_may_lag_up_to_the_limit() -> None:
    store = MemoryLogStore(commits(0, 30), checkpoint(10))
    segment = LogSegmentBuilder(store=store, log_path=LOG_PATH).build()
    assert checkpoint_lag(segment, CheckSettings(max_commits_since_checkpoint=20)).passed
    assert not checkpoint_lag(segment, CheckSettings(max_commits_since_checkpoint=19)).passed


def test_small_files_count_from_a_number_of_files_on() -> None:
    def verdict_of(small: int, large: int) -> bool:
        sizes = [MIB] * small + [100 * MIB] * large
        counted = state(num_of_files=len(sizes), file_size_histogram=FileSizeHistogram.of_sizes(sizes))
        return small_files(counted, CheckSettings()).passed

    assert verdict_of(10, 10)
    assert not verdict_of(11, 9)
    assert verdict_of(15, 0)


def test_tombstones_count_beside_files() -> None:
    limits = CheckSettings(max_tombstone_ratio=0.5)
    assert tombstone_ratio(state(num_of_files=20, num_of_removes=20), limits).passed
    verdict = tombstone_ratio(state(num_of_files=20, num_of_removes=60), limits)
    assert not verdict.passed
    assert verdict.description == "60 tombstones beside 20 files (75% of both, at most 50% expected)."


def test_checksums_that_contradict_the_log_are_named() -> None:
    assert checksum_agrees({}).description == "There are no checksums."
    assert checksum_agrees({1: (), 2: ()}).description == "The log agrees with 2 checksums."
    verdict = checksum_agrees({1: (), 2: (ChecksumDifference(field="num_files", in_checksum=3, in_log=4),)})
    assert (verdict.passed, verdict.is_error) == (False, True)
    assert verdict.description == "The log differs from 1 checksum: version 2: num_files."
