"""Building a segment: named cases, and counted storage requests."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

import pytest

from deltasnap_core import (
    CatalogCommits,
    DeltaTableNotFoundError,
    FileStatus,
    LogSegment,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from tests.builders import (
    LOG_PATH,
    TABLE_PATH,
    UUIDS,
    CountingLogStore,
    MemoryLogStore,
    checkpoint,
    checksum,
    commits,
    compaction,
    staged_commits,
    status,
    uuid_checkpoint,
)

EMPTY = checkpoint(2)[0].name


def store_of(*files: Iterable[FileStatus]) -> CountingLogStore:
    return CountingLogStore(MemoryLogStore(*files))


def builder_of(*files: Iterable[FileStatus]) -> LogSegmentBuilder:
    return LogSegmentBuilder(store_of(*files), LOG_PATH)


def hint(version: int, parts: int | None = None) -> LastCheckpointInfo:
    return LastCheckpointInfo(version=version, parts=parts)


def shape(segment: LogSegment) -> tuple[int, list[int]]:
    """Version of the checkpoint (-1: none) and of each commit."""
    return segment.checkpoint_provider.version, [commit_version(file.path) for file in segment.deltas]


def segment_cost(store: CountingLogStore) -> tuple[int, int]:
    return len(store.lists), store.calls - len(store.lists)


@pytest.mark.parametrize(
    ("files", "version", "expected"),
    [
        pytest.param([commits(0, 3)], None, (-1, [0, 1, 2, 3]), id="commits alone"),
        pytest.param([commits(0, 3)], 1, (-1, [0, 1]), id="an earlier version"),
        pytest.param([commits(0, 3), checkpoint(2)], None, (2, [3]), id="a checkpoint"),
        pytest.param([commits(0, 3), checkpoint(2)], 2, (2, []), id="at the checkpoint"),
        pytest.param([commits(0, 3), checkpoint(2)], 1, (-1, [0, 1]), id="below the checkpoint"),
        pytest.param([commits(0, 5), checkpoint(2), checkpoint(4)], 3, (2, [3]), id="the nearest of two"),
        pytest.param([commits(5, 6), checkpoint(5)], 6, (5, [6]), id="log cleaned up to its checkpoint"),
        pytest.param([commits(6, 7), checkpoint(5)], 7, (5, [6, 7]), id="a checkpoint without its commit"),
        pytest.param([commits(0, 2), checkpoint(9)], None, (9, []), id="an orphan newer checkpoint"),
        pytest.param([commits(0, 2), checkpoint(9)], 2, (-1, [0, 1, 2]), id="below an orphan newer checkpoint"),
        pytest.param([commits(0, 1), commits(3, 5), checkpoint(4)], None, (4, [5]), id="a gap before the checkpoint"),
        pytest.param([commits(0, 3), checkpoint(2, parts=3)], None, (2, [3]), id="all parts"),
        pytest.param([commits(0, 2), checkpoint(2, parts=3, missing=[2])], None, (-1, [0, 1, 2]), id="a part missing"),
        pytest.param([commits(0, 2), [status(EMPTY, size=0)]], None, (-1, [0, 1, 2]), id="an empty checkpoint"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("hint_version", [None, 0, 2, 4, 99])
def test_segment_starts_at_the_nearest_checkpoint_with_any_hint(
    files: list[list[FileStatus]], version: int | None, expected: tuple[int, list[int]], hint_version: int | None
) -> None:
    found = builder_of(*files).build(version, hint=None if hint_version is None else hint(hint_version))
    assert shape(found) == expected


def test_segment_lists_all_files_of_its_versions() -> None:
    builder = builder_of(
        commits(0, 9), checkpoint(4), compaction(3, 5), compaction(5, 7), compaction(7, 9), checksum(7), checksum(8)
    )
    found = builder.build(8)
    assert found.compactions == tuple(compaction(5, 7))
    assert found.checksum_file == checksum(8)[0]
    assert found.last_commit_file == commits(8, 8)[0]
    assert found.last_commit_timestamp == commits(8, 8)[0].modification_time


def test_segment_at_a_checkpoint_has_its_commit_or_the_time_of_the_checkpoint() -> None:
    assert builder_of(commits(0, 4), checkpoint(4)).build().last_commit_file == commits(4, 4)[0]
    alone = builder_of(checkpoint(4, parts=2)).build()
    assert (alone.last_commit_file, alone.last_commit_timestamp) == (None, checkpoint(4)[0].modification_time)


def test_best_of_several_checkpoints_at_one_version() -> None:
    files = [
        checkpoint(4),
        checkpoint(4, parts=2),
        uuid_checkpoint(4, uuid=UUIDS[1]),
        uuid_checkpoint(4, uuid=UUIDS[2]),
    ]
    builder = builder_of(commits(0, 4), *files)
    excluded: set[str] = set()
    taken = []
    while not (
        segment := replace(builder, exclude_checkpoints=frozenset(excluded)).build()
    ).checkpoint_provider.is_empty:
        taken.append(list(segment.checkpoint_provider.files))
        excluded.add(segment.checkpoint_provider.files[0].name)
    assert taken == [files[3], files[2], files[1], files[0]]
    assert shape(segment) == (-1, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("files", [[], [checksum(0)], [checkpoint(3, parts=2, missing=[1])]], ids=str)
@pytest.mark.parametrize("version", [None, 0, 3])
def test_no_table_without_commits_and_complete_checkpoints(files: list[list[FileStatus]], version: int | None) -> None:
    with pytest.raises(DeltaTableNotFoundError) as error:
        builder_of(*files).build(version, hint=hint(3))
    assert error.value.path == TABLE_PATH


@pytest.mark.parametrize(
    ("files", "version", "available"),
    [
        pytest.param([commits(0, 3)], 4, (0, 3), id="beyond the end"),
        pytest.param([commits(5, 9), checkpoint(6)], 4, (6, 9), id="below a truncated log"),
        pytest.param([commits(0, 3), commits(5, 6)], 4, (0, 6), id="the missing version itself"),
        pytest.param([commits(3, 5)], 7, (None, 5), id="nothing reconstructable"),
    ],
)
def test_unknown_version_is_rejected_with_the_range(
    files: list[list[FileStatus]], version: int, available: tuple[int | None, int]
) -> None:
    with pytest.raises(VersionNotFoundError) as error:
        builder_of(*files).build(version, hint=hint(2))
    assert (error.value.earliest, error.value.latest) == available


@pytest.mark.parametrize(
    ("files", "version", "missing"),
    [
        pytest.param([commits(0, 1), commits(3, 3), commits(6, 6)], None, (2, 4, 5), id="in the middle"),
        pytest.param([commits(1, 3)], None, (0,), id="at the start"),
        pytest.param([checkpoint(2), commits(4, 5)], None, (3,), id="after the checkpoint"),
        pytest.param([checkpoint(8), commits(6, 9)], 7, (0, 1, 2, 3, 4, 5), id="below a truncated log"),
    ],
)
def test_gap_names_its_versions(files: list[list[FileStatus]], version: int | None, missing: tuple[int, ...]) -> None:
    with pytest.raises(VersionGapError) as error:
        builder_of(*files).build(version)
    assert error.value.missing == missing


@pytest.mark.parametrize("version", [None, 12, 10])
def test_build_with_a_good_hint_costs_one_listing_from_there(version: int | None) -> None:
    store = store_of(commits(0, 12), checkpoint(10))
    LogSegmentBuilder(store, LOG_PATH).build(version, hint=hint(10))
    assert segment_cost(store) == (1, 0)
    assert min(store.listed) == checkpoint(10)[0].path


def test_build_far_from_any_hint_lists_the_neighbourhood_first() -> None:
    store = store_of(commits(0, 5000), checkpoint(3500), checkpoint(4900))
    assert shape(LogSegmentBuilder(store, LOG_PATH).build(4000, hint=hint(4900)))[0] == 3500
    assert segment_cost(store) == (1, 0)
    assert len(store.listed) < 1100


def test_build_with_an_invalid_hint_lists_again_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    store = store_of(commits(0, 12), checkpoint(10))
    with caplog.at_level(logging.WARNING):
        assert shape(LogSegmentBuilder(store, LOG_PATH).build(hint=hint(12))) == (10, [11, 12])
    assert segment_cost(store) == (2, 0)
    assert "there is no checkpoint at version" in caplog.text


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"size":1}', b'{"version":"x"}', b"\xff"])
def test_broken_hint_is_none_with_a_warning(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryLogStore(commits(0, 1))
    store.put("_last_checkpoint", content)
    with caplog.at_level(logging.WARNING):
        assert LogSegmentBuilder(store, LOG_PATH).read_hint() is None
    assert "_last_checkpoint" in caplog.text


def test_missing_hint_is_none_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert builder_of(commits(0, 1)).read_hint() is None
    assert caplog.text == ""


def test_update_of_an_unchanged_log_returns_an_equal_segment_for_one_listing() -> None:
    store = store_of(commits(0, 12), checkpoint(10), checksum(12))
    builder = LogSegmentBuilder(store, LOG_PATH)
    known = builder.build(hint=hint(10))
    store.reset()
    assert builder.update(known) == known
    assert segment_cost(store) == (1, 0)
    assert min(store.listed) == checkpoint(10)[0].path


def test_update_of_a_grown_log_continues_the_known_segment() -> None:
    files = MemoryLogStore(commits(0, 12), checkpoint(10))
    builder = LogSegmentBuilder(files, LOG_PATH)
    known = builder.build()
    files.statuses.update({file.path: file for file in commits(13, 14)})
    grown = builder.update(known)
    assert shape(grown) == (10, [11, 12, 13, 14])
    assert grown.continues(known)
    assert grown == builder.build()


def test_update_uses_a_new_checkpoint_unless_the_known_one_is_kept() -> None:
    files = MemoryLogStore(commits(0, 12), checkpoint(10))
    builder = LogSegmentBuilder(files, LOG_PATH)
    known = builder.build()
    files.statuses.update({file.path: file for file in [*commits(13, 14), *checkpoint(13)]})
    assert builder.update(known) == builder.build()
    assert not builder.update(known).continues(known)
    kept = builder.update(known, keep_checkpoint=True)
    assert (shape(kept), kept.continues(known)) == ((10, [11, 12, 13, 14]), True)
    files.delete(*checkpoint(10))
    assert shape(builder.update(known, keep_checkpoint=True)) == (13, [14])


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        pytest.param([commits(0, 3)], (-1, [0, 1, 2, 3]), id="recreated, shorter"),
        pytest.param([commits(0, 11), checkpoint(10)], (10, [11]), id="restored to an earlier version"),
        pytest.param([commits(13, 15), checkpoint(13)], (13, [14, 15]), id="cleaned up beyond the known checkpoint"),
        pytest.param([checkpoint(10), [status(f.name, mtime=1) for f in commits(11, 12)]], (10, [11, 12]), id="other"),
    ],
)  # fmt: skip
def test_update_of_another_log_starts_over(now: list[list[FileStatus]], expected: tuple[int, list[int]]) -> None:
    known = builder_of(commits(0, 12), checkpoint(10)).build()
    found = builder_of(*now).update(known)
    assert (shape(found), found.continues(known)) == (expected, False)


def test_update_of_a_dropped_table_is_rejected() -> None:
    known = builder_of(commits(0, 2)).build()
    with pytest.raises(DeltaTableNotFoundError):
        builder_of().update(known)


def test_log_tail_is_preferred_to_published_commits_and_ends_at_the_version_of_the_catalog() -> None:
    builder = builder_of(commits(0, 6), checkpoint(2))
    tail = staged_commits(4, 5)
    catalog = CatalogCommits(log_tail=tuple(tail), max_version=5)
    found = replace(builder, catalog=catalog).build()
    assert found.deltas == (*commits(3, 3), *tail)
    assert found.last_commit_file == tail[1]
    with pytest.raises(VersionNotFoundError):
        replace(builder, catalog=catalog).build(6)
    with pytest.raises(VersionNotFoundError) as error:
        replace(builder, catalog=CatalogCommits(log_tail=tuple(tail), max_version=8)).build()
    assert (error.value.version, error.value.latest) == (8, 6)


def test_hint_beyond_the_version_of_the_catalog_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    builder = builder_of(commits(0, 9), checkpoint(2), checkpoint(9))
    assert shape(replace(builder, catalog=CatalogCommits(max_version=5)).build(hint=hint(9))) == (2, [3, 4, 5])
    assert shape(replace(builder, catalog=CatalogCommits(max_version=5)).update(builder.build())) == (2, [3, 4, 5])
    assert caplog.messages == []  # the hint is right, and the known checkpoint exists


def test_log_tail_outside_the_requested_versions_is_ignored() -> None:
    builder = builder_of(commits(0, 6), checkpoint(4))
    catalog = CatalogCommits(log_tail=tuple(staged_commits(1, 9)), max_version=9)
    assert replace(builder, catalog=catalog).build(2).deltas == (*commits(0, 0), *staged_commits(1, 2))
    at_the_checkpoint = replace(builder, catalog=catalog).build(4, hint=hint(4))
    assert (at_the_checkpoint.deltas, at_the_checkpoint.last_commit_file) == ((), staged_commits(4, 4)[0])
    beyond = CatalogCommits(log_tail=tuple(staged_commits(7, 9)), max_version=7)
    assert replace(builder, catalog=beyond).build().deltas == (*commits(5, 6), *staged_commits(7, 7))


@pytest.mark.parametrize(
    "tail",
    [
        pytest.param([*staged_commits(3, 3), *staged_commits(5, 5)], id="gap"),
        pytest.param([*staged_commits(4, 4), *staged_commits(3, 3)], id="descending"),
        pytest.param([*staged_commits(3, 3), *commits(3, 3)], id="twice"),
        pytest.param(checkpoint(3), id="kind"),
    ],
)
def test_broken_log_tail_is_a_value_error(tail: list[FileStatus]) -> None:
    with pytest.raises(ValueError, match="log tail"):
        CatalogCommits(log_tail=tuple(tail), max_version=5)


def test_known_checkpoint_at_the_version_of_the_catalog_is_kept() -> None:
    builder = builder_of(commits(0, 6), checkpoint(5), uuid_checkpoint(5))
    classic = replace(builder, exclude_checkpoints=frozenset({uuid_checkpoint(5)[0].name})).build(5)
    kept = replace(builder, catalog=CatalogCommits(max_version=5)).update(classic, keep_checkpoint=True)
    assert (kept.checkpoint_provider, kept.deltas) == (classic.checkpoint_provider, ())


def test_versions_of_a_range_come_from_one_listing_that_starts_at_a_checkpoint_before_them() -> None:
    store = store_of(commits(0, 3000), checkpoint(1990))
    builder = LogSegmentBuilder(store, LOG_PATH)
    listing = builder.list_versions(2000, 2003)
    assert [shape(builder.segment_of(listing, v)) for v in (2000, 2003)] == [
        (1990, list(range(1991, 2001))),
        (1990, list(range(1991, 2004))),
    ]
    assert segment_cost(store) == (1, 0)


def test_versions_of_a_range_far_from_any_checkpoint_cost_a_second_listing() -> None:
    store = store_of(commits(0, 1500))
    builder = LogSegmentBuilder(store, LOG_PATH)
    assert shape(builder.segment_of(builder.list_versions(1400, 1401), 1401)) == (-1, list(range(1402)))
    assert segment_cost(store) == (2, 0)


@pytest.mark.parametrize("hint_version", [50, 2**63 - 1])
def test_hint_to_versions_removed_by_a_rollback_is_ignored(hint_version: int, caplog: pytest.LogCaptureFixture) -> None:
    builder = builder_of(commits(0, 40), checkpoint(30))
    assert shape(builder.build(hint=hint(hint_version))) == (30, list(range(31, 41)))
    assert "there is no checkpoint at version" in caplog.text


def test_update_after_a_rollback_beyond_the_known_checkpoint_starts_from_an_older_one() -> None:
    known = builder_of(commits(0, 50), checkpoint(30), checkpoint(50)).build()
    found = builder_of(commits(0, 40), checkpoint(30)).update(known)
    assert (shape(found), found.continues(known)) == ((30, list(range(31, 41))), False)


def test_restored_log_with_older_later_commits_is_a_different_log() -> None:
    known = builder_of(commits(0, 5)).build()
    rewritten = [status(file.name, mtime=file.modification_time - 10**9) for file in commits(3, 7)]
    found = builder_of(commits(0, 2), rewritten).update(known)
    assert (shape(found), found.continues(known)) == ((-1, list(range(8))), False)
    assert found.deltas[3:] == tuple(rewritten)


@pytest.mark.parametrize("version", [2**31, 2**53, 2**63 - 1])
def test_gap_of_any_width_costs_nothing(version: int) -> None:
    builder = builder_of(commits(0, 3), commits(version, version))
    with pytest.raises(VersionGapError) as error:
        builder.build()
    assert error.value.missing.runs == ((4, version - 1),)
    assert shape(builder.build(3)) == (-1, [0, 1, 2, 3])
    with pytest.raises(VersionNotFoundError) as beyond:
        builder.build(4)
    assert (beyond.value.earliest, beyond.value.latest) == (0, version)


@pytest.mark.parametrize("version", [2**31, 2**53, 2**63 - 1])
def test_log_that_starts_at_a_large_version_is_read_from_its_checkpoint(version: int) -> None:
    builder = builder_of(checkpoint(version - 1), commits(version - 1, version))
    assert shape(builder.build()) == (version - 1, [version])
    assert builder.build().last_commit_file == commits(version, version)[0]
