"""The actions of a Delta log as values, with the fields of PROTOCOL.md, Actions, in snake_case.

Each is a `JsonRecord`: it reads a decoded object with `from_json`, and writes it with `to_json`.
`CommitInfo` is in `commit_info`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.protocol.json_records import Flag, Int, JsonRecord, Long, Properties, Texts
from deltasnap_core.redaction import safe_repr

__all__ = [
    "AddCDCFile",
    "AddFile",
    "CommitInfo",
    "DeletionVectorDescriptor",
    "DomainMetadata",
    "Format",
    "Metadata",
    "Protocol",
    "RemoveFile",
    "SetTransaction",
]


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol(JsonRecord):
    """The features that a client must support to read and write the table.

    reader_features, writer_features: in log order; None: no such list, which differs from an empty one.
    Source: PROTOCOL.md, Protocol Evolution.
    """

    json_name = "protocol"

    min_reader_version: Int
    min_writer_version: Int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @property
    def features(self) -> frozenset[str]:
        """The features that the table supports, by either list."""
        return frozenset((*(self.reader_features or ()), *(self.writer_features or ())))


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Format(JsonRecord):
    """How the data files are encoded. Source: PROTOCOL.md, Format Specification."""

    json_name = "metaData.format"

    provider: str = "parquet"
    options: Properties = field(default_factory=dict)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata(JsonRecord):
    """The metadata of a table.

    schema_string: the schema as JSON text; None: the action has none. Then files can be counted, rows cannot be read.
    created_time:  ms since the epoch.
    configuration: the table's properties; properties without a value are left out.
    Absent `format`, `partitionColumns` and `configuration` mean Parquet, no columns and no properties, as in Delta on
    Spark.
    Source: PROTOCOL.md, Change Metadata.
    """

    json_name = "metaData"

    id: str
    name: str | None = None
    description: str | None = None
    format: Format = field(default_factory=Format)
    schema_string: str | None = None
    partition_columns: tuple[str, ...] = ()
    configuration: Properties = field(default_factory=dict)
    created_time: Long | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVectorDescriptor(JsonRecord):
    """The location of a deletion vector, and the number of rows it deletes.

    storage_type:      "u" (file named by a UUID, relative to the table), "p" (absolute path) or "i" (inline).
    path_or_inline_dv: the encoded UUID with its prefix, the path, or the encoded vector itself.
    offset:            first byte in its file; None for an inline vector, and not the same as 0.
    size_in_bytes:     of the serialized vector.
    cardinality:       number of deleted rows.
    max_row_index:     highest row index in it; transient, hardly ever written.

    Source: PROTOCOL.md, Deletion Vector Descriptor Schema.
    """

    json_name = "deletionVector"

    storage_type: str
    path_or_inline_dv: str
    offset: Int | None = None
    size_in_bytes: Int
    cardinality: Long
    max_row_index: Long | None = None

    @property
    def unique_id(self) -> str:
        """`<storageType><pathOrInlineDv>`, followed by `@<offset>` unless the offset is None.

        The path and this id are the key of a logical file. Source: PROTOCOL.md, Deletion Vectors, Derived Fields.
        """
        at_offset = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{at_offset}"


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class AddFile(JsonRecord):
    """A logical file of the table: a data file and, if there is one, its deletion vector.

    path:              as in the log: a URI (percent-encoded), relative to the table or absolute.
    partition_values:  by column (its physical name under column mapping); None values are nulls.
    size:              bytes of the data file.
    modification_time: ms since the epoch.
    data_change:       False: the file only rearranges existing data.
    stats:             JSON text.
    Source: PROTOCOL.md, Add File and Remove File.
    """

    json_name = "add"

    path: str
    partition_values: Texts = field(default_factory=dict)
    size: Long
    modification_time: Long
    data_change: Flag
    stats: str | None = None
    tags: Texts | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None
    clustering_provider: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """The key of the logical file: path and id of the deletion vector (None: no deletion vector)."""
        return self.path, None if self.deletion_vector is None else self.deletion_vector.unique_id


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile(JsonRecord):
    """A logical file that was removed from the table: a tombstone.

    deletion_timestamp:     ms since the epoch; None counts as 0 for expiry.
    extended_file_metadata: True: `partition_values`, `size` and `tags` are present.
    The other fields are as in AddFile. Source: PROTOCOL.md, Add File and Remove File.
    """

    json_name = "remove"

    path: str
    deletion_timestamp: Long | None = None
    data_change: Flag
    extended_file_metadata: Flag | None = None
    partition_values: Texts | None = None
    size: Long | None = None
    stats: str | None = None
    tags: Texts | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: Long | None = None
    default_row_commit_version: Long | None = None


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class AddCDCFile(JsonRecord):
    """A file with the rows that a commit changed. Fields as in AddFile. Source: PROTOCOL.md, Add CDC File."""

    json_name = "cdc"

    path: str
    partition_values: Texts | None = None
    size: Long | None = None


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransaction(JsonRecord):
    """The progress of an application. Its versions may go down.

    last_updated: ms since the epoch. Source: PROTOCOL.md, Transaction Identifiers.
    """

    json_name = "txn"

    app_id: str
    version: Long
    last_updated: Long | None = None


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata(JsonRecord):
    """The configuration of a metadata domain. removed: the domain no longer exists.

    Source: PROTOCOL.md, Domain Metadata.
    """

    json_name = "domainMetadata"

    domain: str
    configuration: str
    removed: Flag
