"""VersionChecksum: the state of a version as stated by its writer in a `.crc` file."""

from __future__ import annotations

from dataclasses import dataclass

from deltasnap_core.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.json_fields import JsonFields
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.protocol.state.deleted_record_counts_histogram import DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import FileSizeHistogram
from deltasnap_core.redaction import safe_repr


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """The state of a version as stated by its writer. It is a hint: compare it with the log before you rely on it.

    Fields are named as in the file, without a trailing `Opt`. None: the writer left the field out. `protocol` and
    `metadata` are required today, but older writers left them out.
    table_size_bytes, num_files: of the live files.
    in_commit_timestamp: ms since the epoch.
    domain_metadata: without removed domains.
    num_deleted_records, num_deletion_vectors: of the live files.
    Source: PROTOCOL.md, Version Checksum File Schema.
    """

    table_size_bytes: int
    num_files: int
    num_metadata: int
    num_protocol: int
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    txn_id: str | None = None
    in_commit_timestamp: int | None = None
    set_transactions: tuple[SetTransaction, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None
    file_size_histogram: FileSizeHistogram | None = None
    all_files: tuple[AddFile, ...] | None = None
    num_deleted_records: int | None = None
    num_deletion_vectors: int | None = None
    deleted_record_counts_histogram: DeletedRecordCountsHistogram | None = None

    @classmethod
    def parse(cls, content: bytes) -> VersionChecksum:
        """Return a parsed `.crc` file. Errors: ValueError if it is not a JSON object or a field is invalid.

        The older names of the histograms are recognized too.
        """
        fields = JsonFields("checksum", decode_json(content))
        if (num_files := fields.integer("numFiles")) < 0:
            raise ValueError(f"checksum.numFiles: expected 0 or more, found {num_files}")
        return cls(
            table_size_bytes=fields.integer("tableSizeBytes"),
            num_files=num_files,
            num_metadata=fields.integer("numMetadata"),
            num_protocol=fields.integer("numProtocol"),
            metadata=fields.optional_record("metadata", _metadata),
            protocol=fields.optional_record("protocol", Protocol.from_json),
            txn_id=fields.optional_string("txnId"),
            in_commit_timestamp=fields.optional_integer("inCommitTimestampOpt"),
            set_transactions=fields.optional_sequence("setTransactions", SetTransaction.from_json),
            domain_metadata=fields.optional_sequence("domainMetadata", DomainMetadata.from_json),
            file_size_histogram=(
                fields.optional_record("fileSizeHistogram", FileSizeHistogram.from_json)
                or fields.optional_record("histogramOpt", FileSizeHistogram.from_json)
            ),
            all_files=fields.optional_sequence("allFiles", AddFile.from_json),
            num_deleted_records=fields.optional_integer("numDeletedRecordsOpt"),
            num_deletion_vectors=fields.optional_integer("numDeletionVectorsOpt"),
            deleted_record_counts_histogram=(
                fields.optional_record("deletedRecordCountsHistogramOpt", DeletedRecordCountsHistogram.from_json)
                or fields.optional_record("deletedRecordCountsHistogram", DeletedRecordCountsHistogram.from_json)
            ),
        )


def _metadata(values: object) -> Metadata:
    """Return the metadata. Errors: ValueError, including for a schema that is not the JSON of a struct."""
    metadata = Metadata.from_json(values)
    schema = None if metadata.schema_string is None else decode_json(metadata.schema_string)
    if schema is not None and not (isinstance(schema, dict) and schema.get("type") == "struct"):
        raise ValueError(f"metaData.schemaString: expected a struct, found {metadata.schema_string!r:.80}")
    return metadata
