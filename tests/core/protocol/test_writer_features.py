from __future__ import annotations

import pytest

from deltasnap_core.errors import UnsupportedWriterError
from deltasnap_core.protocol.actions import Protocol
from deltasnap_core.protocol.writer_features import CHECKPOINT_WRITER_FEATURES, check_writable


def protocol(reader: int, writer: int, *, readers: tuple[str, ...] = (), writers: tuple[str, ...] = ()) -> Protocol:
    return Protocol(
        min_reader_version=reader, min_writer_version=writer, reader_features=readers, writer_features=writers
    )


@pytest.mark.parametrize("writer", range(1, 8))
def test_every_writer_version_of_the_protocol_is_writable(writer: int) -> None:
    check_writable(protocol(1, writer), path="t", version=0)


WRITABLE = [
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
]


@pytest.mark.parametrize("feature", WRITABLE)
def test_known_feature_is_writable(feature: str) -> None:
    check_writable(protocol(3, 7, writers=(feature,)), path="t", version=0)


def test_no_other_feature_is_writable() -> None:
    assert set(WRITABLE) == CHECKPOINT_WRITER_FEATURES


@pytest.mark.parametrize(
    "table",
    [
        protocol(1, 7, writers=("appendOnly", "new", "other")),
        protocol(3, 7, readers=("other", "new"), writers=("new",)),
        protocol(1, 2, writers=("other", "new")),
    ],
    ids=["writer features", "reader features", "features below version 7"],
)
def test_unknown_features_are_named(table: Protocol) -> None:
    with pytest.raises(UnsupportedWriterError, match="needs the writer features new, other, which") as raised:
        check_writable(table, path="t", version=4)
    assert (raised.value.features, raised.value.version) == (("new", "other"), 4)


@pytest.mark.parametrize("writer", [0, 8])
def test_unknown_writer_versions_are_rejected(writer: int) -> None:
    with pytest.raises(UnsupportedWriterError, match=f"writer version {writer}"):
        check_writable(protocol(1, writer), path="t", version=4)


@pytest.mark.parametrize("name", ["catalogManaged", "coordinatedCommits-preview", "adaptiveMetadata", "collations"])
def test_features_that_change_writers_or_retention_are_unknown(name: str) -> None:
    assert name not in CHECKPOINT_WRITER_FEATURES
