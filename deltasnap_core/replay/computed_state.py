"""The computed state of a version: what its files, tombstones and other actions amount to."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.deleted_record_counts_histogram import DeletedRecordCountsHistogram
from deltasnap_core.protocol.file_size_histogram import DEFAULT_BIN_BOUNDARIES, FileSizeHistogram
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.driver.reconciliation import unexpired
from deltasnap_core.replay.spark.file_action_layout import DIGEST
from deltasnap_core.rules.aggregates import FileTotals, Group, grouping, groups_of, sums


def compute_state(files: DataFrame | None, non_file: NonFileActions, retention: Retention) -> SnapshotState:
    """Return the state of a version, by one aggregation of its files. Delta's `extractComputedState`.

    files: its reconciled file actions (DIGEST), one row a logical file; None: no files.
    Errors: MissingSizeError.
    """
    found = FileTotals()
    if files is not None:
        for group in aggregated(DIGEST.unexpired(files, retention)):
            found.add(group)
    return state_with(found, non_file)


def state_of_digests(files: pa.Table, non_file: NonFileActions, retention: Retention) -> SnapshotState:
    """Return what `compute_state` does, by Arrow in this process. files: digests with keys, one row a logical file."""
    found = FileTotals()
    for group in groups_of(unexpired(files, retention)):
        found.add(group)
    return state_with(found, non_file)


def aggregated(rows: DataFrame, *by: str, sign: str | None = None) -> list[Group]:
    """Return the groups of some rows (DIGESTED), to be added to FileTotals.

    by: columns to group by besides. sign: see `sums`.
    """
    groups = rows.groupBy(*by, *map(F.expr, grouping())).agg(*map(F.expr, sums(sign)))
    return [row.asDict() for row in groups.collect()]


def totals_of(state: SnapshotState) -> FileTotals:
    """Return the totals that a state was made of."""
    histograms = {
        "file_counts": state.file_size_histogram.file_counts,
        "total_bytes": state.file_size_histogram.total_bytes,
        "deleted_record_counts": state.deleted_record_counts_histogram.deleted_record_counts,
    }
    return FileTotals.of(lambda name: histograms[name] if name in histograms else getattr(state, name))


def state_with(totals: FileTotals, non_file: NonFileActions) -> SnapshotState:
    """Return the computed state of files with these totals."""
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
