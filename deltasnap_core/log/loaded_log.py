"""Loads a log segment: opens its checkpoint, reads its commits, and falls back from a damaged checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from deltasnap_core.errors import (
    CorruptLogError,
    DeltaTableNotFoundError,
    UnsupportedServerError,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH, CommitBatch
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.listing.log_segment_builder import LogSegmentBuilder
from deltasnap_core.log.non_file_actions import NonFileActions, load_non_file_actions
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.storage.log_store import FileStatus, LogStore

_log = logger_of(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedLog:
    """Everything needed to replay a log segment, except the file actions of the checkpoint.

    segment:    the loaded segment, as the listing showed it.
    checkpoint: the start of the replay; an older one than the segment's if that is unreadable; None: no checkpoint.
    batch:      every commit after that checkpoint, up to the segment's version.
    non_file:   the non-file actions in force.
    unreadable: names of checkpoint files that were found damaged and are not used.
    builder:    of the segment.
    """

    segment: LogSegment
    checkpoint: CheckpointContents | None
    batch: CommitBatch
    non_file: NonFileActions
    builder: LogSegmentBuilder
    unreadable: frozenset[str] = frozenset()

    @property
    def files(self) -> tuple[str, ...]:
        """URLs of the files that a replay reads: the checkpoint first, then the commits."""
        paths = () if self.checkpoint is None else self.checkpoint.paths
        return (*paths, *(commit.path for commit in self.batch.files))

    @property
    def version(self) -> int:
        """The version that the replay reconstructs."""
        return self.segment.version

    @property
    def has_own_checkpoint(self) -> bool:
        """Whether the replay starts from the segment's own checkpoint, not from a replacement for an unreadable one."""
        version = -1 if self.checkpoint is None else self.checkpoint.version
        return version == self.segment.checkpoint_provider.version

    def without(self, error: CorruptLogError | UnsupportedServerError) -> LoadedLog:
        """Return the same version without the checkpoint, whose files a query could not read.

        error: of the query. An UnsupportedServerError, which says that Spark lacks a codec, always concerns the
               checkpoint. It may be sound, but the commits may replace it all the same.
        Errors: the given error, if it concerns a commit or nothing can replace the checkpoint.
        """
        if self.checkpoint is None:
            raise error
        if isinstance(error, CorruptLogError):
            return self._without_checkpoint(error)
        try:
            return self._without_checkpoint(CorruptLogError(path=self.checkpoint.paths[0], reason=str(error)))
        except CorruptLogError:
            raise error from None

    def _without_checkpoint(self, error: CorruptLogError) -> LoadedLog:
        if self.checkpoint is None or error.path in {commit.path for commit in self.batch.files}:
            raise error
        return _load_or_fall_back(self.builder, self.segment, self, self.unreadable | self.checkpoint.names, error)


def load_log(builder: LogSegmentBuilder, segment: LogSegment, known: LoadedLog | None = None) -> LoadedLog:
    """Return a loaded segment. Data that `known`, of the same table, has read is reused.

    builder: of the segment, with the same commits of the catalog.
    If a checkpoint cannot be read, it logs a warning and falls back to an older checkpoint or to the commits.
    Errors: CorruptLogError naming the broken commit, or the checkpoint if nothing can replace it.
    Source: PROTOCOL.md, Action Reconciliation; Checkpoints.
    """
    if known is not None and segment.continues(known.segment):
        newer = read_commits(builder.store, segment.deltas[len(known.segment.deltas) :])
        non_file = known.non_file.advanced_by(newer)
        return replace(known, builder=builder, segment=segment, batch=known.batch + newer, non_file=non_file)
    return _load_or_fall_back(builder, segment, known, frozenset(), None)


def _load_or_fall_back(
    builder: LogSegmentBuilder,
    segment: LogSegment,
    known: LoadedLog | None,
    unreadable: frozenset[str],
    first_error: CorruptLogError | None,
) -> LoadedLog:
    """Return `segment`, loaded from its checkpoint, or from others if that is damaged or among the unreadable ones.

    first_error: of the unreadable checkpoint, raised if nothing can replace it; None: the first that occurs here.
    """
    used, store = segment, builder.store
    if first_error is not None:
        used = _without(builder, unreadable, segment, first_error, first_error)
    while True:
        try:
            batch = _commits(store, used.deltas, known)
            contents = _open(store, used, known)
            non_file = load_non_file_actions(store, contents, batch)
            return LoadedLog(
                segment=segment,
                checkpoint=contents,
                batch=batch,
                non_file=non_file,
                builder=builder,
                unreadable=unreadable,
            )
        except CorruptLogError as error:
            first_error = first_error or error
            unreadable |= {file.name for file in used.checkpoint_provider.files}
            if error.path in {commit.path for commit in used.deltas}:
                raise
            used = _without(builder, unreadable, segment, error, first_error)


def _open(store: LogStore, segment: LogSegment, known: LoadedLog | None) -> CheckpointContents | None:
    provider = segment.checkpoint_provider
    if provider.is_empty:
        return None
    if known is not None and known.has_own_checkpoint and known.segment.checkpoint_provider == provider:
        return known.checkpoint
    return open_checkpoint(store, provider, segment.log_path)


def _commits(store: LogStore, commits: Sequence[FileStatus], known: LoadedLog | None) -> CommitBatch:
    held = EMPTY_BATCH if known is None else _only(known.batch, commits)
    if not held.files:
        return read_commits(store, commits)
    start = commits.index(held.files[0])
    older, newer = commits[:start], commits[start + len(held.files) :]
    return read_commits(store, older) + held + read_commits(store, newer)


def _without(
    builder: LogSegmentBuilder,
    unreadable: frozenset[str],
    segment: LogSegment,
    error: CorruptLogError,
    first: CorruptLogError,
) -> LogSegment:
    _log.warning(
        "Checkpoint %s cannot be used for version %d: %s; trying an older checkpoint or the commits alone.",
        redacted(error.path), segment.version, redacted(error.reason),
    )  # fmt: skip
    try:
        return replace(builder, exclude_checkpoints=unreadable).build(segment.version)
    except (VersionGapError, VersionNotFoundError, DeltaTableNotFoundError):
        raise first from None


def _only(batch: CommitBatch, commits: Sequence[FileStatus]) -> CommitBatch:
    """Return the first run of commits of a batch that are unchanged among the given commits.

    Only the first run: if a commit in the middle was replaced, the later ones are read again.
    """
    wanted = set(commits)
    start = next((place for place, file in enumerate(batch.files) if file in wanted), len(batch.files))
    files = tuple(takewhile(wanted.__contains__, batch.files[start:]))
    if not files:
        return EMPTY_BATCH
    return batch.after(commit_version(files[0].path) - 1).up_to(commit_version(files[-1].path))
