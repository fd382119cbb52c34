"""Which log segment comes next: the first one, the one after it, the one after a commit, the one of a version."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from deltasnap_core.errors import DeltaTableNotFoundError, VersionGapError, VersionNotFoundError
from deltasnap_core.log.log_listing import table_path
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.file_names import commit_file, commit_version
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url, redacted

_log = logging.getLogger(__name__)

_COMMITS_BEFORE_NEWER_CHECKPOINT = 100
"""So many commits may follow the checkpoint that was read before a newer one is worth reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCommits:
    """What the catalog of a catalog-managed table knows: see LogSegmentBuilder.build. Nothing: no catalog was asked."""

    log_tail: Sequence[FileStatus] = ()
    max_version: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether a catalog was asked."""
        return bool(self.log_tail) or self.max_version is not None


NO_CATALOG = CatalogCommits()


def first_segment(builder: LogSegmentBuilder, catalog: CatalogCommits) -> LogSegment | None:
    """Find the newest segment of a table that nothing is known of. None: there is no table."""
    try:
        hint = builder.read_hint()
        return builder.build(hint=hint, log_tail=catalog.log_tail, max_catalog_version=catalog.max_version)
    except DeltaTableNotFoundError:
        _log.info("No delta log found for the Delta table at %s", redacted(builder.log_path))
        return None


def next_segment(
    builder: LogSegmentBuilder, previous: LogSegment, catalog: CatalogCommits, *, is_loaded: bool
) -> LogSegment | None:
    """Find the newest segment of a table, by one listing from the known checkpoint on. None: the table is gone.

    is_loaded: whether the known checkpoint was read; one written since is then taken only when many commits separate
               the two. The result is `previous` itself where nothing changed that a snapshot is made of.
    """
    if previous.version < 0:
        return first_segment(builder, catalog)
    update = partial(builder.update, previous, log_tail=catalog.log_tail, max_catalog_version=catalog.max_version)
    keep = is_loaded and len(previous.deltas) < _COMMITS_BEFORE_NEWER_CHECKPOINT
    try:
        segment = update(keep_checkpoint=keep)
    except VersionGapError as error:
        _log.warning("The log at %s was cleaned up: %s", redacted(builder.log_path), error)
        segment = update()
    except DeltaTableNotFoundError:
        _log.warning("No delta log found for the Delta table at %s any more", redacted(builder.log_path))
        return None
    # A checksum or a compaction written late changes nothing.
    is_same = segment.version == previous.version and segment.continues(previous)
    return previous if is_same else segment


def segment_after_commit(
    builder: LogSegmentBuilder, committed_version: int, known: LogSegment, *, is_pre_commit: bool
) -> LogSegment:
    """Find a segment of a version just committed, or of a later one.

    is_pre_commit: whether `known` is that of the version before; only the new commit is then looked up.
    Errors: VersionNotFoundError where a listing does not show the commit.
    """
    if is_pre_commit and known.version == committed_version - 1:
        commit = builder.store.status(join_url(builder.log_path, commit_file(committed_version)))
        if commit is not None:
            return _appended(known, commit)
    segment = builder.build() if known.version < 0 else builder.update(known)
    if segment.version < committed_version:
        path = table_path(builder.log_path)
        raise VersionNotFoundError(path=path, version=committed_version, latest=segment.version)
    return segment


def updated_segment(builder: LogSegmentBuilder, old: LogSegment) -> tuple[LogSegment, tuple[FileStatus, ...]]:
    """Find the newest segment, and its commits that are newer than the old one."""
    segment = builder.update(old, keep_checkpoint=True)
    return segment, tuple(file for file in segment.deltas if commit_version(file.path) > old.version)


def _appended(segment: LogSegment, commit: FileStatus) -> LogSegment:
    return LogSegment(
        log_path=segment.log_path,
        version=segment.version + 1,
        deltas=(*segment.deltas, commit),
        checkpoint_provider=segment.checkpoint_provider,
        compactions=segment.compactions,
        last_commit_file=commit,
        last_commit_timestamp=commit.modification_time,
    )
