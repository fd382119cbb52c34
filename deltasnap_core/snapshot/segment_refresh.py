"""Finds the next log segment: the first one, an updated one, the one after a commit, or the one of a version."""

from __future__ import annotations

from deltasnap_core.errors import DeltaTableNotFoundError, VersionGapError, VersionNotFoundError
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url

_log = logger_of(__name__)

_COMMITS_BEFORE_NEWER_CHECKPOINT = 100
"""A newer checkpoint is read only if at least this many commits follow the checkpoint that was read."""


def first_segment(builder: LogSegmentBuilder) -> LogSegment | None:
    """Return the newest segment of a table that was not loaded before; None: there is no table.

    Delta's `getSnapshotAtInit`, `createLogSegment`.
    """
    try:
        return builder.build(hint=builder.read_hint())
    except DeltaTableNotFoundError:
        _log.info("No delta log found for the Delta table at %s", redacted(builder.log_path))
        return None


def next_segment(builder: LogSegmentBuilder, previous: LogSegment, *, is_loaded: bool) -> LogSegment | None:
    """Return the newest segment of a table, from one listing that starts at the known checkpoint.

    None: the table is gone.
    It is `previous` itself if nothing relevant for a snapshot changed. Delta's `getUpdatedLogSegment`.
    is_loaded: whether the known checkpoint was read. Then a newer one is used only if many commits lie between them.
    """
    if previous.version < 0:
        return first_segment(builder)
    keep = is_loaded and len(previous.deltas) < _COMMITS_BEFORE_NEWER_CHECKPOINT
    try:
        segment = builder.update(previous, keep_checkpoint=keep)
    except VersionGapError as error:
        _log.warning("The log at %s was cleaned up: %s", redacted(builder.log_path), error)
        segment = builder.update(previous)
    except DeltaTableNotFoundError:
        _log.warning("No delta log found for the Delta table at %s any more", redacted(builder.log_path))
        return None
    # A checksum or a compaction that is written later changes nothing.
    is_same = segment.version == previous.version and segment.continues(previous)
    return previous if is_same else segment


def segment_after_commit(
    builder: LogSegmentBuilder, committed_version: int, known: LogSegment, *, is_pre_commit: bool
) -> LogSegment:
    """Return a segment of the version just committed, or of a later one. Delta's `getLogSegmentAfterCommit`.

    is_pre_commit: whether `known` is the segment before the commit. Then only the new commit is looked up.
    Errors: VersionNotFoundError if a listing does not show the commit.
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
