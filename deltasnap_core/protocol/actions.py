"""The actions of a Delta log as values, with the fields of PROTOCOL.md, Actions, in snake_case.

Each has `from_json` (from a decoded object; unknown fields are ignored, null counts as absent, and ValueError names a
missing or mistyped field) and `to_json` (back to the object, without None fields). `CommitInfo` is in `commit_info`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.protocol.deletion_vector import DeletionVectorDescriptor
from deltasnap_core.protocol.json_fields import JsonFields, JsonRecord
from deltasnap_core.redaction import safe_repr

__all__ = [
    "AddFile",
    "CommitInfo",
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

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, values: object) -> Protocol:
        """Return the protocol of a decoded `protocol` object."""
        fields = JsonFields("protocol", values)
        return cls(
            min_reader_version=fields.short_integer("minReaderVersion"),
            min_writer_version=fields.short_integer("minWriterVersion"),
            reader_features=fields.optional_strings("readerFeatures"),
            writer_features=fields.optional_strings("writerFeatures"),
        )

    @property
    def features(self) -> frozenset[str]:
        """The features that the table supports, by either list."""
        return frozenset((*(self.reader_features or ()), *(self.writer_features or ())))


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Format(JsonRecord):
    """How the data files are encoded. Source: PROTOCOL.md, Format Specification."""

    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, values: object) -> Format:
        """Return the format of a decoded `format` object; missing fields get the defaults of this class."""
        fields = JsonFields("metaData.format", values)
        return cls(
            provider=fields.optional_string("provider") or "parquet",
            options=fields.optional_property_map("options") or {},
        )


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata(JsonRecord):
    """The metadata of a table.

    schema_string: the schema as JSON text; None: the action has none (an empty schema).
    created_time:  ms since the epoch.
    configuration: the table's properties; properties without a value are left out.
    Absent `format`, `partitionColumns` and `configuration` mean Parquet, no columns and no properties, as in Delta on
    Spark.
    Source: PROTOCOL.md, Change Metadata.
    """

    id: str
    name: str | None = None
    description: str | None = None
    format: Format = field(default_factory=Format)
    schema_string: str | None = None
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    created_time: int | None = None

    @classmethod
    def from_json(cls, values: object) -> Metadata:
        """Return the metadata of a decoded `metaData` object."""
        fields = JsonFields("metaData", values)
        return cls(
            id=fields.string("id"),
            name=fields.optional_string("name"),
            description=fields.optional_string("description"),
            format=fields.optional_record("format", Format.from_json) or Format(),
            schema_string=fields.optional_string("schemaString"),
            partition_columns=fields.optional_strings("partitionColumns") or (),
            configuration=fields.optional_property_map("configuration") or {},
            created_time=fields.optional_integer("createdTime"),
        )


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

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_time: int
    data_change: bool
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    @classmethod
    def from_json(cls, values: object) -> AddFile:
        """Return the action of a decoded `add` object; absent `partitionValues` become an empty map."""
        fields = JsonFields("add", values)
        return cls(
            path=fields.string("path"),
            partition_values=fields.optional_string_map("partitionValues") or {},
            size=fields.integer("size"),
            modification_time=fields.integer("modificationTime"),
            data_change=fields.boolean("dataChange"),
            stats=fields.optional_string("stats"),
            tags=fields.optional_string_map("tags"),
            deletion_vector=fields.optional_record("deletionVector", DeletionVectorDescriptor.from_json),
            base_row_id=fields.optional_integer("baseRowId"),
            default_row_commit_version=fields.optional_integer("defaultRowCommitVersion"),
            clustering_provider=fields.optional_string("clusteringProvider"),
        )

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

    path: str
    deletion_timestamp: int | None = None
    data_change: bool
    extended_file_metadata: bool | None = None
    partition_values: Mapping[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: Mapping[str, str | None] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    @classmethod
    def from_json(cls, values: object) -> RemoveFile:
        """Return the action of a decoded `remove` object."""
        fields = JsonFields("remove", values)
        return cls(
            path=fields.string("path"),
            deletion_timestamp=fields.optional_integer("deletionTimestamp"),
            data_change=fields.boolean("dataChange"),
            extended_file_metadata=fields.optional_boolean("extendedFileMetadata"),
            partition_values=fields.optional_string_map("partitionValues"),
            size=fields.optional_integer("size"),
            stats=fields.optional_string("stats"),
            tags=fields.optional_string_map("tags"),
            deletion_vector=fields.optional_record("deletionVector", DeletionVectorDescriptor.from_json),
            base_row_id=fields.optional_integer("baseRowId"),
            default_row_commit_version=fields.optional_integer("defaultRowCommitVersion"),
        )


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class SetTransaction(JsonRecord):
    """The progress of an application. Its versions may go down.

    last_updated: ms since the epoch. Source: PROTOCOL.md, Transaction Identifiers.
    """

    app_id: str
    version: int
    last_updated: int | None = None

    @classmethod
    def from_json(cls, values: object) -> SetTransaction:
        """Return the action of a decoded `txn` object."""
        fields = JsonFields("txn", values)
        return cls(
            app_id=fields.string("appId"),
            version=fields.integer("version"),
            last_updated=fields.optional_integer("lastUpdated"),
        )


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata(JsonRecord):
    """The configuration of a metadata domain. removed: the domain no longer exists.

    Source: PROTOCOL.md, Domain Metadata.
    """

    domain: str
    configuration: str
    removed: bool = False

    @classmethod
    def from_json(cls, values: object) -> DomainMetadata:
        """Return the action of a decoded `domainMetadata` object."""
        fields = JsonFields("domainMetadata", values)
        return cls(
            domain=fields.string("domain"),
            configuration=fields.string("configuration"),
            removed=fields.boolean("removed"),
        )
