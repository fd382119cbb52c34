from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as T

from deltasnap_core.replay.spark.reading.table_schema import UNKNOWN_TYPES, parse_schema


def field(data_type: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": "f", "type": data_type, "nullable": True, "metadata": metadata}


def schema_string(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def parse_one(data_type: Any, **metadata: Any) -> T.StructField:
    return parse_schema(schema_string(field(data_type, **metadata))).fields[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("string", T.StringType()),
        ("long", T.LongType()),
        ("integer", T.IntegerType()),
        ("short", T.ShortType()),
        ("byte", T.ByteType()),
        ("float", T.FloatType()),
        ("double", T.DoubleType()),
        ("decimal", T.DecimalType(10, 0)),
        ("decimal(38,18)", T.DecimalType(38, 18)),
        ("boolean", T.BooleanType()),
        ("binary", T.BinaryType()),
        ("date", T.DateType()),
        ("timestamp", T.TimestampType()),
        ("timestamp_ltz", T.TimestampType()),
        ("timestamp_ntz", T.TimestampNTZType()),
        ("void", T.NullType()),
        ("null", T.NullType()),
        ("variant", T.VariantType()),
        ("interval", T.CalendarIntervalType()),
        ("interval year to month", T.YearMonthIntervalType(0, 1)),
        ("interval month", T.YearMonthIntervalType(1, 1)),
        ("interval day to second", T.DayTimeIntervalType(0, 3)),
        ("interval hour", T.DayTimeIntervalType(1, 1)),
        ("char(3)", T.CharType(3)),
        ("varchar(10)", T.VarcharType(10)),
    ],
)
def test_parse_schema_returns_each_type_by_name(name: str, expected: T.DataType) -> None:
    parsed = parse_one(name)
    assert parsed.dataType == expected
    assert parsed.metadata == {}


def test_schema_without_text_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"metaData\.schemaString: required, but absent or null"):
        parse_schema(None)


def test_parse_schema_keeps_nesting_and_nullability() -> None:
    inner = {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": False, "metadata": {"k": 1}}]}
    text = schema_string(
        field({"type": "array", "elementType": inner, "containsNull": False}),
        field({"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": False}),
    )
    struct = T.StructType([T.StructField("x", T.IntegerType(), False, {"k": 1})])
    assert parse_schema(text) == T.StructType(
        [T.StructField("f", T.ArrayType(struct, False)), T.StructField("f", T.MapType(T.StringType(), struct, False))]
    )
    assert json.loads(parse_schema(text).json()) == json.loads(text)


@pytest.mark.parametrize(
    "metadata",
    [
        {"delta.columnMapping.id": 2**53 + 1, "delta.columnMapping.physicalName": "col-1"},
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(10)"},
        {"delta.typeChanges": [{"toType": "long", "fromType": "integer", "fieldPath": "element"}]},
        {"__COLLATIONS": {"f": "icu.UNICODE"}},
        {"__COLLATIONS": {"f": "ICU.de_DE.72"}},
        {"comment": "ü", "a": None, "b": True, "c": 1.5, "d": {"e": [1, 2]}},
    ],
    ids=["column mapping", "varchar", "type widening", "collation", "collation with version", "any"],
)
def test_parse_schema_keeps_the_metadata_of_a_field(metadata: dict[str, Any]) -> None:
    parsed = parse_one("string", **metadata)
    assert parsed.metadata == metadata
    assert parsed.dataType == T.StringType()


@pytest.mark.parametrize(
    ("data_type", "expected", "unknown"),
    [
        ("hologram", T.StringType(), {"f": "hologram"}),
        ("int", T.StringType(), {"f": "int"}),
        ("geometry(nowhere)", T.StringType(), {"f": "geometry(nowhere)"}),
        ({"type": "hologram", "depth": 3}, T.StringType(), {"f": "hologram"}),
        (
            {"type": "array", "elementType": "hologram", "containsNull": True},
            T.ArrayType(T.StringType()),
            {"f.element": "hologram"},
        ),
        (
            {"type": "map", "keyType": "glyph", "valueType": {"type": "array", "elementType": "hologram"}},
            T.MapType(T.StringType(), T.ArrayType(T.StringType())),
            {"f.key": "glyph", "f.value.element": "hologram"},
        ),
        (
            {"type": "udt", "class": "org.example.Vector", "pyClass": "os.system", "sqlType": "binary"},
            T.BinaryType(),
            {"f": "org.example.Vector"},
        ),
    ],
    ids=["name", "SQL name", "parameter", "object", "element", "key and value", "user-defined"],
)
def test_parse_schema_keeps_unknown_types_by_name_with_a_warning(
    data_type: Any, expected: T.DataType, unknown: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        parsed = parse_one(data_type, comment="kept")
    assert parsed.dataType == expected
    assert parsed.metadata == {"comment": "kept", UNKNOWN_TYPES: unknown}
    assert all(name in caplog.text for name in unknown.values())


def test_parse_schema_reads_a_type_that_is_an_object_with_only_a_name() -> None:
    parsed = parse_one({"type": "array", "elementType": {"type": "variant"}, "containsNull": False})
    assert (parsed.dataType, parsed.metadata) == (T.ArrayType(T.VariantType(), False), {})


def test_parse_schema_notes_an_unknown_type_on_the_innermost_field() -> None:
    parsed = parse_one({"type": "struct", "fields": [{"name": "x", "type": "hologram"}]})
    assert parsed.metadata == {}
    assert isinstance(parsed.dataType, T.StructType)
    assert parsed.dataType["x"].metadata == {UNKNOWN_TYPES: {"x": "hologram"}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "null",
        '"string"',
        '{"type":"array","elementType":"string"}',
        '{"type":"struct"}',
        '{"type":"struct","fields":[1]}',
        '{"type":"struct","fields":[{"type":"string"}]}',
        '{"type":"struct","fields":[{"name":"a"}]}',
        '{"type":"struct","fields":[{"name":"a","type":7}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"array"}}]}',
        '{"type":"struct","fields":[{"name":"a","type":"string","metadata":[1]}]}',
    ],
)
def test_parse_schema_of_something_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_schema(text)


def test_parse_schema_of_every_golden_table_round_trips(golden: Path) -> None:
    texts: set[str] = set()
    for path in golden.glob("tables/*/_delta_log/*.json"):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if '"metaData"' in line and '"schemaString"' in line:
                metadata = json.loads(line).get("metaData") or {}
                texts.add(metadata["schemaString"])
    assert len(texts) > 80
    for text in texts:
        assert json.loads(parse_schema(text).json()) == json.loads(text)
