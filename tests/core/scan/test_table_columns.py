"""Columns of a table by each of their names, and columns of data files as those of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.scan.physical_schema import physical_schema, to_logical
from deltasnap_core.scan.table_columns import TableColumns
from tests.builders import field, schema
from tests.core.scan.changes.schemas_without_spark_builders import array, mapping, schema_of, struct


def columns(*fields: dict[str, Any]) -> TableColumns:
    return TableColumns(Metadata(id="t", schema_string=schema(*fields)))


def test_name_is_found_in_any_case_but_an_exact_match_is_preferred() -> None:
    found = columns(field("id"), field("ID", "string"), field("s", {"type": "struct", "fields": [field("A.b")]}))
    assert [each and each.data_type for each in map(found.resolve, (["id"], ["ID"], ["Id"]))] == [
        "long",
        "string",
        None,
    ]
    nested = found.resolve(["S", "a.B"])
    assert nested is not None
    assert nested.path == ("s", "A.b")
    assert [found.resolve(names) for names in ([], ["s", "no"], ["id", "x"], ["A.b"])] == [None] * 4


def test_texts_of_a_limited_length_are_strings() -> None:
    found = columns(field("c", "char(3)"), field("v", "varchar(9)"), field("s", "string collate UNICODE_CI"))
    assert [leaf.data_type for leaf in found.leaves] == ["string", "string", "collated"]


def test_path_may_lead_into_a_column_that_only_spark_can_resolve() -> None:
    lists = {"type": "array", "elementType": "long", "containsNull": True}
    maps = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}
    found = columns(field("id"), field("a", lists), field("m", maps), field("v", "variant"))
    assert [name for name in ("id", "a", "m", "v", "x") if found.may_name([name])] == ["id", "a", "m", "v"]
    assert [name for name in ("id", "a", "m", "v", "x") if found.may_name([name, "b", "c"])] == ["a", "m", "v"]
    assert not found.may_name([])


def test_many_names_among_many_columns_build_each_column_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = columns(*(field(f"c{number}") for number in range(300)))
    built: list[int] = []
    original = TableColumns._children

    def counted(self: TableColumns, *arguments: Any) -> Any:
        built.append(1)
        return original(self, *arguments)

    monkeypatch.setattr(TableColumns, "_children", counted)
    assert all(found.resolve([f"C{number}"]) for number in range(300))
    assert len(built) == 1


@pytest.mark.parametrize(
    "kind",
    [
        "decimal(1,0)) + length(reflect('a', 'b'))",
        "decimal(40,2)",
        "decimal(2,3)",
        "x'; drop",
        {"type": "long", "x": 1},
    ],
)
def test_text_that_is_not_the_name_of_a_type_never_becomes_sql(kind: Any) -> None:
    assert columns(field("a", kind)).top[0].data_type == "unknown"


def test_type_may_be_an_object_with_only_a_name() -> None:
    assert columns(field("a", {"type": "variant"})).top[0].data_type == "variant"


def test_strings_have_a_collation_by_their_type_or_by_the_metadata_of_their_field() -> None:
    collated = {**field("b", "string"), "metadata": {"__COLLATIONS": {"b": "ICU.de_DE"}}}
    found = columns(field("a", "string collate UNICODE"), collated, field("c", "string"), field("d", "varchar(3)")).top
    assert [column.data_type for column in found] == ["collated", "collated", "string", "string"]


def test_blanks_in_a_decimal_do_not_count() -> None:
    assert columns(field("a", "decimal( 10 , 2 )")).top[0].data_type == "decimal(10,2)"


def test_paths_are_shared_by_a_column_and_a_sibling_whose_name_is_its_beginning_before_a_dot() -> None:
    inner = {"type": "struct", "fields": [field("b.c"), field("b", "string")]}
    lists = {"type": "array", "elementType": "long", "containsNull": True}
    found = columns(field("a"), field("a.x.y"), field("ab.c"), field("s", inner), field("l", lists), field("l.list.z"))
    assert found.with_shared_paths == {"a", "a.x.y", "s", "l", "l.list.z"}
    mapped = [{**field(name), "metadata": {"delta.columnMapping.physicalName": f"c{name}"}} for name in ("a", "a.b")]
    mapped[1]["metadata"]["delta.columnMapping.physicalName"] = "other"
    by_name = Metadata(id="t", schema_string=schema(*mapped), configuration={"delta.columnMapping.mode": "name"})
    assert not TableColumns(by_name).with_shared_paths


@pytest.mark.parametrize("changes", ["x", ["x"], 5, {"fromType": "int"}])
def test_column_with_unreadable_type_changes_may_have_been_a_float(changes: Any) -> None:
    found = columns({**field("a", "double"), "metadata": {"delta.typeChanges": changes}}).top[0]
    assert (found.was_float, found.is_widened) == (True, True)


if TYPE_CHECKING:
    from pyspark.sql import SparkSession


INNER = struct(field("a", "integer"), field("v", "void"))
READ = [
    pytest.param(
        struct(field("v", "void"), field("b", INNER)),
        {"b": {"a": 1}},
        "struct<v:void,b:struct<a:int,v:void>>",
        {"v": None, "b": {"a": 1, "v": None}},
        id="structs",
    ),
    pytest.param(
        array(INNER), [{"a": 2}, None], "array<struct<a:int,v:void>>", [{"a": 2, "v": None}, None], id="array"
    ),
    pytest.param(
        mapping("string", array(INNER)),
        {"k": [{"a": 3}]},
        "map<string,array<struct<a:int,v:void>>>",
        {"k": [{"a": 3, "v": None}]},
        marks=pytest.mark.spark,  # Sail does not know the type of the values
        id="map",
    ),
    pytest.param(array("void"), [None], "array<void>", [None], id="void"),
]


@pytest.mark.parametrize(("kind", "stored", "read_as", "expected"), READ)
def test_void_fields_are_added_inside(spark: SparkSession, kind: Any, stored: Any, read_as: str, expected: Any) -> None:
    """No file has them, and a cast cannot add fields."""
    schema = schema_of(field("c", kind))
    files = spark.createDataFrame([(stored,), (None,)], physical_schema(schema, "none"))
    found = files.select(to_logical(schema["c"], "none"))
    assert [each.dataType.simpleString() for each in found.schema] == [read_as]
    assert [row.asDict(recursive=True)["c"] for row in found.collect()] == [expected, None]
