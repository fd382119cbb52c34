from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deltasnap_core.protocol.actions import (
    AddFile,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)

DELETION_VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}
BIG = 2**53 + 1

EVERY_FIELD: list[tuple[Any, dict[str, Any]]] = [
    (Protocol, {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": ["appendOnly"]}),
    (
        Metadata,
        {
            "id": "af23c9d7",
            "name": "events",
            "description": "what happened",
            "format": {"provider": "parquet", "options": {"a": "b"}},
            "schemaString": '{"type":"struct","fields":[]}',
            "partitionColumns": ["day"],
            "configuration": {"delta.appendOnly": "true"},
            "createdTime": BIG,
        },
    ),
    (
        AddFile,
        {
            "path": "day=2024-01-01/a%20b.parquet",
            "partitionValues": {"day": "2024-01-01", "hour": None},
            "size": BIG,
            "modificationTime": BIG,
            "dataChange": False,
            "stats": '{"numRecords":9007199254740993}',
            "tags": {"ZCUBE_ID": "1", "x": None},
            "deletionVector": DELETION_VECTOR,
            "baseRowId": BIG,
            "defaultRowCommitVersion": 3,
            "clusteringProvider": "liquid",
        },
    ),
    (
        RemoveFile,
        {
            "path": "a.parquet",
            "deletionTimestamp": BIG,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {},
            "size": 0,
            "stats": "{}",
            "tags": {},
            "deletionVector": DELETION_VECTOR,
            "baseRowId": 0,
            "defaultRowCommitVersion": 0,
        },
    ),
    (SetTransaction, {"appId": "app", "version": BIG, "lastUpdated": 0}),
    (DomainMetadata, {"domain": "delta.clustering", "configuration": "{}", "removed": True}),
    (
        CommitInfo,
        {
            "version": 4,
            "inCommitTimestamp": BIG,
            "timestamp": 1515491537026,
            "userId": "1",
            "userName": "ada",
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "none": None},
            "job": {"jobId": "1"},
            "notebook": {"notebookId": "2"},
            "clusterId": "c",
            "readVersion": 3,
            "isolationLevel": "Serializable",
            "isBlindAppend": True,
            "operationMetrics": {"numFiles": "1"},
            "userMetadata": "note",
            "tags": {"a": "b"},
            "engineInfo": "Spark",
            "txnId": "t",
            "clientVersion": "delta-rs.0.17.1",
        },
    ),
]
BY_NAME = {kind.__name__: (kind, values) for kind, values in EVERY_FIELD}


@pytest.mark.parametrize("name", BY_NAME)
def test_action_with_every_field_is_written_as_it_was_read(name: str) -> None:
    kind, values = BY_NAME[name]
    decoded = json.loads(json.dumps(values))
    assert kind.from_json(decoded).to_json() == values


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "CommitInfo"])
def test_action_ignores_unknown_fields(name: str) -> None:
    kind, values = BY_NAME[name]
    assert kind.from_json({**values, "someday": {"a": [1]}}) == kind.from_json(values)


@pytest.mark.parametrize(
    ("kind", "required"),
    [
        (Protocol, {"minReaderVersion": 1, "minWriterVersion": 2}),
        (AddFile, {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}),
        (RemoveFile, {"path": "a", "dataChange": True}),
        (SetTransaction, {"appId": "a", "version": 1}),
        (CommitInfo, {}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_action_null_fields_are_absent_fields(kind: Any, required: dict[str, Any]) -> None:
    optional = {key: None for key in BY_NAME[kind.__name__][1] if key not in required}
    with_nulls = kind.from_json({**required, **{key: None for key in optional if key != "clientVersion"}})
    assert with_nulls == kind.from_json(required)
    assert with_nulls.to_json() == required


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (AddFile, {"size": 1}, r"add\.path: required, but absent or null"),
        (AddFile, {"path": 7}, r"add\.path: expected a string, found 7"),
        (AddFile, {"path": "a", "partitionValues": []}, r"add\.partitionValues: expected an object, found \[\]"),
        (AddFile, {"path": "a", "size": "1"}, r"add\.size: expected a 64-bit integer, found '1'"),
        (AddFile, {"path": "a", "size": True}, r"add\.size: expected a 64-bit integer, found True"),
        (AddFile, {"path": "a", "size": 1.5}, r"add\.size: expected a 64-bit integer, found 1\.5"),
        (AddFile, {"path": "a", "size": 2**63}, r"add\.size: expected a 64-bit integer"),
        (RemoveFile, {"path": "a", "dataChange": 1}, r"remove\.dataChange: expected a boolean, found 1"),
        (RemoveFile, {"path": "a", "dataChange": True, "deletionVector": 5}, "deletionVector: expected an object"),
        (Protocol, {"minReaderVersion": 1, "minWriterVersion": 2**31}, r"minWriterVersion: .* 32-bit"),
        (Protocol, {"minReaderVersion": 2**40, "minWriterVersion": 7}, r"minReaderVersion: .* 32-bit"),
        (Protocol, {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": "x"}, r"readerFeatures: .* array"),
        (
            Protocol,
            {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [1]},
            r"readerFeatures\[0\]: expected a string",
        ),
        (Metadata, {"name": "x"}, r"metaData\.id: required"),
        (SetTransaction, "txn", r"txn: expected an object, found 'txn'"),
        (DomainMetadata, {"domain": "d", "configuration": "{}"}, r"domainMetadata\.removed: required"),
        (CommitInfo, [], r"commitInfo: expected an object"),
    ],
    ids=range(17),
)
def test_action_with_a_wrong_field_raises_an_error_that_names_it(kind: Any, values: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind.from_json(values)


def test_protocol_distinguishes_absent_features_from_empty_ones() -> None:
    absent = Protocol.from_json({"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None})
    empty = Protocol.from_json({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []})
    assert absent.reader_features is None
    assert empty.reader_features == ()
    assert "readerFeatures" not in absent.to_json()
    assert empty.to_json()["readerFeatures"] == []


def test_metadata_with_id_only_has_the_defaults_of_delta() -> None:
    metadata = Metadata.from_json({"id": "x", "schemaString": None})
    assert metadata.schema_string is None
    assert metadata.format == Format(provider="parquet", options={})
    assert (metadata.partition_columns, metadata.configuration, metadata.created_time) == ((), {}, None)


def test_metadata_property_without_a_value_is_omitted() -> None:
    metadata = Metadata.from_json({"id": "x", "configuration": {"a": None, "b": "1", "c": True, "d": 7}})
    assert metadata.configuration == {"b": "1", "c": "true", "d": "7"}


def test_add_file_key_distinguishes_deletion_vectors() -> None:
    values = BY_NAME["AddFile"][1]
    assert AddFile.from_json(values).key == (values["path"], "uab^-aqEH.-t@S}K{vb[*k^@4")
    assert AddFile.from_json({**values, "deletionVector": None}).key == (values["path"], None)


def test_commit_info_keeps_unknown_fields() -> None:
    info = CommitInfo.from_json(
        {
            "timestamp": "yesterday",
            "version": 2**64,
            "operation": None,
            "isBlindAppend": 1,
            "operationParameters": {"partitionBy": ["a"], "nested": {"x": 1.5}, "flag": True, "mode": "Append"},
            "custom": [1, None],
        }
    )
    assert (info.timestamp, info.version, info.is_blind_append, info.operation) == (None, None, None, None)
    assert info.operation_parameters == {
        "partitionBy": '["a"]',
        "nested": '{"x":1.5}',
        "flag": "true",
        "mode": "Append",
    }
    assert info.extra == {"timestamp": "yesterday", "version": 2**64, "isBlindAppend": 1, "custom": [1, None]}
    assert info.to_json()["custom"] == [1, None]


def test_fields_of_an_unexpected_type_are_not_used_as_typed_fields() -> None:
    odd = {"version": "abc", "operationParameters": "mode=Append", "operationMetrics": [1], "readVersion": "x"}
    info = replace(CommitInfo.from_json(odd), version=7)
    assert info.to_json() == {**odd, "version": 7}
    assert info.known_to_json() == {"version": 7}


ON_DISK: dict[str, Any] = {"storageType": "u", "pathOrInlineDv": "ab^-x", "sizeInBytes": 40, "cardinality": 6}


@pytest.mark.parametrize(
    ("changes", "unique_id"),
    [
        ({}, "uab^-x"),
        ({"offset": None}, "uab^-x"),
        ({"offset": 0}, "uab^-x@0"),
        ({"offset": 4}, "uab^-x@4"),
        ({"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0"}, None),
        ({"storageType": "p", "pathOrInlineDv": "s3://b/dv%20.bin", "offset": 1}, "ps3://b/dv%20.bin@1"),
    ],
    ids=["no offset", "null offset", "offset 0", "offset 4", "inline", "absolute"],
)
def test_unique_id_contains_the_offset_if_present(changes: dict[str, Any], unique_id: str | None) -> None:
    values = {**ON_DISK, **changes}
    expected = unique_id or f"i{values['pathOrInlineDv']}"
    assert DeletionVectorDescriptor.from_json(values).unique_id == expected


def test_descriptor_is_written_as_it_was_read() -> None:
    values = {**ON_DISK, "offset": 0, "cardinality": 2**53 + 1, "maxRowIndex": 9}
    assert DeletionVectorDescriptor.from_json(values).to_json() == values
    assert DeletionVectorDescriptor.from_json(ON_DISK).to_json() == ON_DISK


@pytest.mark.parametrize("name", ON_DISK)
def test_descriptor_without_a_required_field_names_it(name: str) -> None:
    with pytest.raises(ValueError, match=rf"deletionVector\.{name}: required"):
        DeletionVectorDescriptor.from_json({**ON_DISK, name: None})


@pytest.mark.parametrize("provider", ["parquet", "orc", "delta"])
def test_provider_comes_from_the_log(provider: str) -> None:
    found = Metadata.from_json({"id": "a", "format": {"provider": provider, "options": {"k": "v"}}})
    assert found.format == Format(provider=provider, options={"k": "v"})
    assert found.to_json()["format"] == {"provider": provider, "options": {"k": "v"}}


@pytest.mark.parametrize("values", [{}, {"format": None}, {"format": {}}, {"format": {"provider": None}}])
def test_absent_format_is_parquet_without_options(values: dict[str, object]) -> None:
    assert Metadata.from_json({"id": "a", **values}).format == Format(provider="parquet", options={})
