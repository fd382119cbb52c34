"""From a loaded log to the reconciled file actions and the computed state of its version."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.replay.computed_state import FileTotals, SnapshotState, compute_state
from deltasnap_core.replay.load_actions import ACTIONS, ActionReader
from deltasnap_core.replay.state_reconstruction import BROADCAST_BYTES, newest_file_actions, reconcile
from deltasnap_core.replay.version_range import RangeBase, replay_range
from deltasnap_core.snapshot.loaded_log import LoadedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedVersion:
    """A version whose state was computed: where that of a later version may start from.

    min_file_retention_timestamp: up to which (ms) its tombstones counted as expired.
    """

    log: LoadedLog
    state: SnapshotState
    min_file_retention_timestamp: int


def reconciled_files(reader: ActionReader, log: LoadedLog) -> DataFrame | None:
    """Give the newest action of each logical file (ACTIONS), expired tombstones included. None: there are none.

    Source: PROTOCOL.md, Action Reconciliation.
    """
    base = None if log.contents is None else reader.checkpoint_actions(log.contents)
    return reconcile(base, reader.commit_actions(log.batch), broadcast=is_small(log.batch))


def state_of(reader: ActionReader, log: LoadedLog, min_file_retention_timestamp: int) -> SnapshotState:
    """Compute the state of a version from the whole log, in one aggregation."""
    files = reconciled_files(reader, log)
    return compute_state(files, log.non_file, min_file_retention_timestamp=min_file_retention_timestamp)


def advanced_state(
    reader: ActionReader, known: ComputedVersion, log: LoadedLog, min_file_retention_timestamp: int
) -> SnapshotState:
    """Compute the state of a version from that of an earlier one and the commits since: what `state_of` gives.

    log: one that `known.log` is the beginning of. Its commits since then count as one change: only the last is asked.
    """
    newer = log.batch.after(known.log.version)
    commits = reader.commit_actions(newer)
    version = F.lit(log.version).cast("long").alias("version")
    changes = None if commits is None else newest_file_actions(commits).select(version, *ACTIONS)
    base = RangeBase(
        version=known.log.version,
        files=reconciled_files(reader, known.log),
        non_file=known.log.non_file,
        computed_state=known.state,
        min_file_retention_timestamp=known.min_file_retention_timestamp,
    )
    (advanced,) = replay_range(
        base, changes, {}, {log.version: min_file_retention_timestamp}, broadcast=is_small(newer)
    )
    return FileTotals.of(advanced.computed_state).state(log.non_file)


def can_advance(known: ComputedVersion, log: LoadedLog, min_file_retention_timestamp: int) -> bool:
    """Whether `advanced_state` applies: the log goes on from the known one, and no expired tombstone comes back."""
    return (
        known.log.contents is log.contents
        and known.log.is_extended_by(log.segment)
        and known.log.version < log.version
        and (known.min_file_retention_timestamp or -1) <= (min_file_retention_timestamp or -1)
    )


def is_small(batch: CommitBatch) -> bool:
    """Whether the keys of a batch are few enough to send to every task."""
    return batch.size_in_bytes <= BROADCAST_BYTES
