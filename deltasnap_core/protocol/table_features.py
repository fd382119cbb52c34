"""Checks whether the protocol of a table is supported for reading.

Source: PROTOCOL.md, Table Features; Reader Version Requirements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deltasnap_core.errors import UnsupportedProtocolError
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.properties.table_config import (
    COLUMN_MAPPING_MODE,
    IN_COMMIT_TIMESTAMPS,
    change_data_feed_enabled,
)
from deltasnap_core.protocol.type_changes import without_unreadable_changes

MAX_READER_VERSION, _WITH_WRITER_FEATURES = 3, 7
"""The versions of a protocol with lists of features."""

CATALOG_MANAGED = frozenset({"catalogManaged", "catalogOwned-preview"})
"""The names of one feature: Delta renamed it in 4.0.1."""

SUPPORTED_READER_FEATURES = CATALOG_MANAGED | frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantShredding",
        "variantShredding-preview",
        "variantType",
        "variantType-preview",
    }
)
"""The supported reader features."""

_MAPPED = "columnMapping"
"""The feature of column mapping. After an upgrade by Delta on Spark, `writerFeatures` alone may list it.
The data files still have physical names: Delta on Spark and delta-kernel-rs read them by these names.
"""

_TIMED = frozenset({"inCommitTimestamp", "inCommitTimestamp-preview"})
"""The names of the feature that commits have their own timestamp."""

_WIDENED = frozenset({"typeWidening", "typeWidening-preview"})
"""The names of the feature that columns may have had other types."""

ADAPTIVE_METADATA = "adaptiveMetadata"

MANIFEST_COMMIT_ACTION = "checkpoint"
"""The action that a commit of a table with an adaptive metadata tree may have instead of all others, even protocol
and metadata. If a reader ignored it as an unknown action, it would misread the table.
"""


def unsupported_reader_features(protocol: Protocol) -> tuple[str, ...]:
    """Return the reader features of `protocol` that deltasnap does not support, in order.

    Only `readerFeatures` count: a feature that is only in `writerFeatures` does not concern a reader.
    """
    return tuple(name for name in protocol.reader_features or () if name not in SUPPORTED_READER_FEATURES)


def is_catalog_managed(protocol: Protocol | None) -> bool:
    """Return whether a catalog ratifies the commits of a table. Some of them may not be published in its log yet.

    Source: PROTOCOL.md, Catalog-managed tables.
    """
    return protocol is not None and not CATALOG_MANAGED.isdisjoint(protocol.features)


def table_properties(protocol: Protocol, metadata: Metadata) -> dict[str, str]:
    """Return the properties as in SHOW TBLPROPERTIES: those of the metadata without `path`, and those of the protocol.

    The latter are `delta.minReaderVersion`, `delta.minWriterVersion`, and `delta.feature.<name>` = `supported`.
    Delta's `Snapshot.getProperties`.
    """
    properties = {key: value for key, value in metadata.configuration.items() if key != "path"}
    properties["delta.minReaderVersion"] = str(protocol.min_reader_version)
    properties["delta.minWriterVersion"] = str(protocol.min_writer_version)
    return properties | {f"delta.feature.{name}": "supported" for name in sorted(protocol.features)}


def properties_in_force(protocol: Protocol | None, metadata: Metadata | None) -> Mapping[str, str]:
    """Return the table properties without the column mapping mode and the commit timestamps, if not supported.

    Such a property is a leftover, which readers must ignore. None: unknown; without a protocol, every property counts.
    Source: PROTOCOL.md, Column Mapping, Reader Requirements; In-Commit Timestamps.
    """
    found = {} if metadata is None else metadata.configuration
    leftovers = set()
    if protocol is not None:
        if protocol.min_reader_version != 2 and _MAPPED not in protocol.features:
            leftovers.add(COLUMN_MAPPING_MODE)
        if _TIMED.isdisjoint(protocol.features):
            leftovers.add(IN_COMMIT_TIMESTAMPS)
    return found if leftovers.isdisjoint(found) else {k: v for k, v in found.items() if k not in leftovers}


def metadata_to_read(protocol: Protocol | None, metadata: Metadata) -> Metadata:
    """Return the metadata by which rows are read: with the `properties_in_force`.

    Without the feature for type changes, changes that cannot be read are left out, since they need not be supported.
    Source: PROTOCOL.md, Type Widening, Reader Requirements. Delta's `TypeWidening.assertTableReadable`.
    """
    configuration, schema = properties_in_force(protocol, metadata), metadata.schema_string
    if protocol is not None and _WIDENED.isdisjoint(protocol.features):
        schema = without_unreadable_changes(schema)
    is_same = configuration is metadata.configuration and schema is metadata.schema_string
    return metadata if is_same else replace(metadata, configuration=configuration, schema_string=schema)


def has_change_data_feed(protocol: Protocol | None, metadata: Metadata) -> bool:
    """Return whether writers record row changes: if the property is set and the protocol supports it.

    protocol: None: unknown, then the property decides.
    Source: PROTOCOL.md, Writer Requirements for AddCDCFile.
    """
    if not change_data_feed_enabled(metadata.configuration):
        return False
    if protocol is None or 4 <= protocol.min_writer_version < 7:
        return True
    return "changeDataFeed" in (protocol.writer_features or ())


def is_readable(protocol: Protocol) -> bool:
    """Return whether deltasnap can read a table with `protocol`."""
    return _is_supported(protocol) and _why_invalid(protocol) is None


def check_readable(protocol: Protocol, *, path: str, version: int) -> None:
    """Raise UnsupportedProtocolError unless a table with `protocol` can be read. path, version: for the error."""
    if not is_readable(protocol):
        raise UnsupportedProtocolError(
            path=path,
            version=version,
            features=unsupported_reader_features(protocol),
            min_reader_version=protocol.min_reader_version,
            invalid=_why_invalid(protocol) if _is_supported(protocol) else None,
        )


def _is_supported(protocol: Protocol) -> bool:
    return 1 <= protocol.min_reader_version <= MAX_READER_VERSION and not unsupported_reader_features(protocol)


def _why_invalid(protocol: Protocol) -> str | None:
    """Return why the versions and the lists of a protocol contradict each other; None: they do not.

    Such a protocol does not state which features the table needs. Delta on Spark and delta-kernel-rs refuse it, too.
    Source: PROTOCOL.md, Protocol Evolution; Table Features. Delta's `Protocol`.
    """
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    for kind, version, first_with_list, features in (
        ("reader", reader, MAX_READER_VERSION, protocol.reader_features),
        ("writer", writer, _WITH_WRITER_FEATURES, protocol.writer_features),
    ):
        if features is None and version == first_with_list:
            return f"{kind} version {version} without {kind}Features"
        if features is not None and version < first_with_list:
            return f"{kind} version {version} with {kind}Features"
    is_mixed = reader >= MAX_READER_VERSION and writer < _WITH_WRITER_FEATURES
    return f"reader version {reader} with writer version {writer}" if is_mixed else None


def check_no_manifest_commit(action_names: frozenset[str], *, path: str, version: int) -> None:
    """Raise UnsupportedProtocolError if a commit with actions of these names belongs to a manifest tree."""
    if MANIFEST_COMMIT_ACTION in action_names:
        raise UnsupportedProtocolError(
            path=path, version=version, features=(ADAPTIVE_METADATA,), min_reader_version=MAX_READER_VERSION
        )
