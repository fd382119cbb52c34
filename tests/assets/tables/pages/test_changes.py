from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

from deltasnap_assets.tables.changes import schema_changes, state_changes
from deltasnap_assets.tables.pages.column_schema import columns_of
from deltasnap_core import DomainMetadata, Metadata, Protocol, SnapshotState
from tests.assets.tables.pages.metadata_builders import state


def field(name: str, kind: Any, *, nullable: bool = True, comment: str | None = None) -> dict[str, Any]:
    reported = {} if comment is None else {"comment": comment}
    return {"name": name, "type": kind, "nullable": nullable, "metadata": reported}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def metadata(*fields: dict[str, Any], **changes: Any) -> Metadata:
    return Metadata(**{"id": "t", "schema_string": json.dumps(struct(*fields)), **changes})


ADDRESS = field("address", struct(field("city", "string", comment="where"), field("zip", "integer", nullable=False)))
ITEMS = field("items", {"type": "array", "elementType": struct(field("price", "double")), "containsNull": True})
LABELS = field(
    "labels",
    {"type": "map", "keyType": "string", "valueType": struct(field("text", "string")), "valueContainsNull": True},
)


def test_nested_fields_have_separate_rows() -> None:
    columns = columns_of(metadata(field("day", "date"), ADDRESS, ITEMS, LABELS, partition_columns=("day",)))
    assert [(column.name, column.type) for column in columns] == [
        ("day", "date"),
        ("address", "struct"),
        ("address.city", "string"),
        ("address.zip", "int"),
        ("items", "array<struct>"),
        ("items[].price", "double"),
        ("labels", "map<string, struct>"),
        ("labels{}.text", "string"),
    ]
    assert [column.name for column in columns if column.is_partition] == ["day"]
    assert [column.comment for column in columns if column.comment] == ["where"]
    assert [column.name for column in columns if not column.nullable] == ["address.zip"]


def test_a_schema_that_cannot_be_read_is_a_change_and_hides_no_other_change() -> None:
    before, broken = metadata(field("id", "long")), Metadata(id="t", schema_string="{ broken", configuration={"a": "1"})
    schema, prop = state_changes(state(metadata=before), state(metadata=broken))
    assert "its columns cannot be compared: metaData.schemaString: expected JSON" in schema
    assert prop == "property a = 1 added"
    assert state_changes(state(metadata=broken), state(metadata=broken)) == ()


def test_changes_are_described_as_text() -> None:
    before = metadata(field("id", "integer"), field("old", "string"), ADDRESS, configuration={"a": "1", "b": "2"})
    moved = field("address", struct(field("city", "string", comment="home"), field("zip", "integer")))
    after = metadata(
        field("id", "long"), moved, field("new", "date"), configuration={"a": "1", "b": "3"}, partition_columns=("new",)
    )
    protocol = Protocol(min_reader_version=3, min_writer_version=7, reader_features=("deletionVectors", "x"))
    assert state_changes(state(metadata=before), state(metadata=after, protocol=protocol)) == (
        "column new added (date)",
        "column old dropped (string)",
        "column id is bigint, was int",
        "column address.city comment 'home', was 'where'",
        "column address.zip is now nullable",
        "partitioned by new, was nothing",
        "property b = 3, was 2",
        "feature x added",
    )
    assert state_changes(state(), state()) == ()


def test_domains_that_were_added_removed_or_changed_are_shown_without_the_row_ids_of_inserts() -> None:
    def domains(**configurations: str) -> SnapshotState:
        found = {name.replace("_", "."): configuration for name, configuration in configurations.items()}
        return state(
            domain_metadata=tuple(DomainMetadata(domain=d, configuration=c, removed=False) for d, c in found.items())
        )

    before, after = domains(app="1", old="", delta_rowTracking="5"), domains(app="2", new="x", delta_rowTracking="9")
    assert state_changes(before, after) == ("domain new = x added", "domain old dropped, was ", "domain app = 2, was 1")
    assert state_changes(state(), after) == tuple(
        f"domain {each} added" for each in ("app = 2", "new = x", "delta.rowTracking = 9")
    )


def test_items_of_arrays_and_maps_that_may_be_null_or_no_longer_may_are_a_change() -> None:
    def tables(may: bool) -> Metadata:
        labels = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": may}
        nested = {"type": "array", "elementType": {**labels, "valueContainsNull": not may}, "containsNull": may}
        return metadata(field("labels", labels), field("in", struct(field("lists", nested))))

    assert [*schema_changes(tables(False), tables(True))] == [
        "column labels{} is now nullable",
        "column in.lists[] is now nullable",
        "column in.lists[]{} is no longer nullable",
    ]


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("CURRENT_DEFAULT", "0", "1"),
        ("__CHAR_VARCHAR_TYPE_STRING", "varchar(10)", "varchar(20)"),
        ("delta.generationExpression", "a + 1", "a + 2"),
        ("delta.identity.step", 1, 2),
        ("delta.invariants", '{"expression":{"expression":"id > 1"}}', '{"expression":{"expression":"id > 2"}}'),
    ],
)
def test_change_of_the_values_that_writers_store_is_a_change_of_the_column(key: str, before: Any, after: Any) -> None:
    plain, *changed = (
        metadata({**field("id", "long"), "metadata": properties}) for properties in ({}, {key: before}, {key: after})
    )
    assert [*schema_changes(plain, changed[0])] == [f"column id property {key} = {before} added"]
    assert [*schema_changes(*changed)] == [f"column id property {key} = {after}, was {before}"]
    assert [*schema_changes(changed[1], plain)] == [f"column id property {key} dropped, was {after}"]


def test_inserts_into_an_identity_column_do_not_change_the_schema() -> None:
    marks = [metadata({**field("id", "long"), "metadata": {"delta.identity.highWaterMark": mark}}) for mark in (1, 9)]
    assert [*schema_changes(*marks)] == []


BY_NAME = {"delta.columnMapping.mode": "name"}


def mapped(name: str, physical: str, kind: Any) -> dict[str, Any]:
    return {**field(name, kind), "metadata": {"delta.columnMapping.physicalName": physical}}


def test_a_column_with_the_same_physical_name_is_renamed() -> None:
    before = metadata(
        field("id", "integer"),
        field("place", struct(field("zip", "string"))),
        mapped("old", "c3", "date"),
        partition_columns=("id",),
        configuration=BY_NAME,
    )
    after = metadata(
        mapped("number", "id", "long"),
        mapped("address", "place", struct(mapped("zip", "zip", "string"))),
        mapped("new", "c4", "date"),
        partition_columns=("number",),
        configuration=BY_NAME,
    )
    assert state_changes(state(metadata=before), state(metadata=after)) == (
        "column new added (date)",
        "column old dropped (date)",
        "column number renamed, was id",
        "column address renamed, was place",
        "column address.zip renamed, was place.zip",
        "column number is bigint, was int",
    )


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        pytest.param([mapped("a", "1", "long")], [mapped("a", "2", "long")],
                     ["column a added (bigint)", "column a dropped (bigint)"], id="dropped and added again"),
        pytest.param([mapped("a", "1", "long"), mapped("b", "2", "long")],
                     [mapped("b", "1", "long"), mapped("a", "2", "long")],
                     ["column b renamed, was a", "column a renamed, was b"], id="swapped"),
        pytest.param([mapped("a", "1", "long")], [mapped("b", "1", "long"), mapped("a", "2", "date")],
                     ["column a added (date)", "column b renamed, was a"], id="replaced under its old name"),
    ],
)  # fmt: skip
def test_columns_with_the_same_name_and_other_data_are_changes(before: Any, after: Any, changes: list[str]) -> None:
    old, new = (metadata(*fields, configuration=BY_NAME) for fields in (before, after))
    assert [*schema_changes(old, new)] == changes


def test_columns_keep_their_names_when_column_mapping_ends() -> None:
    before, after = metadata(mapped("a", "1", "long"), configuration=BY_NAME), metadata(field("a", "long"))
    assert [*schema_changes(before, after)] == []


def test_column_with_a_dot_and_a_field_are_two_columns() -> None:
    dotted, nested = field("a.b", "long"), field("a", struct(field("b", "long")))
    assert [*schema_changes(metadata(dotted, nested), metadata(nested))] == ["column a.b dropped (bigint)"]


def test_another_order_of_columns_or_fields_is_a_change() -> None:
    a, b, c = (field(name, "long") for name in "abc")
    assert [*schema_changes(metadata(a, b), metadata(b, a))] == ["columns are in another order"]
    nested = schema_changes(metadata(field("s", struct(a, b))), metadata(field("s", struct(b, a))))
    assert [*nested] == ["columns are in another order"]
    added = schema_changes(metadata(a, b), metadata(c, a, b))
    assert [*added] == ["column c added (bigint)"]


def test_fields_in_the_keys_of_a_map_are_compared() -> None:
    def keys_of(kind: str) -> dict[str, Any]:
        return field("m", {**LABELS["type"], "keyType": struct(field("x", kind))})

    changes = schema_changes(metadata(keys_of("integer")), metadata(keys_of("long")))
    assert [*changes] == ["column m{key}.x is bigint, was int"]


def test_table_and_its_protocol_are_compared() -> None:
    before = metadata(field("id", "integer"), name="old", configuration={"b": "1", "a": "2"})
    after = metadata(field("id", "integer", nullable=False), id="u", description="new")
    old = Protocol(min_reader_version=3, min_writer_version=7, writer_features=("c", "b", "a", "kept"))
    new = Protocol(min_reader_version=2, min_writer_version=6, writer_features=("kept", "z", "y"))
    assert state_changes(state(metadata=before, protocol=old), state(metadata=after, protocol=new)) == (
        "different table: id u, was t",
        "column id is no longer nullable",
        "property b dropped, was 1",
        "property a dropped, was 2",
        "name None, was 'old'",
        "description 'new', was None",
        "reader version 2, was 3",
        "writer version 6, was 7",
        *(f"feature {name} added" for name in "yz"),
        *(f"feature {name} dropped" for name in "abc"),
    )


def test_schema_that_did_not_change_is_not_parsed_to_find_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltasnap_assets.tables.changes.columns_of", Mock(side_effect=AssertionError("parsed")))
    old, new = metadata(ADDRESS), metadata(ADDRESS, configuration={"a": "b"})
    assert len(state_changes(state(metadata=old), state(metadata=new))) == 1


def test_columns_of_a_schema_are_marked_by_the_partition_columns_of_their_version() -> None:
    day = field("day", "date")
    for partitioned_by in ((), ("day",), ()):
        (column,) = columns_of(metadata(day, partition_columns=partitioned_by))
        assert column.is_partition == bool(partitioned_by)
