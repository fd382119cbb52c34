"""The next segment of a log, from one known before. Without Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

from deltasnap_core.errors import VersionNotFoundError
from deltasnap_core.log.listing.checkpoint_provider import NO_CHECKPOINT
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.snapshot.segment_refresh import next_segment, segment_after_commit
from deltasnap_core.storage.log_store import FileStatus
from tests.builders import LOG_PATH, CountingLogStore, MemoryLogStore, checkpoint, commits

NO_TABLE = LogSegment(
    log_path=LOG_PATH,
    version=-1,
    deltas=(),
    checkpoint_provider=NO_CHECKPOINT,
    last_commit_timestamp=-1,
)


def builder_of(*files: Iterable[FileStatus]) -> LogSegmentBuilder:
    return LogSegmentBuilder(CountingLogStore(MemoryLogStore(*files)), LOG_PATH)


@pytest.mark.parametrize(("following", "is_loaded", "start"), [(99, True, 1), (100, True, 50), (99, False, 50)])
def test_newer_checkpoint_replaces_a_loaded_one_only_after_a_hundred_commits(
    following: int, is_loaded: bool, start: int
) -> None:
    last = 1 + following
    known = builder_of(commits(0, last), checkpoint(1)).build()
    builder = builder_of(commits(0, last + 1), checkpoint(1), checkpoint(50))
    found = next_segment(builder, known, is_loaded=is_loaded)
    assert found is not None
    assert (found.version, found.checkpoint_provider.version) == (last + 1, start)


def test_segment_stays_the_same_object_until_the_log_changes() -> None:
    known = builder_of(commits(0, 3)).build()
    assert next_segment(builder_of(commits(0, 3)), known, is_loaded=True) is known
    shorter = next_segment(builder_of(commits(0, 2)), known, is_loaded=True)
    assert shorter is not None
    assert shorter.version == 2


def test_table_that_is_gone_has_no_segment(caplog: pytest.LogCaptureFixture) -> None:
    known = builder_of(commits(0, 3)).build()
    with caplog.at_level(logging.INFO):
        assert next_segment(builder_of(), known, is_loaded=True) is None
        assert next_segment(builder_of(), NO_TABLE, is_loaded=False) is None
    gone, never = caplog.messages
    assert gone == f"No delta log found for the Delta table at {LOG_PATH} any more"
    assert never == f"No delta log found for the Delta table at {LOG_PATH}"


def test_commit_after_the_known_segment_is_looked_up_without_a_listing() -> None:
    known, builder = builder_of(commits(0, 3)).build(), builder_of(commits(0, 4))
    store = builder.store
    assert isinstance(store, CountingLogStore)
    assert segment_after_commit(builder, 4, known, is_pre_commit=True) == builder_of(commits(0, 4)).build()
    assert (store.lists, len(store.statuses)) == ([], 1)
    assert segment_after_commit(builder, 4, known, is_pre_commit=False).version == 4
    assert (len(store.lists), len(store.statuses)) == (1, 1)


def test_commit_that_a_listing_does_not_show_is_an_error() -> None:
    known = builder_of(commits(0, 3)).build()
    with pytest.raises(VersionNotFoundError) as raised:
        segment_after_commit(builder_of(commits(0, 4)), 5, known, is_pre_commit=True)
    assert (raised.value.version, raised.value.latest) == (5, 4)
    assert segment_after_commit(builder_of(commits(0, 6)), 5, known, is_pre_commit=True).version == 6
