"""SnapshotState: the computed state of a version: counts, sizes, histograms and non-file actions."""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.json_records import BigInt, JsonRecord
from deltasnap_core.protocol.state.deleted_record_counts_histogram import DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import FileSizeHistogram
from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotState(JsonRecord):
    """The computed state of a version. Sizes are in bytes.

    size_in_bytes, num_of_files: of the live files.
    num_of_removes:              tombstones that have not expired, one for each logical file. (Delta on Spark may count
                                 two for a file that was removed twice.)
    num_known_records:           rows of the live files with a known number of rows, before deletion vectors.
    num_files_without_records:   live files with an unknown number of rows: not stated, below 0, or below the number
                                 of deleted rows.
    num_deletion_vectors, num_deleted_records: files with a deletion vector, and the rows that these delete.
    set_transactions, domain_metadata: ascending by application id and by domain; removed domains are left out.
    protocol, metadata:          None only if the snapshot's validation was turned off and the log has none.
    """

    json_name = "computedState"

    size_in_bytes: BigInt
    num_of_files: BigInt
    num_of_removes: BigInt
    num_of_set_transactions: BigInt
    num_of_metadata: BigInt
    num_of_protocol: BigInt
    num_known_records: BigInt
    num_files_without_records: BigInt
    num_deletion_vectors: BigInt
    num_deleted_records: BigInt
    set_transactions: tuple[SetTransaction, ...]
    domain_metadata: tuple[DomainMetadata, ...]
    metadata: Metadata | None
    protocol: Protocol | None
    file_size_histogram: FileSizeHistogram
    deleted_record_counts_histogram: DeletedRecordCountsHistogram

    @property
    def num_records(self) -> int | None:
        """Rows of the live files before deletion vectors; None: unknown for some file."""
        return None if self.num_files_without_records else self.num_known_records

    @property
    def num_live_records(self) -> int | None:
        """Rows of the live files without those that deletion vectors delete; None: unknown for some file."""
        return None if self.num_records is None else self.num_records - self.num_deleted_records
