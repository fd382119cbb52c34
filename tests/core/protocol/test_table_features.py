"""The features that a table needs, for readers and for writers, and changes of types."""

from __future__ import annotations

import pytest

from deltasnap_core.errors import UnsupportedProtocolError, UnsupportedWriterError
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
from deltasnap_core.protocol.type_changes import is_readable_change, is_supported_change
from deltasnap_core.protocol.writer_features import CHECKPOINT_WRITER_FEATURES, check_writable
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
def test_feed_needs_the_property_and_a_protocol(writer: int, features: tuple[str, ...] | None, expected: bool) -> None:
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


def of_writer(reader: int, writer: int, *, readers: tuple[str, ...] = (), writers: tuple[str, ...] = ()) -> Protocol:
    return Protocol(
        min_reader_version=reader, min_writer_version=writer, reader_features=readers, writer_features=writers
    )


@pytest.mark.parametrize("writer", range(1, 8))
def test_every_writer_version_of_the_protocol_is_writable(writer: int) -> None:
    check_writable(of_writer(1, writer), path="t", version=0)


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
    check_writable(of_writer(3, 7, writers=(feature,)), path="t", version=0)


def test_no_other_feature_is_writable() -> None:
    assert set(WRITABLE) == CHECKPOINT_WRITER_FEATURES


@pytest.mark.parametrize(
    "table",
    [
        of_writer(1, 7, writers=("appendOnly", "new", "other")),
        of_writer(3, 7, readers=("other", "new"), writers=("new",)),
        of_writer(1, 2, writers=("other", "new")),
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
        check_writable(of_writer(1, writer), path="t", version=4)


@pytest.mark.parametrize("name", ["catalogManaged", "coordinatedCommits-preview", "adaptiveMetadata", "collations"])
def test_features_that_change_writers_or_retention_are_unknown(name: str) -> None:
    assert name not in CHECKPOINT_WRITER_FEATURES


DIGITS = {"byte": len(str(2**7)), "short": len(str(2**15)), "integer": len(str(2**31)), "long": len(str(2**63))}


@pytest.mark.parametrize("scale", [0, 4])
@pytest.mark.parametrize("kind", DIGITS)
def test_integer_becomes_a_decimal_that_has_all_its_digits(kind: str, scale: int) -> None:
    digits = DIGITS[kind] + scale
    assert is_readable_change(kind, f"decimal({digits},{scale})")
    assert not is_readable_change(kind, f"decimal({digits - 1},{scale})")


@pytest.mark.parametrize("scale", [0, 4])
@pytest.mark.parametrize("kind", DIGITS)
def test_integer_in_an_array_or_map_becomes_a_decimal_that_the_protocol_allows(kind: str, scale: int) -> None:
    digits = (20 if kind == "long" else 10) + scale
    for precision, expected in ((digits, True), (digits - 1, False)):
        change = {"fromType": kind, "toType": f"decimal({precision},{scale})", "fieldPath": "element"}
        assert is_supported_change(change) is expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("byte", "short", True),
        ("short", "integer", True),
        ("integer", "long", True),
        ("long", "integer", False),
        ("integer", "double", True),
        ("long", "double", False),  # loses digits
        ("integer", "float", False),
        ("float", "double", True),
        ("double", "float", False),
        ("date", "timestamp_ntz", True),
        ("date", "timestamp", False),
        ("timestamp_ntz", "date", False),
        ("decimal(5,2)", "decimal(7,4)", True),
        ("decimal(5,2)", "decimal(6,4)", False),
        ("decimal(5,2)", "decimal(5,1)", False),
        ("decimal(3,0)", "long", False),
        ("varchar(3)", "string", True),
        ("string", "char(3)", True),
        ("string", "binary", False),
        ("long", "long", True),
        (None, "long", False),
        ("long", {"type": "struct"}, False),
    ],
)
def test_change_is_readable_if_no_value_is_lost(before: object, after: object, expected: bool) -> None:
    assert is_readable_change(before, after) is expected
