"""SnapshotState: the computed state of a version: counts, sizes, histograms and non-file actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltasnap_core.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.state.deleted_record_counts_histogram import DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import FileSizeHistogram
from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotState:
    """The computed state of a version. Sizes are in bytes.

    size_in_bytes, num_of_files: of the live files.
    num_of_removes:              tombstones that have not expired, one for each logical file. (Delta on Spark may count
                                 two for a file that was removed twice.)
    num_known_records:           rows of the live files with a known number of rows, before deletion vectors.
    num_files_without_records:   live files with an unknown number of rows.
    num_deletion_vectors, num_deleted_records: files with a deletion vector, and the rows that these delete.
    set_transactions, domain_metadata: ascending by application id and by domain; removed domains are left out.
    protocol, metadata:          None only if the snapshot's validation was turned off and the log has none.
    """

    size_in_bytes: int
    num_of_files: int
    num_of_removes: int
    num_of_set_transactions: int
    num_of_metadata: int
    num_of_protocol: int
    num_known_records: int
    num_files_without_records: int
    num_deletion_vectors: int
    num_deleted_records: int
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

    def to_json(self) -> dict[str, Any]:
        """Return the state as a JSON object, with keys in camelCase as in a version checksum."""
        return {
            "sizeInBytes": self.size_in_bytes,
            "numOfFiles": self.num_of_files,
            "numOfRemoves": self.num_of_removes,
            "numOfSetTransactions": self.num_of_set_transactions,
            "numOfMetadata": self.num_of_metadata,
            "numOfProtocol": self.num_of_protocol,
            "numKnownRecords": self.num_known_records,
            "numFilesWithoutRecords": self.num_files_without_records,
            "numDeletionVectors": self.num_deletion_vectors,
            "numDeletedRecords": self.num_deleted_records,
            "setTransactions": [transaction.to_json() for transaction in self.set_transactions],
            "domainMetadata": [domain.to_json() for domain in self.domain_metadata],
            "metadata": None if self.metadata is None else self.metadata.to_json(),
            "protocol": None if self.protocol is None else self.protocol.to_json(),
            "fileSizeHistogram": self.file_size_histogram.to_json(),
            "deletedRecordCountsHistogram": self.deleted_record_counts_histogram.to_json(),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> SnapshotState:
        """Return the state from the result of `to_json`.

        Errors: ValueError or KeyError naming a missing or mistyped field.
        """
        metadata, protocol = values["metadata"], values["protocol"]
        return cls(
            size_in_bytes=values["sizeInBytes"],
            num_of_files=values["numOfFiles"],
            num_of_removes=values["numOfRemoves"],
            num_of_set_transactions=values["numOfSetTransactions"],
            num_of_metadata=values["numOfMetadata"],
            num_of_protocol=values["numOfProtocol"],
            num_known_records=values["numKnownRecords"],
            num_files_without_records=values["numFilesWithoutRecords"],
            num_deletion_vectors=values["numDeletionVectors"],
            num_deleted_records=values["numDeletedRecords"],
            set_transactions=tuple(SetTransaction.from_json(value) for value in values["setTransactions"]),
            domain_metadata=tuple(DomainMetadata.from_json(value) for value in values["domainMetadata"]),
            metadata=None if metadata is None else Metadata.from_json(metadata),
            protocol=None if protocol is None else Protocol.from_json(protocol),
            file_size_histogram=FileSizeHistogram.from_json(values["fileSizeHistogram"]),
            deleted_record_counts_histogram=DeletedRecordCountsHistogram.from_json(
                values["deletedRecordCountsHistogram"]
            ),
        )
