"""Decides whether a table allows a checkpoint of a version, by its protocol and properties."""

from __future__ import annotations

from deltasnap_core.errors import CorruptLogError, ProtectedVersionError
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.properties.table_config import check_checkpoint_properties, protected_checkpoints_before
from deltasnap_core.protocol.readable_schema import Place
from deltasnap_core.protocol.writer_features import check_writable


def check_writer(table: str, version: int, protocol: Protocol, metadata: Metadata, place: Place) -> None:
    """Raise unless deltasnap supports what a version asks of writers of checkpoints.

    place: of the metadata. Errors: UnsupportedWriterError; CorruptLogError for an invalid property.
    """
    check_writable(protocol, path=table, version=version)
    try:
        check_checkpoint_properties(metadata.configuration)
    except ValueError as error:
        path, line = place
        raise CorruptLogError(path=path, line=line, reason=f"version {version}: {error}") from error


def check_not_protected(table: str, version: int, protocol: Protocol, metadata: Metadata) -> None:
    """Raise ProtectedVersionError if a table forbids a checkpoint of a version. protocol, metadata: the latest ones."""
    before = protected_checkpoints_before(metadata.configuration)
    if "checkpointProtection" in protocol.features and version < before:
        raise ProtectedVersionError(path=table, version=version, protected_before=before)
