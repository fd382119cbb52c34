"""The computed state of a version: what its files, tombstones and other actions amount to."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.deleted_record_counts_histogram import BIN_STARTS, DeletedRecordCountsHistogram
from deltasnap_core.protocol.file_size_histogram import DEFAULT_BIN_BOUNDARIES, FileSizeHistogram
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.action_form import ActionForm
from deltasnap_core.replay.load_actions import DELETED_AT


@dataclass(slots=True, kw_only=True)
class FileTotals:
    """Running totals over live files and tombstones.

    Every total is a sum, so that those of a version are those of the version before plus what it changed.
    """

    files: int = 0
    size: int = 0
    records: int = 0
    files_without_records: int = 0
    deletion_vectors: int = 0
    deleted_records: int = 0
    tombstones: int = 0
    file_counts: list[int] = field(default_factory=lambda: [0] * len(DEFAULT_BIN_BOUNDARIES))
    file_bytes: list[int] = field(default_factory=lambda: [0] * len(DEFAULT_BIN_BOUNDARIES))
    deleted_counts: list[int] = field(default_factory=lambda: [0] * len(BIN_STARTS))

    def add(self, group: Row) -> None:
        """Add one group of `totals`, grouped by `bins`."""
        if group.size_class == _NONE:
            self.tombstones += group.actions
            return
        size_bin = bisect_right(DEFAULT_BIN_BOUNDARIES, group.size_class) - 1
        self.files += group.actions
        self.size += group.size
        self.records += group.records or 0
        self.files_without_records += group.actions - group.files_with_records
        self.file_counts[size_bin] += group.actions
        self.file_bytes[size_bin] += group.size
        self.deleted_counts[max(group.deleted_bin, 0)] += group.actions
        if group.deleted_bin != _NONE:
            self.deletion_vectors += group.actions
            self.deleted_records += group.deleted_records or 0

    @classmethod
    def of(cls, state: SnapshotState) -> FileTotals:
        """Give the totals that a state was made of."""
        return cls(
            files=state.num_of_files,
            size=state.size_in_bytes,
            records=state.num_known_records,
            files_without_records=state.num_files_without_records,
            deletion_vectors=state.num_deletion_vectors,
            deleted_records=state.num_deleted_records,
            tombstones=state.num_of_removes,
            file_counts=list(state.file_size_histogram.file_counts),
            file_bytes=list(state.file_size_histogram.total_bytes),
            deleted_counts=list(state.deleted_record_counts_histogram.deleted_record_counts),
        )

    def state(self, non_file: NonFileActions) -> SnapshotState:
        """Give the computed state with these totals."""
        return SnapshotState(
            size_in_bytes=self.size,
            num_of_files=self.files,
            num_of_removes=self.tombstones,
            num_of_set_transactions=len(non_file.transactions),
            num_of_metadata=int(non_file.metadata is not None),
            num_of_protocol=int(non_file.protocol is not None),
            num_known_records=self.records,
            num_files_without_records=self.files_without_records,
            num_deletion_vectors=self.deletion_vectors,
            num_deleted_records=self.deleted_records,
            set_transactions=tuple(value for _, value in sorted(non_file.transactions.items())),
            domain_metadata=tuple(value for _, value in sorted(non_file.domains.items())),
            metadata=non_file.metadata,
            protocol=non_file.protocol,
            file_size_histogram=FileSizeHistogram(
                sorted_bin_boundaries=DEFAULT_BIN_BOUNDARIES,
                file_counts=tuple(self.file_counts),
                total_bytes=tuple(self.file_bytes),
            ),
            deleted_record_counts_histogram=DeletedRecordCountsHistogram(
                deleted_record_counts=tuple(self.deleted_counts)
            ),
        )


def compute_state(
    files: DataFrame | None, non_file: NonFileActions, *, min_file_retention_timestamp: int
) -> SnapshotState:
    """Compute the state of a version in one aggregation of its files.

    files: its reconciled file actions as `counted_files` gives them, one row a logical file. None: no files.
    """
    found = FileTotals()
    if files is not None:
        for group in unexpired(files, min_file_retention_timestamp).groupBy(*bins()).agg(*totals()).collect():
            found.add(group)
    return found.state(non_file)


def unexpired(files: DataFrame, min_file_retention_timestamp: int) -> DataFrame:
    """Give what counts of COUNTS: live files, and tombstones that have not expired."""
    if min_file_retention_timestamp <= 0:
        return files
    return files.where(f"deleted_at is null or deleted_at > {min_file_retention_timestamp}")


# `substring` would count the characters of the whole text first.
_NUM_RECORDS_FIRST = """startswith(add.stats, '{"numRecords":') and contains(add.stats, ',')"""
_RECORDS = (
    f"coalesce(case when {_NUM_RECORDS_FIRST}"
    " then try_cast(substring_index(substring_index(add.stats, ',', 1), ':', -1) as bigint) end,"
    " try_cast(get_json_object(add.stats, '$.numRecords') as bigint))"
)
COUNTED = ("size", "records", "deleted", "deleted_at")
COUNTS = (
    "add.size as size",
    f"{_RECORDS} as records",
    "case when add.deletionVector.storageType is not null then coalesce(add.deletionVector.cardinality, 0) end"
    " as deleted",
    f"{DELETED_AT} as deleted_at",
)
"""What is counted of one action, COUNTED: four longs. Of a live file its size, records and, with a deletion vector,
the rows that it deletes; of a tombstone its time.

records: cut out of the JSON where writers put `numRecords`, at the front, for a tenth of a JSON parser's cost.
Source: PROTOCOL.md, Per-file Statistics.
"""

_KEYED = ("xxhash64(path_key, dv_id) as key_high", "xxhash64(dv_id, path_key) as key_low")
COUNTED_FILES = ActionForm(
    columns=("key_high", "key_low", *COUNTED),
    key=("key_high", "key_low"),
    is_add="deleted_at is null",
    deleted_at="deleted_at",
    # Spark looks up one long in half the time of two: the other is compared where that one is found.
    is_same="key_high = other_key_high and (key_low ^ other_key_low) = 0",
)


def counted_files(actions: DataFrame, *others: str) -> DataFrame:
    """Give of ACTIONS what is counted (COUNTED_FILES): six longs each, not null but for records, deleted, deleted_at.

    The key stands for that of the logical file in 128 bits, so that a million files fit into 50 MB.
    others: columns to keep besides.
    """
    return actions.selectExpr(*others, *_KEYED, *COUNTS)


_NONE = -1
# Rather a bit too few than too many: the logarithm of a number just below a power of two may be rounded up to it.
_MORE_BITS = "greatest(cast(log2(size) - 1e-9d as int) - 5, 0)"
_DELETED_BIN = " ".join(f"when deleted >= {start} then {i}" for i, start in reversed(list(enumerate(BIN_STARTS))))
_BINS = {
    "size_class": f"case when deleted_at is null then shiftleft(shiftright(size, {_MORE_BITS}), {_MORE_BITS})"
    f" else {_NONE} end",
    "deleted_bin": f"case when deleted is null then {_NONE} {_DELETED_BIN} else 0 end",
}


def bins() -> list[Column]:
    """Give what to group COUNTS by: the bins of the two histograms.

    size_class:  the size rounded down to its six or seven leading bits; -1: a tombstone. That keeps it in its bin,
                 since no boundary has more than six, and costs a fraction of comparing each size with 95 boundaries.
    deleted_bin: -1 without a deletion vector. (Spark is slow to group by what is null.)
    Source: PROTOCOL.md, File Size Histogram Schema; Deleted Record Counts Histogram Schema.
    """
    return [F.expr(f"{bin_} as {name}") for name, bin_ in _BINS.items()]


def totals(sign: str | None = None) -> list[Column]:
    """Give the totals of COUNTS, each count times a sign (a column of 1 and -1); sums of nothing are null."""
    times = "" if sign is None else f"{sign} * "
    summed = {
        "actions": "count(*)" if sign is None else f"sum({sign})",
        "size": f"sum({times}size)",
        "records": f"sum({times}records)",
        "files_with_records": "count(records)" if sign is None else f"sum(if(records is null, 0, {sign}))",
        "deleted_records": f"sum({times}deleted)",
    }
    return [F.expr(f"{total} as {name}") for name, total in summed.items()]
