"""Checks whether the protocol of a table allows deltasnap to write a checkpoint.

Source: PROTOCOL.md, Table Features; Writer Version Requirements.
"""

from __future__ import annotations

from deltasnap_core.errors import UnsupportedWriterError
from deltasnap_core.protocol.actions import Protocol

MAX_WRITER_VERSION = 7

CHECKPOINT_WRITER_FEATURES = frozenset(
    {
        "allowColumnDefaults",
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "checkpointProtection",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "identityColumns",
        "inCommitTimestamp",
        "inCommitTimestamp-preview",
        "invariants",
        "materializePartitionColumns",
        "rowTracking",
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
"""The supported writer features: a checkpoint needs no actions or fields for them beyond those that deltasnap writes.

Other features may define new actions or fields, or restrict who may write checkpoints, as `catalogManaged` does.
"""


def check_writable(protocol: Protocol, *, path: str, version: int) -> None:
    """Raise UnsupportedWriterError unless a checkpoint of a table with `protocol` can be written.

    path, version: for the error. The features of both lists are checked, below writer version 7 too.
    """
    if has_unknown_writer_features(protocol):
        unknown = tuple(sorted(protocol.features.difference(CHECKPOINT_WRITER_FEATURES)))
        raise UnsupportedWriterError(
            path=path, version=version, features=unknown, min_writer_version=protocol.min_writer_version
        )


def has_unknown_writer_features(protocol: Protocol, *, known: frozenset[str] = CHECKPOINT_WRITER_FEATURES) -> bool:
    """Return whether the protocol has a writer version or features that are unknown. known: the known features."""
    return not (protocol.features <= known and 1 <= protocol.min_writer_version <= MAX_WRITER_VERSION)
