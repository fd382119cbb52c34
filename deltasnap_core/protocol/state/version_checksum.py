"""VersionChecksum: the state of a version as stated by its writer in a `.crc` file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field

from deltasnap_core.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.json_records import JsonRecord, Long
from deltasnap_core.protocol.json_text import decode_json
from deltasnap_core.protocol.state.deleted_record_counts_histogram import DeletedRecordCountsHistogram
from deltasnap_core.protocol.state.file_size_histogram import FileSizeHistogram
from deltasnap_core.redaction import safe_repr


def _with_struct(metadata: Metadata) -> Metadata:
    """Return metadata whose schema is the JSON of a struct. Errors: ValueError."""
    schema = None if metadata.schema_string is None else decode_json(metadata.schema_string)
    if schema is not None and not (isinstance(schema, dict) and schema.get("type") == "struct"):
        raise ValueError(f"metaData.schemaString: expected a struct, found {metadata.schema_string!r:.80}")
    return metadata


def _named(*names: str) -> Any:
    return Field(validation_alias=AliasChoices(*names))


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum(JsonRecord):
    """The state of a version as stated by its writer. It is a hint: compare it with the log before you rely on it.

    Fields are named as in the file, without a trailing `Opt`. None: the writer left the field out. `protocol` and
    `metadata` are required today, but older writers left them out.
    table_size_bytes, num_files: of the live files.
    in_commit_timestamp: ms since the epoch.
    domain_metadata: without removed domains.
    num_deleted_records, num_deletion_vectors: of the live files.
    Source: PROTOCOL.md, Version Checksum File Schema.
    """

    json_name = "checksum"

    table_size_bytes: Long
    num_files: Long
    num_metadata: Long
    num_protocol: Long
    metadata: Annotated[Metadata, AfterValidator(_with_struct)] | None = None
    protocol: Protocol | None = None
    txn_id: str | None = None
    in_commit_timestamp: Annotated[Long | None, Field(alias="inCommitTimestampOpt")] = None
    set_transactions: tuple[SetTransaction, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None
    file_size_histogram: Annotated[FileSizeHistogram | None, _named("fileSizeHistogram", "histogramOpt")] = None
    all_files: tuple[AddFile, ...] | None = None
    num_deleted_records: Annotated[Long | None, Field(alias="numDeletedRecordsOpt")] = None
    num_deletion_vectors: Annotated[Long | None, Field(alias="numDeletionVectorsOpt")] = None
    deleted_record_counts_histogram: Annotated[
        DeletedRecordCountsHistogram | None,
        _named("deletedRecordCountsHistogramOpt", "deletedRecordCountsHistogram"),
    ] = None

    @classmethod
    def parse(cls, content: bytes) -> VersionChecksum:
        """Return a parsed `.crc` file. Errors: ValueError if it is not a JSON object or a field is invalid.

        The older names of the histograms are recognized too.
        """
        found = cls.from_json(decode_json(content))
        if found.num_files < 0:
            raise ValueError(f"checksum.numFiles: expected 0 or more, found {found.num_files}")
        return found
