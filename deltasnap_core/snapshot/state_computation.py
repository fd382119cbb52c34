"""From a loaded log to the reconciled file actions and the computed state of its version."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.computed_state import compute_state
from deltasnap_core.replay.file_action_layout import DIGEST, digest
from deltasnap_core.replay.load_actions import ActionReader
from deltasnap_core.replay.state_advance import advance_state
from deltasnap_core.replay.state_reconstruction import BROADCAST_BYTES, reconcile
from deltasnap_core.snapshot.state_cache import StateCache


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedVersion:
    """A version whose state was computed: where that of a later version may start from.

    retention: which tombstones the state counts.
    """

    log: LoadedLog
    state: SnapshotState
    retention: Retention
    files: FilesDigest


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesDigest:
    """The digest of the files of a version, to be looked up again for the versions after it.

    rows: DIGEST; None: no files. cache: what keeps them in Spark's storage; None: nothing.
    """

    version: int
    rows: DataFrame | None
    cache: StateCache | None

    def release(self) -> None:
        """Drop them from Spark's storage. They are still there, from the log."""
        if self.cache is not None:
            self.cache.release()


def reconciled_files(reader: ActionReader, log: LoadedLog, *, partitions: int | None = None) -> DataFrame | None:
    """Return the newest action of each logical file (FULL), expired tombstones included. None: there are none.

    partitions: of the shuffle, where there is one. Delta's `stateReconstruction`.
    Source: PROTOCOL.md, Action Reconciliation.
    """
    base = None if log.contents is None else reader.checkpoint_actions(log.contents)
    return reconcile(base, reader.commit_actions(log.batch), broadcast=is_small(log.batch), partitions=partitions)


def digest_files(
    reader: ActionReader, log: LoadedLog, cache: StateCache | None, *, partitions: int | None = None
) -> FilesDigest:
    """Return the digest of the files of a version; cached from now on where there is a cache."""
    checkpoint = None if log.contents is None else reader.checkpoint_actions(log.contents)
    base = None if checkpoint is None else digest(checkpoint)
    commits = _digested_commits(reader, log.batch)
    rows = reconcile(base, commits, DIGEST, broadcast=is_small(log.batch), partitions=partitions)
    if rows is not None and cache is not None:
        rows = cache.cached(rows)
    return FilesDigest(version=log.version, rows=rows, cache=cache)


def state_of(files: FilesDigest, log: LoadedLog, retention: Retention) -> SnapshotState:
    """Return the state of a version from its files, by one aggregation."""
    return compute_state(files.rows, log.non_file, retention)


def advanced_state(reader: ActionReader, known: ComputedVersion, log: LoadedLog, retention: Retention) -> SnapshotState:
    """Return the state of a version from that of an earlier one and the commits since: what `state_of` returns.

    log: one that `known.log` is the beginning of. Its commits since then count as one change: only the last is asked.
    """
    since_digested = log.batch.after(known.files.version)
    return advance_state(
        known.state,
        known.files.rows,
        _digested_commits(reader, since_digested.up_to(known.log.version)),
        _digested_commits(reader, since_digested.after(known.log.version)),
        log.non_file,
        before=known.retention,
        after=retention,
    )


def can_advance(known: ComputedVersion, log: LoadedLog, retention: Retention) -> bool:
    """Return whether `advanced_state` applies: the log goes on from the known one, and no expired tombstone comes back.

    And it pays: the digest is not too many commits old.
    """
    return (
        known.log.contents is log.contents
        and log.segment.continues(known.log.segment)
        and known.log.version < log.version
        and retention.is_within(known.retention)
        and not log.batch.after(known.files.version).is_large
    )


def _digested_commits(reader: ActionReader, batch: CommitBatch) -> DataFrame | None:
    actions = reader.commit_actions(batch)
    return None if actions is None else digest(actions, "commit_version", "line_number")


def is_small(batch: CommitBatch) -> bool:
    """Return whether the keys of a batch are few enough to send to every task."""
    return batch.size_in_bytes <= BROADCAST_BYTES
