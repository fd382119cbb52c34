"""Facts about a table, as values, for the tests of checks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deltasnap_assets.checks.compaction import Compaction, PartitionFiles
from deltasnap_assets.checks.facts import CountedFiles, FileFacts, TombstoneFacts
from deltasnap_core import (
    LogSegment,
    Problem,
    ProblemKind,
    SnapshotState,
    TableCondition,
    VersionRanges,
    Where,
)
from deltasnap_core.log.commits.daily_rows import DailyRows
from deltasnap_core.log.listing.log_listing import LogListing, list_log
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.ranges import NO_VERSIONS
from deltasnap_core.support import ChecksumDifference, ColumnTrend
from tests.assets.tables.pages.metadata_builders import state
from tests.builders import LOG_PATH, MemoryLogStore, checkpoint, commits


def segment(first: int = 0, last: int = 12, at: int | None = 10) -> LogSegment:
    files = [commits(first, last), *([checkpoint(at)] if at is not None else [])]
    return LogSegmentBuilder(store=MemoryLogStore(*files), log_path=LOG_PATH).build()


def partitions(*sizes: int) -> FileFacts:
    """Return facts about live files with partitions of these sizes."""
    found = tuple(
        PartitionFiles(values={"day": str(number)}, num_files=1, size_in_bytes=size)
        for number, size in enumerate(sorted(sizes, reverse=True))
    )
    return FileFacts(
        largest=(),
        smallest=(),
        partitions=found,
        num_partitions=len(found),
        median_bytes=statistics.median(sizes) if sizes else None,
        compaction=None,
    )


def expired(num_files: int, size_in_bytes: int) -> TombstoneFacts:
    """Return facts about tombstones that have all expired."""
    return TombstoneFacts(
        num_files=num_files,
        size_in_bytes=size_in_bytes,
        num_without_size=0,
        first_expires_ms=0,
        last_expires_ms=0,
        num_expired=num_files,
        num_expired_without_size=0,
        expired_bytes=size_in_bytes,
    )


def counted(
    files: FileFacts | None = None, tombstones: TombstoneFacts | None = None, *, version: int = 12, bytes_: int = 60_516
) -> CountedFiles:
    """Return facts about the files of a version. By default, without partitions and tombstones."""
    return CountedFiles(
        version=version,
        generation="000001-t",
        counted_at_ms=0,
        size_in_bytes=bytes_,
        files=files or partitions(),
        tombstones=tombstones or expired(0, 0),
    )


@dataclass(frozen=True, kw_only=True)
class KnownPageFacts:
    """`PageFacts` as values. By default, of a table without partitions, and without tombstones."""

    state: SnapshotState = field(default_factory=state)
    segment: LogSegment = field(default_factory=segment)
    counted: CountedFiles = field(default_factory=counted)
    compaction: Compaction | None = None


def page_facts(
    files: FileFacts | None = None,
    *,
    tombstones: TombstoneFacts | None = None,
    compaction: Compaction | None = None,
    **changes: Any,
) -> KnownPageFacts:
    """Return the facts of a page. changes: of the computed state."""
    of_version = state(**changes)
    known = counted(files, tombstones, bytes_=of_version.size_in_bytes)
    return KnownPageFacts(state=of_version, counted=known, compaction=compaction)


def versions(first: int, last: int) -> VersionRanges:
    return VersionRanges(((first, last),))


def fault(
    kind: ProblemKind, at: VersionRanges = NO_VERSIONS, versions: VersionRanges = NO_VERSIONS, **facts: str
) -> Problem:
    """Return a problem with simple texts. at: where it is. versions: those that cannot be loaded."""
    texts = {"text": f"Problem {kind.value}.", "advice": f"Repair {kind.value}.", "reason": "", **facts}
    return Problem(kind=kind, where=Where(versions=at), versions=versions, facts=texts)


def condition(*faults: Problem, **values: Any) -> TableCondition:
    """Return the condition of a table with versions 0 to 5; without faults, all of them can be loaded."""
    return TableCondition(**{"table": "/t", "latest": 5, "loadable": versions(0, 5), "faults": faults, **values})


UNSUPPORTED = condition(
    fault(ProblemKind.UNSUPPORTED_PROTOCOL, versions=versions(4, 5)),
    loadable=versions(0, 3),
)
NO_TABLE = condition(fault(ProblemKind.NO_TABLE), latest=None, loadable=VersionRanges())


@dataclass(kw_only=True)
class KnownTableFacts:
    """`TableFacts` as values."""

    condition: TableCondition = field(default_factory=condition)
    checkpoint_known_sound: bool = False
    loadable_state: SnapshotState | None = None
    is_catalog_known: bool = False
    commit_times_ms: Sequence[int] = (0,)
    listing: LogListing = field(default_factory=lambda: list_log(MemoryLogStore(commits(0, 5)), LOG_PATH))
    configuration: Mapping[str, str] = field(default_factory=dict)
    engine: str | None = None
    now_ms: int = 0
    versions: Sequence[int] = range(6)
    late_checksum: int | None = None
    unreadable_checksums: Sequence[int] = ()
    checksum_differences: Mapping[int, Sequence[ChecksumDifference]] = field(default_factory=dict)
    counted: CountedFiles = field(default_factory=counted)
    compaction: Compaction | None = None
    daily_rows: DailyRows = field(
        default_factory=lambda: DailyRows(store=MemoryLogStore(), commits={}, times_ms={}, now_ms=0)
    )
    columns: Sequence[ColumnTrend] = ()
    columns_version: int = 12
    states: Mapping[int, SnapshotState] = field(default_factory=dict)
    schema_changes: Mapping[int, Sequence[str]] = field(default_factory=dict)

    @cached_property
    def state(self) -> SnapshotState:
        return state()

    @cached_property
    def segment(self) -> LogSegment:
        return segment()
