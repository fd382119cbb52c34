from __future__ import annotations

import pytest

from deltasnap_core.errors import UnsupportedProtocolError
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.table_features import (
    SUPPORTED_READER_FEATURES,
    check_no_manifest_commit,
    check_readable,
    has_change_data_feed,
    metadata_to_read,
    properties_in_force,
    table_properties,
)
from tests import builders

MAPPED = Metadata(id="t", configuration={"delta.columnMapping.mode": "name", "a": "1"})


def protocol(reader: int, features: tuple[str, ...] | None = None, writer: tuple[str, ...] = ()) -> Protocol:
    return Protocol(min_reader_version=reader, min_writer_version=7, reader_features=features, writer_features=writer)


@pytest.mark.parametrize(
    "readable",
    [
        protocol(1),
        protocol(2),
        protocol(2, writer=("columnMapping", "neverHeardOf")),
        protocol(3, features=()),
        protocol(3, features=tuple(sorted(SUPPORTED_READER_FEATURES)), writer=("neverHeardOf",)),
        Protocol(min_reader_version=2, min_writer_version=6),
        Protocol(min_reader_version=2, min_writer_version=8),
    ],
    ids=["1", "2", "unknown writer feature", "empty list", "every supported feature", "no lists", "later writers"],
)
def test_protocol_without_unknown_features_is_readable(readable: Protocol) -> None:
    check_readable(readable, path="file:///t", version=3)


@pytest.mark.parametrize(
    ("refused", "features"),
    [
        (protocol(3, features=("deletionVectors", "catalogOwned", "geospatial")), ("catalogOwned", "geospatial")),
        (protocol(3, features=("adaptiveMetadata",)), ("adaptiveMetadata",)),
        (protocol(3, features=("DeletionVectors",)), ("DeletionVectors",)),
        (protocol(1, features=("neverHeardOf",)), ("neverHeardOf",)),
        (protocol(3, writer=("deletionVectors",)), ()),
        (protocol(4), ()),
        (protocol(99, features=("neverHeardOf",)), ("neverHeardOf",)),
        (protocol(0), ()),
    ],
    ids=["unknown", "adaptive", "exact names", "below version 3", "no list", "version 4", "version 99", "version 0"],
)
def test_unsupported_protocol_is_rejected_by_name(refused: Protocol, features: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedProtocolError) as caught:
        check_readable(refused, path="file:///t", version=3)
    error = caught.value
    assert (error.path, error.version, error.features) == ("file:///t", 3, features)
    assert error.min_reader_version == refused.min_reader_version


@pytest.mark.parametrize(
    ("reader", "writer", "reader_features", "writer_features", "reason"),
    [
        (3, 7, None, (), "reader version 3 without readerFeatures"),
        (1, 7, (), (), "reader version 1 with readerFeatures"),
        (2, 7, ("columnMapping",), ("columnMapping",), "reader version 2 with readerFeatures"),
        (1, 7, None, None, "writer version 7 without writerFeatures"),
        (1, 6, None, ("appendOnly",), "writer version 6 with writerFeatures"),
        (3, 6, (), None, "reader version 3 with writer version 6"),
    ],
)
def test_protocol_whose_versions_and_lists_contradict_each_other_is_rejected(
    reader: int,
    writer: int,
    reader_features: tuple[str, ...] | None,
    writer_features: tuple[str, ...] | None,
    reason: str,
) -> None:
    given = Protocol(
        min_reader_version=reader,
        min_writer_version=writer,
        reader_features=reader_features,
        writer_features=writer_features,
    )
    with pytest.raises(UnsupportedProtocolError, match=f"invalid protocol: {reason}") as caught:
        check_readable(given, path="file:///t", version=3)
    assert caught.value.invalid == reason


def test_supported_features_are_readable_features() -> None:
    assert set(SUPPORTED_READER_FEATURES) == {
        "catalogManaged", "catalogOwned-preview", "columnMapping", "deletionVectors", "timestampNtz", "typeWidening",
        "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck", "variantShredding", "variantShredding-preview",
        "variantType", "variantType-preview",
    }  # fmt: skip


FEED = Metadata(id="t", configuration={"delta.enableChangeDataFeed": "true"})


@pytest.mark.parametrize(
    ("writer", "features", "expected"),
    [
        (2, None, False), (3, None, False), (4, None, True), (6, None, True), (7, None, False),
        (7, ("appendOnly",), False), (7, ("changeDataFeed",), True),
    ],
)  # fmt: skip
def test_feed_needs_the_property_and_a_protocol_that_supports_it(
    writer: int, features: tuple[str, ...] | None, expected: bool
) -> None:
    table = Protocol(min_reader_version=1, min_writer_version=writer, writer_features=features)
    assert has_change_data_feed(table, FEED) is expected
    assert not has_change_data_feed(table, MAPPED)


@pytest.mark.parametrize("feed", [{"Feed": "true"}, {"Capture": "true"}, {"Capture": "false", "Feed": "true"}], ids=str)
def test_feed_of_an_unknown_protocol_is_that_of_the_property(feed: dict[str, str]) -> None:
    properties = {f"delta.enableChangeData{name}": value for name, value in feed.items()}
    assert has_change_data_feed(None, Metadata(id="t", configuration=properties))


def test_properties_of_a_table_come_from_metadata_and_protocol() -> None:
    metadata = Metadata.from_json(builders.metadata(configuration={"a": "b", "path": "/x"})["metaData"])
    features = protocol(3, features=("columnMapping",), writer=("columnMapping", "appendOnly"))
    assert table_properties(features, metadata) == {
        "a": "b",
        "delta.minReaderVersion": "3",
        "delta.minWriterVersion": "7",
        "delta.feature.appendOnly": "supported",
        "delta.feature.columnMapping": "supported",
    }


def test_manifest_commit_is_rejected() -> None:
    check_no_manifest_commit(frozenset({"add", "checkpointMetadata", "someday"}), path="file:///t", version=3)
    with pytest.raises(UnsupportedProtocolError, match="adaptiveMetadata"):
        check_no_manifest_commit(frozenset({"commitInfo", "checkpoint"}), path="file:///t", version=3)


def test_features_are_those_of_both_lists() -> None:
    both = protocol(3, features=("catalogManaged",), writer=("inCommitTimestamp",))
    assert both.features == {"catalogManaged", "inCommitTimestamp"}
    assert protocol(1).features == frozenset()


@pytest.mark.parametrize(
    "supporting",
    [
        protocol(2),
        protocol(3, features=("columnMapping",)),
        protocol(3, features=(), writer=("columnMapping",)),
        protocol(1, writer=("columnMapping",)),
        None,
    ],
    ids=["version 2", "feature", "feature of writers alone", "version 1", "unknown"],
)
def test_column_mapping_needs_the_support_of_the_protocol(supporting: Protocol | None) -> None:
    assert metadata_to_read(supporting, MAPPED) is MAPPED


@pytest.mark.parametrize("other", [protocol(1, writer=("appendOnly",)), protocol(3), protocol(3, features=())])
def test_a_mode_of_column_mapping_that_the_protocol_does_not_support_is_left_out(other: Protocol) -> None:
    assert metadata_to_read(other, MAPPED).configuration == {"a": "1"}


def test_type_changes_that_cannot_be_read_count_only_if_the_protocol_supports_changes() -> None:
    narrower = '{"fields":[{"metadata":{"a":1,"delta.typeChanges":[{"fromType":"long","toType":"byte"}]}}]}'
    wider = narrower.replace("byte", "decimal(20,0)")
    changed, widened = (Metadata(id="t", schema_string=schema) for schema in (narrower, wider))
    for name in ("typeWidening", "typeWidening-preview"):
        assert metadata_to_read(protocol(3, features=(name,)), changed) is changed
    assert metadata_to_read(protocol(1), changed).schema_string == '{"fields":[{"metadata":{"a":1}}]}'
    assert metadata_to_read(protocol(1), widened) == widened


@pytest.mark.parametrize(
    ("known", "is_in_force"),
    [(None, True), (protocol(1, writer=("inCommitTimestamp",)), True), (protocol(1, writer=("appendOnly",)), False)],
)
def test_commit_timestamps_need_the_support_of_the_protocol(known: Protocol | None, is_in_force: bool) -> None:
    timed = {"delta.enableInCommitTimestamps": "true"}
    table = Metadata.from_json(builders.metadata(configuration={"a": "1", **timed})["metaData"])
    assert properties_in_force(known, table) == {"a": "1", **(timed if is_in_force else {})}
    assert properties_in_force(known, None) == {}
