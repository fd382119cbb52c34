"""Schemas for reading data files, and which schemas can read the rows of earlier versions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from deltasnap_core.errors import RowChangesError
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.scan.changes.row_comparison import form_names
from deltasnap_core.scan.changes.schema_changes import check_schemas
from deltasnap_core.scan.physical_schema import _has_void, _is_read_whole, logical_schema, physical_schema
from deltasnap_core.scan.table_columns import TableColumns
from tests.builders import field
from tests.core.scan.changes.schemas_without_spark_builders import array, mapped, mapping, schema_of, struct


def widened(to: str, *types: str) -> dict[str, Any]:
    changes = [{"fromType": kind, "toType": to} for kind in types]
    return {"delta.typeChanges": changes}


INNER = struct(field("x", "varchar(3)", **mapped("x", "c2", 2)), field("v", "void", **mapped("v", "c3", 3)))
NESTED = schema_of(
    field("Id", "long", nullable=False, **mapped("Id", "c1", 1)),
    field("s", INNER, **mapped("s", "c4", 4)),
    field("m", mapping("char(2)", array(INNER)), **mapped("m", "c5", 5)),
    field("n", "void", **mapped("n", "c6", 6)),
)


def test_rows_of_a_scan_are_nullable_with_the_names_and_comments_of_the_table() -> None:
    inner = struct(field("x", "string", comment="x"), field("v", "void", comment="v"))
    values = {"type": "array", "elementType": inner, "containsNull": True}
    assert logical_schema(NESTED).jsonValue() == struct(
        field("Id", "long", comment="Id"),
        field("s", inner, comment="s"),
        field("m", {**mapping("string", values), "valueContainsNull": True}, comment="m"),
        field("n", "void", comment="n"),
    )


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_files_are_read_by_physical_name_or_id_and_have_no_void_columns(mode: Any) -> None:
    def of_file(name: str, physical: str, number: int, kind: Any) -> dict[str, Any]:
        ids: dict[str, Any] = {"parquet.field.id": number} if mode == "id" else {}
        return field(name if mode == "none" else physical, kind, **ids)

    inner = struct(of_file("x", "c2", 2, "string"))
    values = {"type": "array", "elementType": inner, "containsNull": True}
    assert physical_schema(NESTED, mode).jsonValue() == struct(
        of_file("Id", "c1", 1, "long"),
        of_file("s", "c4", 4, inner),
        of_file("m", "c5", 5, {**mapping("string", values), "valueContainsNull": True}),
    )


@pytest.mark.parametrize(
    ("kind", "earlier", "read_as"),
    [
        ("decimal(10,0)", ("integer",), "decimal(10,0)"),
        ("decimal(11,2)", ("integer",), "decimal(12,2)"),
        ("decimal(11,2)", ("short",), "decimal(12,2)"),
        ("decimal(11,2)", ("byte",), "decimal(12,2)"),
        ("decimal(12,2)", ("integer",), "decimal(12,2)"),
        ("decimal(12,2)", ("byte", "long"), "decimal(22,2)"),
        ("decimal(38,20)", ("long",), "decimal(38,20)"),
        ("decimal(30,20)", ("long",), "decimal(38,20)"),
        ("decimal(5,2)", (), "decimal(5,2)"),
        ("decimal(12,2)", ("decimal(5,2)",), "decimal(12,2)"),
    ],
)
def test_decimals_widened_from_integers_have_enough_digits(kind: str, earlier: tuple[str, ...], read_as: str) -> None:
    schema = schema_of(field("d", kind, **(widened(kind, *earlier) if earlier else {})))
    assert physical_schema(schema, "none")["d"].dataType.simpleString() == read_as
    assert logical_schema(schema)["d"].dataType.simpleString() == kind


def test_columns_with_a_void_or_a_widened_field_are_not_read_whole() -> None:
    schema = schema_of(
        field("plain", "long"),
        field("deep", struct(field("a", struct(field("b", "long"))))),
        field("void", struct(field("a", "long"), field("b", "void"))),
        field("wide", struct(field("a", "long", **widened("long", "integer")), field("b", "long"))),
    )
    assert {each.name: _is_read_whole(each, "none") for each in schema} == {
        "plain": True,
        "deep": True,
        "void": False,
        "wide": False,
    }


@pytest.mark.parametrize("kind", ["void", array("void"), mapping("string", "void"), struct(field("a", array("void")))])
def test_void_is_found_at_any_depth(kind: Any) -> None:
    assert _has_void(schema_of(field("c", kind))["c"].dataType)
    assert not _has_void(schema_of(field("c", mapping("string", array(struct(field("a", "long"))))))["c"].dataType)


def of_version(*fields: dict[str, Any], **configuration: str) -> Metadata:
    text = json.dumps(struct(*fields))
    return Metadata(id="t", schema_string=text, partition_columns=(), configuration=configuration)


MAPPED = {"delta.columnMapping.mode": "name"}


def check(*versions: Metadata) -> None:
    check_schemas(dict(enumerate(versions, start=4)), path="/t", deleting=())


def message(*versions: Metadata) -> str:
    with pytest.raises(RowChangesError) as raised:
        check(*versions)
    return str(raised.value)


READABLE: Mapping[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the same": (field("a", "long"), field("a", "long", comment="b")),
    "another case": (field("a", "long"), field("A", "long")),
    "wider integers": (field("a", "byte"), field("a", "long")),
    "wider floats": (field("a", "float"), field("a", "double")),
    "texts": (field("a", "char(3)"), field("a", "string")),
    "void": (field("a", "void"), field("a", "date")),
    "recorded": (field("a", "integer"), field("a", "double", **widened("double", "integer"))),
    "recorded with blanks": (
        field("a", "decimal(6,2)"),
        field("a", "decimal(10,4)", **widened("decimal(10, 4)", "decimal(6, 2)")),
    ),
    "deep": (field("a", mapping("string", array("short"))), field("a", mapping("string", array("integer")))),
    "a new field": (field("a", struct()), field("a", struct(field("b", "long")))),
    "a dropped column": (field("a", "long"), field("b", "string")),
}


@pytest.mark.parametrize("case", READABLE)
def test_rows_are_read_with_a_later_schema_that_includes_theirs(case: str) -> None:
    earlier, later = READABLE[case]
    check(of_version(earlier), of_version(later))


UNREADABLE: Mapping[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "narrower integers": (field("a", "long"), field("a", "integer"), "column a changes from bigint to int"),
    "narrower floats": (field("a", "double"), field("a", "float"), "column a changes from double to float"),
    "another kind": (field("a", "integer"), field("a", "double"), "column a changes from int to double"),
    "in an array": (field("a", array("long")), field("a", array("date")), "column a.element changes from bigint"),
    "of keys": (
        field("a", mapping("long", "long")),
        field("a", mapping("date", "long")),
        "column a.key changes from bigint to date",
    ),
    "of values": (
        field("a", mapping("long", struct(field("b", "long")))),
        field("a", mapping("long", struct(field("b", "date")))),
        "column a.value.b changes from bigint to date",
    ),
    "recorded elsewhere": (
        field("a", array("integer")),
        field("a", array("double"), **widened("double", "integer")),
        "column a.element changes from int to double",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_changed_types_are_named_with_the_version_that_changes_them(case: str) -> None:
    earlier, later, problem = UNREADABLE[case]
    reported = message(of_version(earlier), of_version(earlier), of_version(later))
    assert problem in reported
    assert "cannot be read with the schema of version 6" in reported
    assert "Read the versions up to 5 and those from 6 on separately" in reported


def test_mapped_columns_may_be_neither_renamed_nor_dropped() -> None:
    before = of_version(
        field("a", "long", **mapped("a", "c1", 1)), field("b", "long", **mapped("b", "c2", 2)), **MAPPED
    )
    dropped = of_version(field("a", "long", **mapped("a", "c1", 1)), **MAPPED)
    renamed = of_version(
        field("z", "long", **mapped("z", "C1", 1)), field("b", "long", **mapped("b", "c2", 2)), **MAPPED
    )
    assert "column b is dropped" in message(before, dropped)
    assert "column a is renamed to z" in message(before, renamed)
    check(dropped, before)


@pytest.mark.parametrize("mode", ["name", "id"])
def test_id_of_a_column_identifies_it_only_if_files_are_read_by_ids(mode: str) -> None:
    configuration = {"delta.columnMapping.mode": mode}
    before, after = (
        of_version(field("s", struct(field("a", "long", **mapped("a", "a", number))), **mapped("s", "s", 1)),
                   **configuration)
        for number in (2, 3)
    )  # fmt: skip
    check(before, before)
    if mode == "name":
        check(before, after)
    else:
        assert "column s.a gets another id" in message(before, after)


def test_columns_that_lose_their_mapping_cannot_be_read_from_earlier_files() -> None:
    before = of_version(
        field("id", "long", **mapped("id", "id", 1)), field("b", "long", **mapped("b", "a", 2)), **MAPPED
    )
    assert "column mapping ends, and column b has" in message(
        before, of_version(field("id", "long"), field("b", "long"))
    )
    assert "column b is renamed to a" in message(before, of_version(field("id", "long"), field("a", "long")))
    check(of_version(field("id", "long")), before)
    check(of_version(field("id", "long", **mapped("id", "id", 1)), **MAPPED), of_version(field("id", "long")))


def test_column_named_like_one_of_row_changes_is_rejected() -> None:
    plain, reserved = of_version(field("a", "long")), of_version(field("a", "long"), field("_Commit_Version", "long"))
    assert "the table has the column _Commit_Version" in message(plain, reserved)


def test_columns_are_selected_as_spark_resolves_them() -> None:
    columns = TableColumns(
        of_version(
            field("a", struct(field("b.c", "long"), field("d", "long"))), field("a.d", "long"), field("`x", "long")
        )
    )
    assert columns.selected(["A", "a.d", "a.`b.c`", "`a`.d"]) == ("`a`", "`a.d`", "`a`.`b.c`", "`a`.`d`")
    assert columns.selected(["```x`"]) == ("```x`",)
    for name in ("a.x", "nope", "a.", "", "a..d"):
        with pytest.raises(ValueError, match=r"has no column .*; it has a, a\.d, `x"):
            columns.selected([name])


def test_values_that_spark_groups_inexactly_are_compared_in_another_form() -> None:
    plain = ("long", "string", "boolean", "decimal(5,2)", array("long"), struct(field("x", "date")))
    other = (
        "float",
        "double",
        "void",
        "variant",
        mapping("string", "long"),
        array("double"),
        struct(field("x", "float")),
    )
    schema = schema_of(*(field(f"c{index}", kind) for index, kind in enumerate((*plain, *other))))
    assert [*form_names(schema)] == [f"c{index}" for index in range(len(plain), len(plain) + len(other))]
