"""From a loaded log to the reconciled file actions and the computed state of its version."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.computed_state import COUNTED_FILES, compute_state, counted_files
from deltasnap_core.replay.load_actions import ActionReader
from deltasnap_core.replay.state_advance import advance_state
from deltasnap_core.replay.state_reconstruction import BROADCAST_BYTES, reconcile
from deltasnap_core.snapshot.state_cache import StateCache


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedVersion:
    """A version whose state was computed: where that of a later version may start from.

    min_file_retention_timestamp: up to which (ms) its tombstones counted as expired.
    """

    log: LoadedLog
    state: SnapshotState
    min_file_retention_timestamp: int
    files: CountedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedFiles:
    """What is counted of the files of a version, to be looked up again for the versions after it.

    rows:  COUNTED_FILES; None: no files. cache: what keeps them in Spark's storage; None: nothing.
    """

    version: int
    rows: DataFrame | None
    cache: StateCache | None

    def release(self) -> None:
        """Keep them no longer. They are still there, from the log."""
        if self.cache is not None:
            self.cache.release()


def reconciled_files(reader: ActionReader, log: LoadedLog) -> DataFrame | None:
    """Give the newest action of each logical file (ACTIONS), expired tombstones included. None: there are none.

    Source: PROTOCOL.md, Action Reconciliation.
    """
    base = None if log.contents is None else reader.checkpoint_actions(log.contents)
    return reconcile(base, reader.commit_actions(log.batch), broadcast=is_small(log.batch))


def count_files(reader: ActionReader, log: LoadedLog, cache: StateCache | None) -> CountedFiles:
    """Give what is counted of the files of a version; kept from now on where there is a cache."""
    checkpoint = None if log.contents is None else reader.checkpoint_actions(log.contents)
    base = None if checkpoint is None else counted_files(checkpoint)
    rows = reconcile(base, _counted_commits(reader, log.batch), COUNTED_FILES, broadcast=is_small(log.batch))
    if rows is not None and cache is not None:
        rows = cache.cached(rows)
    return CountedFiles(version=log.version, rows=rows, cache=cache)


def state_of(files: CountedFiles, log: LoadedLog, min_file_retention_timestamp: int) -> SnapshotState:
    """Compute the state of a version from its files, in one aggregation."""
    return compute_state(files.rows, log.non_file, min_file_retention_timestamp=min_file_retention_timestamp)


def advanced_state(
    reader: ActionReader, known: ComputedVersion, log: LoadedLog, min_file_retention_timestamp: int
) -> SnapshotState:
    """Compute the state of a version from that of an earlier one and the commits since: what `state_of` gives.

    log: one that `known.log` is the beginning of. Its commits since then count as one change: only the last is asked.
    """
    since_counted = log.batch.after(known.files.version)
    return advance_state(
        known.state,
        known.files.rows,
        _counted_commits(reader, since_counted.up_to(known.log.version)),
        _counted_commits(reader, since_counted.after(known.log.version)),
        log.non_file,
        expired_until=known.min_file_retention_timestamp,
        expires_until=min_file_retention_timestamp,
    )


def can_advance(known: ComputedVersion, log: LoadedLog, min_file_retention_timestamp: int) -> bool:
    """Whether `advanced_state` applies: the log goes on from the known one, and no expired tombstone comes back.

    And it pays: what was counted is not too many commits ago.
    """
    return (
        known.log.contents is log.contents
        and log.segment.continues(known.log.segment)
        and known.log.version < log.version
        and (known.min_file_retention_timestamp or -1) <= (min_file_retention_timestamp or -1)
        and not log.batch.after(known.files.version).is_large
    )


def _counted_commits(reader: ActionReader, batch: CommitBatch) -> DataFrame | None:
    actions = reader.commit_actions(batch)
    return None if actions is None else counted_files(actions, "commit_version", "line_number")


def is_small(batch: CommitBatch) -> bool:
    """Whether the keys of a batch are few enough to send to every task."""
    return batch.size_in_bytes <= BROADCAST_BYTES
