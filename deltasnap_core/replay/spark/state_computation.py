"""From a loaded log to the reconciled file actions and the computed state of its version.

What one process can look at is replayed by Arrow, without Spark (`local_files`); what is larger by Spark.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.computed_state import compute_state
from deltasnap_core.replay.spark.file_action_layout import DIGEST, digest
from deltasnap_core.replay.spark.load_actions import ActionReader
from deltasnap_core.replay.spark.state_advance import advance_state
from deltasnap_core.replay.spark.state_cache import StateCache, job_description
from deltasnap_core.replay.spark.state_reconstruction import BROADCAST_BYTES, reconcile


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedVersion:
    """A version whose state was computed: where that of a later version may start from.

    retention: which tombstones the state counts.
    """

    log: LoadedLog
    state: SnapshotState
    retention: Retention
    files: KnownFiles


class KnownFiles(Protocol):
    """The files of a version, to be looked up again for the versions after it."""

    @property
    def version(self) -> int:
        """The version that they are of."""
        ...

    def advanced_state(self, known: ComputedVersion, log: LoadedLog, retention: Retention) -> SnapshotState | None:
        """Return the state of a version from that of an earlier one and the commits since; None: nothing was kept.

        log: one that `known.log` is the beginning of. Its commits since then count as one change: only the last is
        asked.
        """
        ...

    @property
    def cache(self) -> StateCache | None:
        """What keeps them in Spark's storage; None: nothing."""
        ...

    def release(self) -> None:
        """Drop what is kept of them. They are still there, from the log."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesDigest:
    """The digest of the files of a version, as Spark has it.

    rows: DIGEST; None: no files. cache: what keeps them in Spark's storage; None: nothing.
    """

    reader: ActionReader
    version: int
    rows: DataFrame | None
    cache: StateCache | None

    def state(self, log: LoadedLog, retention: Retention) -> SnapshotState:
        """Return the state of the version, by one aggregation."""
        with self._described(log):
            return compute_state(self.rows, log.non_file, retention)

    def advanced_state(self, known: ComputedVersion, log: LoadedLog, retention: Retention) -> SnapshotState:
        """Return the state of a later version: see KnownFiles."""
        since = log.batch.after(self.version)
        with self._described(log):
            return advance_state(
                known.state,
                self.rows,
                self.reader.commit_digests(since.up_to(known.log.version)),
                self.reader.commit_digests(since.after(known.log.version)),
                log.non_file,
                before=known.retention,
                after=retention,
            )

    def release(self) -> None:
        """Drop them from Spark's storage. They are still there, from the log."""
        if self.cache is not None:
            self.cache.release()

    def _described(self, log: LoadedLog) -> AbstractContextManager[None]:
        return job_description(self.reader.spark, f"Delta: Compute snapshot for version: {log.version}")


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
    commits = reader.commit_digests(log.batch)
    rows = reconcile(base, commits, DIGEST, broadcast=is_small(log.batch), partitions=partitions)
    if rows is not None and cache is not None:
        rows = cache.cached(rows)
    return FilesDigest(reader=reader, version=log.version, rows=rows, cache=cache)


def can_advance(known: ComputedVersion, log: LoadedLog, retention: Retention) -> bool:
    """Return whether `advanced_state` applies: the log goes on from the known one, and no expired tombstone comes back.

    And it pays: the files are not too many commits old.
    """
    return (
        known.log.contents is log.contents
        and log.segment.continues(known.log.segment)
        and known.log.version < log.version
        and retention.is_within(known.retention)
        and not log.batch.after(known.files.version).is_large
    )


def is_small(batch: CommitBatch) -> bool:
    """Return whether the keys of a batch are few enough to send to every task."""
    return batch.size_in_bytes <= BROADCAST_BYTES
