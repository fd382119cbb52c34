"""StateDelta: the changes that commits make to the computed state. Both engines return this value.

The law: `state(x) + delta(x, y) = state(y)`, and `delta(x, y) + delta(y, z) = delta(x, z)`. If a delta counts
all files of a version, `delta.applied_to(None)` is the state of that version. delta-kernel-rs has the same law for
version checksums (`CrcDelta`).
"""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.state.deleted_record_counts_histogram import DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import DEFAULT_BIN_BOUNDARIES, FileSizeHistogram
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.rules.totals.aggregates import FileTotals


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDelta:
    """The changes to the computed state from one version to a later one.

    begun:    totals of new files and tombstones, including files that were added again with other metadata.
    ended:    totals, negative, of files and tombstones that are no longer in force.
    non_file: the non-file actions in force at the later version.
    """

    begun: FileTotals
    ended: FileTotals
    non_file: NonFileActions

    def __add__(self, later: StateDelta) -> StateDelta:
        """Return this change and a later one combined."""
        return StateDelta(begun=self.begun + later.begun, ended=self.ended + later.ended, non_file=later.non_file)

    def applied_to(self, state: SnapshotState | None) -> SnapshotState:
        """Return the state after the change. state: before the change; None: the state of an empty table."""
        changed = self.begun + self.ended
        return _state(changed if state is None else totals_of(state) + changed, self.non_file)


def totals_of(state: SnapshotState) -> FileTotals:
    """Return the totals of the files and tombstones of a state."""
    bins = {
        "file_counts": state.file_size_histogram.file_counts,
        "total_bytes": state.file_size_histogram.total_bytes,
        "deleted_record_counts": state.deleted_record_counts_histogram.deleted_record_counts,
    }
    return FileTotals.of({name: getattr(state, name) for name in FileTotals().numbers}, bins)


def _state(totals: FileTotals, non_file: NonFileActions) -> SnapshotState:
    return SnapshotState(
        **totals.numbers,
        num_of_set_transactions=len(non_file.transactions),
        num_of_metadata=int(non_file.metadata is not None),
        num_of_protocol=int(non_file.protocol is not None),
        set_transactions=tuple(value for _, value in sorted(non_file.transactions.items())),
        domain_metadata=tuple(value for _, value in sorted(non_file.domains.items())),
        metadata=non_file.metadata,
        protocol=non_file.protocol,
        file_size_histogram=FileSizeHistogram(
            sorted_bin_boundaries=DEFAULT_BIN_BOUNDARIES,
            file_counts=totals.bins("file_counts"),
            total_bytes=totals.bins("total_bytes"),
        ),
        deleted_record_counts_histogram=DeletedRecordCountsHistogram(
            deleted_record_counts=totals.bins("deleted_record_counts")
        ),
    )
