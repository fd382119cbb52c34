"""The faults of the current schema: types, partition columns, column mapping."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltasnap_core import CorruptLogError, DeltaLog, ProblemKind, UnsupportedProtocolError
from tests.builders import add, commit_info, metadata, protocol, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.log.condition.table_condition_builders import FIRST, condition

SCHEMAS = {
    "no JSON": "{ not json",
    "no struct": '"string"',
    "no fields": '{"type":"struct"}',
    "null": None,
    "empty": "",
    "a field without a name": '{"type":"struct","fields":[{"type":"long"}]}',
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_condition_reports_that_the_current_schema_cannot_be_read(tmp_path: Path, schema: str | None) -> None:
    write_log(tmp_path / "t", {0: [*FIRST, add("a")], 1: [metadata(schemaString=schema)], 2: [add("b")]})
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark, found.mark) == (ProblemKind.BROKEN_SCHEMA, "error", "error")
    assert "metaData.schemaString" in fault.text
    assert fault.where.file == (tmp_path / "t/_delta_log/00000000000000000001.json").as_uri()
    assert found.loadable == (0, 1, 2)
    write_log(tmp_path / "t", {3: [metadata()]})
    assert condition(tmp_path / "t").mark == "ok"


@pytest.mark.parametrize("has_null", [True, False], ids=["null", "absent"])
@pytest.mark.parametrize("in_checkpoint", [True, False], ids=["checkpoint", "commit"])
def test_files_of_a_table_without_a_schema_are_counted_but_rows_and_checkpoints_are_refused(
    tmp_path: Path, has_null: bool, in_checkpoint: bool
) -> None:
    action = metadata(schemaString=None)
    if not has_null:
        del action["metaData"]["schemaString"]
    actions = [protocol(), action, add("a")]
    log = write_log(tmp_path / "t", {0: actions, 1: [add("b")]})
    if in_checkpoint:
        write_checkpoint(log, 0, "classic", actions)
        (log / "00000000000000000000.json").unlink()
    opened = DeltaLog.for_table(None, tmp_path / "t")
    snapshot = opened.snapshot
    assert snapshot.computed_state.num_of_files == 2
    queries: list[Callable[[], object]] = [
        lambda: snapshot.schema,
        lambda: snapshot.scan(where="id = 1"),
        opened.checkpoint,
    ]
    for query in queries:
        with pytest.raises(CorruptLogError, match=r"metaData\.schemaString: required, but absent or null") as caught:
            query()
        assert caught.value.path.endswith("0.checkpoint.parquet" if in_checkpoint else "0.json")
    assert [fault.kind for fault in condition(tmp_path / "t").faults] == [ProblemKind.BROKEN_SCHEMA]
    assert [file.name for file in log.glob("*.checkpoint*")] == ["0" * 20 + ".checkpoint.parquet"] * in_checkpoint


UNSUPPORTED_CHANGES = [
    ("string", '{"fromType":"integer","toType":"string"}', "field a from integer to string"),
    ("integer", '{"fromType":"long","toType":"integer"}', "field a from long to integer"),
    ("timestamp", '{"fromType":"date","toType":"timestamp"}', "field a from date to timestamp"),
    (
        '{"type":"array","elementType":"string"}',
        '{"fromType":"long","toType":"string","fieldPath":"element"}',
        r"field a \('element'\) from long to string",
    ),
]


@pytest.mark.parametrize(("kind", "change", "named"), UNSUPPORTED_CHANGES)
def test_an_unsupported_change_of_a_type_is_reported_as_unsupported_with_its_commit(
    tmp_path: Path, kind: str, change: str, named: str
) -> None:
    widening = protocol(3, 7, readerFeatures=["typeWidening"], writerFeatures=["typeWidening"])
    kind = kind if kind.startswith("{") else json.dumps(kind)
    changed = metadata(schemaString=STRUCT % (kind, f'{{"delta.typeChanges":[{change}]}}'))
    log = write_log(tmp_path / "t", {0: [widening, metadata()], 1: [commit_info(), changed], 2: [add("a")]})
    commit = (log / "00000000000000000001.json").as_uri()
    snapshot = DeltaLog.for_table(None, tmp_path / "t").snapshot
    queries: list[Callable[[], object]] = [lambda: snapshot.schema, lambda: snapshot.scan(where="a is null")]
    for query in queries:
        message = rf"needs the change of {named} \({commit}, line 2\), which deltasnap does not support"
        with pytest.raises(UnsupportedProtocolError, match=message) as caught:
            query()
        assert (caught.value.version, caught.value.features) == (2, ("typeWidening",))
    (fault,) = condition(tmp_path / "t").faults
    assert (fault.mark, fault.where.file) == ("error", commit)
    assert re.search(rf"needs the change of {named}, which deltasnap does not support", fault.text)


STRUCT = '{"type":"struct","fields":[{"name":"a","type":%s,"nullable":true,"metadata":%s}]}'


DEEP_SCHEMAS = {
    "array without element": STRUCT % ('{"type":"array"}', "{}"),
    "map without value": STRUCT % ('{"type":"map","keyType":"string"}', "{}"),
    "type that is a number": STRUCT % ("5", "{}"),
    "field without a name": STRUCT % ('{"type":"struct","fields":[{"type":"long"}]}', "{}"),
    "number inside an array": STRUCT % ('{"type":"array","elementType":7}', "{}"),
    "metadata that is a list": STRUCT % ('"long"', "[1]"),
    "names that differ in case": '{"type":"struct","fields":[{"name":"a","type":"long"},{"name":"A","type":"long"}]}',
    "changes of a type that are a text": STRUCT % ('"decimal(10,2)"', '{"delta.typeChanges":"x"}'),
    "changes of a type of which one is a text": STRUCT % ('"decimal(10,2)"', '{"delta.typeChanges":[{},"x"]}'),
    "changes of a type that are texts": STRUCT % ('"decimal(10,2)"', '{"delta.typeChanges":["x"]}'),
    **{
        f"change from {change}": STRUCT % ('"long"', '{"delta.typeChanges":[{' + change + "}]}")
        for change in (
            '"fromType":"long","toType":"double"',
            '"fromType":"long","toType":"integer"',
            '"fromType":"decimal(9,2)","toType":"decimal(10,4)"',
            '"fromType":"decimal(5,0)","toType":"long"',
            '"fromType":"integer","toType":"string"',
            '"fromType":"integer"',
        )
    },
    "physical name that is null": STRUCT % ('"long"', '{"delta.columnMapping.physicalName":null}'),
    "id that is a text": STRUCT % ('"long"', '{"delta.columnMapping.id":"one"}'),
    "type of an unknown name": STRUCT % ('"geometry3d"', "{}"),
    "type of an unknown kind": STRUCT % ('{"type":"geometry3d"}', "{}"),
    "user-defined type without its storage type": STRUCT % ('{"type":"udt","class":"x"}', "{}"),
    "decimal of too many digits": STRUCT % ('"decimal(39,0)"', "{}"),
    "id beyond 32 bits": STRUCT % ('"long"', '{"delta.columnMapping.id":4294967296}'),
}


INSIDE = '{"type":"array","elementType":{"type":"map","keyType":"string","valueType":%s}}'


@pytest.mark.parametrize("schema", DEEP_SCHEMAS.values(), ids=DEEP_SCHEMAS.keys())
def test_condition_examines_the_schema_at_all_levels(tmp_path: Path, schema: str) -> None:
    nested = STRUCT % (INSIDE % schema, "{}")
    widening = protocol(3, 7, readerFeatures=["typeWidening"], writerFeatures=["typeWidening"])
    write_log(tmp_path / "t", {0: [widening, metadata(schemaString=nested), add("a")]})
    (fault,) = condition(tmp_path / "t").faults
    assert (fault.kind.is_of_schema, fault.mark) == (True, "error")


@pytest.mark.parametrize(
    "kind",
    [
        '{"type":"struct","fields":[]}', '{"type":"array","elementType":"long"}', '{"type":"variant"}', '"variant"',
        '"void"', '"geometry(OGC:CRS84)"', '"time(6)"', '"interval"', '"interval day to second"',
    ],
)  # fmt: skip
def test_condition_names_partition_columns_with_types_that_no_text_has(tmp_path: Path, kind: str) -> None:
    schema = STRUCT % (kind, "{}")
    write_log(tmp_path / "t", {0: [protocol(), metadata(schemaString=schema, partitionColumns=["A"]), add("a")]})
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind is ProblemKind.BROKEN_SCHEMA
    assert "expected a type of A with texts" in fault.text


@pytest.mark.parametrize(
    "fields",
    [
        {"partitionColumns": ["nope"]},
        {"configuration": {"delta.columnMapping.mode": "Name "}},
        {"configuration": {"delta.columnMapping.mode": "id"}},
    ],
)
def test_condition_names_unknown_partition_columns_and_mappings(tmp_path: Path, fields: dict[str, Any]) -> None:
    write_log(
        tmp_path / "t", {0: [protocol(2, 5), metadata(schemaString=STRUCT % ('"long"', "{}"), **fields), add("a")]}
    )
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind is ProblemKind.BROKEN_SCHEMA
    assert any(name in fault.text for name in ("nope", "Name", "delta.columnMapping.id of field a"))


def test_condition_names_the_field_and_its_unknown_type(tmp_path: Path) -> None:
    schema = struct_of(field("s", struct_of(field("shape", '{"type":"array","elementType":"geometry3d"}'))))
    write_log(tmp_path / "t", {0: [protocol(), metadata(schemaString=schema), add("a")]})
    (fault,) = condition(tmp_path / "t").faults
    assert "type of field s.shape: expected a known type, found 'geometry3d'" in fault.text


KNOWN_TYPES = [
    "string", "long", "integer", "short", "byte", "float", "double", "decimal", "decimal(38, 18)", "boolean", "binary",
    "date", "timestamp", "timestamp_ltz", "timestamp_ntz", "variant", "void", "null", "interval", "interval month",
    "interval day to second", "char(3)", "varchar(10)", "string collate UNICODE_CI", "time(6)",
    "geometry", "geometry(EPSG:4326)", "geography", "geography(OGC:CRS84, spherical)",
]  # fmt: skip


def test_every_type_of_spark_is_known(tmp_path: Path) -> None:
    fields = [field(f"c{number}", json.dumps(kind)) for number, kind in enumerate(KNOWN_TYPES)]
    user_defined = field("u", '{"type":"udt","class":"org.example.Vector","sqlType":"binary"}')
    in_object = field("o", '{"type":"array","elementType":{"type":"variant"}}')
    schema = struct_of(*fields, user_defined, in_object)
    write_log(tmp_path / "t", {0: [protocol(), metadata(schemaString=schema), add("a")]})
    assert condition(tmp_path / "t").mark == "ok"


MAPPED = '{"name":%s,"type":%s,"metadata":{"delta.columnMapping.id":%s,"delta.columnMapping.physicalName":%s}}'


def field(name: str, kind: str) -> str:
    return f'{{"name":{json.dumps(name)},"type":{kind}}}'


def mapped(name: str, number: int, physical: str, kind: str = '"long"') -> str:
    return MAPPED % (json.dumps(name), kind, number, json.dumps(physical))


def struct_of(*fields: str) -> str:
    return f'{{"type":"struct","fields":[{",".join(fields)}]}}'


UNMAPPED = {
    "no physical name": (STRUCT % ('"long"', '{"delta.columnMapping.id":1}'), "physicalName of field a"),
    "one physical name twice": (struct_of(mapped("a", 1, "c"), mapped("b", 2, "C")), "physicalName of field b"),
    "one physical name twice in a struct": (
        struct_of(mapped("s", 1, "c", struct_of(mapped("a", 2, "d"), mapped("b", 3, "d")))),
        "physicalName of field s.b",
    ),
}


ONE_ID = struct_of(mapped("s", 1, "c", struct_of(mapped("a", 1, "d"))))


@pytest.mark.parametrize(
    ("schema", "named", "mode"),
    [*((*found, mode) for found in UNMAPPED.values() for mode in ("id", "name")), (ONE_ID, "id of field s.a", "id")],
)
def test_condition_names_columns_that_look_alike_in_files(tmp_path: Path, schema: str, named: str, mode: str) -> None:
    table = metadata(schemaString=schema, configuration={"delta.columnMapping.mode": mode})
    write_log(tmp_path / "t", {0: [protocol(2, 5), table, add("a")]})
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, tuple(found.loadable)) == (ProblemKind.BROKEN_SCHEMA, (0,))
    assert f"delta.columnMapping.{named}" in fault.text


def test_physical_names_and_ids_matter_only_with_column_mapping(tmp_path: Path) -> None:
    schema = struct_of(mapped("a", 1, "c"), mapped("b", 1, "c"))
    write_log(tmp_path / "t", {0: [protocol(), metadata(schemaString=schema), add("a")]})
    assert condition(tmp_path / "t").mark == "ok"


@pytest.mark.parametrize("protocol_of_table", [protocol(1, 2), protocol(3, 7, readerFeatures=["deletionVectors"])])
@pytest.mark.parametrize("mode", ["id", "name", "none", "other"])
def test_column_mapping_mode_is_ignored_if_the_protocol_does_not_support_it(
    tmp_path: Path, protocol_of_table: dict[str, Any], mode: str
) -> None:
    leftover = metadata(schemaString=STRUCT % ('"long"', "{}"), configuration={"delta.columnMapping.mode": mode})
    write_log(tmp_path / "t", {0: [protocol_of_table, leftover, add("a")]})
    assert condition(tmp_path / "t").mark == "ok"


def test_mode_name_allows_one_id_twice_and_one_physical_name_in_several_structs(tmp_path: Path) -> None:
    schema = struct_of(mapped("s", 1, "c", struct_of(mapped("a", 1, "c"))), mapped("b", 3, "d"))
    table = metadata(schemaString=schema, configuration={"delta.columnMapping.mode": "name"})
    write_log(tmp_path / "t", {0: [protocol(2, 5), table, add("a")]})
    assert condition(tmp_path / "t").mark == "ok"


def test_type_of_an_unsupported_feature_is_no_fault_of_the_schema(tmp_path: Path) -> None:
    newer = protocol(3, 7, readerFeatures=["timestampNanos"], writerFeatures=["timestampNanos"])
    table = metadata(schemaString=STRUCT % ('"timestamp_nanos"', "{}"))
    write_log(tmp_path / "t", {0: [newer, table, add("a")]})
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind == ProblemKind.UNSUPPORTED_PROTOCOL
    snapshot = DeltaLog.for_table(None, tmp_path / "t").snapshot
    queries: list[Callable[[], object]] = [
        lambda: snapshot.schema,
        lambda: snapshot.scan(where="a = 1"),
        lambda: snapshot.tables.column_stats,
    ]
    for query in queries:
        with pytest.raises(UnsupportedProtocolError, match="/t needs the reader features timestampNanos"):
            query()
