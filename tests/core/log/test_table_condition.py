"""The condition of a table: every kind of damage has a fault with file, reason, versions and advice."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltasnap_core import (
    DeltaSnapError,
    FaultKind,
    FileStatus,
    StorageError,
    TableCondition,
    TableLog,
    VersionRanges,
)
from deltasnap_core.log.commits import commit_batch, commit_reader
from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.log_files.file_names import checkpoint_file, checksum_file, commit_file
from tests.builders import (
    LOG_PATH,
    Action,
    MemoryLogStore,
    add,
    commit_info,
    metadata,
    multipart_checkpoint_files,
    protocol,
    remove,
    write_log,
)
from tests.checkpoint_files import STYLES, CheckpointStyle, put_parsed_statistics, write_checkpoint

FIRST: list[Action] = [protocol(), metadata()]


def make_log(table: Path, last: int, *, checkpoint: int | None = None, style: CheckpointStyle = "classic") -> Path:
    log = write_log(table, {v: [*(FIRST if v == 0 else []), add(f"f{v}.parquet")] for v in range(last + 1)})
    if checkpoint is not None:
        actions = [*FIRST, *(add(f"f{v}.parquet") for v in range(checkpoint + 1))]
        write_checkpoint(log, checkpoint, style, actions)
    return log


def condition(table: Path, **options: Any) -> TableCondition:
    return TableLog.for_path(table).condition(**options)


def flip(file: Path, start: int, count: int = 400) -> None:
    content = bytearray(file.read_bytes())
    for place in range(start, min(start + count, len(content))):
        content[place] ^= 0xFF
    file.write_bytes(bytes(content))


def loads(table: Path, version: int) -> bool:
    try:
        _ = TableLog.for_path(table).at(version).replayable
    except DeltaSnapError:
        return False
    return True


def test_condition_of_a_sound_table_is_ok(tmp_path: Path) -> None:
    make_log(tmp_path / "t", 6, checkpoint=4)
    found = condition(tmp_path / "t")
    assert (found.mark, found.faults, found.text) == ("ok", (), "")
    assert (found.latest, [*found.loadable], found.newest_loadable) == (6, [0, 1, 2, 3, 4, 5, 6], 6)
    assert found.is_readable
    assert found.commits_read == (5, 6)
    assert found.checkpoints_read == (checkpoint_file(4),)
    assert found.pages_read


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("damage", ["footer", "empty", "truncated", "garbage"])
def test_condition_names_a_damaged_checkpoint_and_the_fallback(
    tmp_path: Path, style: CheckpointStyle, damage: str
) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4, style=style)
    file = sorted(log.glob("*.checkpoint*"))[0]
    match damage:
        case "footer":
            flip(file, max(file.stat().st_size - 400, 0))
        case "empty":
            file.write_bytes(b"")
        case "truncated":
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        case "garbage":
            file.write_bytes(b"no checkpoint " * 40)
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark, found.mark) == (FaultKind.CORRUPT_CHECKPOINT, "warning", "warning")
    assert file.name in fault.text
    assert fault.reason
    assert fault.read_instead == "the 7 commits from version 0 on"
    assert "Other readers" in fault.text
    assert found.loadable == (0, 1, 2, 3, 4, 5, 6)
    assert loads(tmp_path / "t", 6)


@pytest.mark.parametrize("style", ["classic", "multipart", "v2-parquet-sidecars"])
def test_condition_finds_damaged_pages_by_reading_them(tmp_path: Path, style: CheckpointStyle) -> None:
    log = make_log(tmp_path / "t", 400, checkpoint=400, style=style)
    folder = log / "_sidecars" if "sidecars" in style else log
    file = sorted(folder.glob("*.parquet"))[0]
    flip(file, 40)
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind == FaultKind.CORRUPT_CHECKPOINT
    assert file.name in (fault.file or "").replace("%20", " ")


def test_condition_without_pages_reports_that_they_were_not_read(tmp_path: Path) -> None:
    make_log(tmp_path / "t", 6, checkpoint=4)
    assert not condition(tmp_path / "t", read_pages=False).pages_read


def test_condition_names_a_missing_part(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4, style="multipart")
    (log / multipart_checkpoint_files(4, 2)[1]).unlink()
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind == FaultKind.CORRUPT_CHECKPOINT
    assert "part 2 of 2 is missing" in fault.text


def test_condition_names_a_missing_sidecar(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4, style="v2-json-sidecars")
    file = sorted((log / "_sidecars").iterdir())[1]
    file.unlink()
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind == FaultKind.CORRUPT_CHECKPOINT
    assert file.name in (fault.file or "").replace("%20", " ")


def test_condition_of_a_damaged_checkpoint_without_fallback_is_an_error(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    for version in range(4):
        (log / commit_file(version)).unlink()
    (log / checkpoint_file(4)).write_bytes(b"PAR1")
    found = condition(tmp_path / "t")
    assert [(f.kind, f.mark, f.read_instead) for f in found.faults] == [
        (FaultKind.CORRUPT_CHECKPOINT, "error", None)
    ], found.text
    assert found.unloadable == (4, 5, 6)
    assert not found.loadable


def test_condition_falls_back_to_an_older_checkpoint(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 9, checkpoint=4)
    write_checkpoint(log, 8, "classic", [*FIRST, add("a")])
    (log / checkpoint_file(8)).write_bytes(b"PAR1" * 10)
    (fault,) = condition(tmp_path / "t").faults
    assert fault.read_instead == "the checkpoint of version 4 and the 5 commits after it"


def test_condition_names_each_gap_and_the_versions_that_cannot_be_loaded(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 10)
    (log / commit_file(6)).unlink()
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark) == (FaultKind.MISSING_COMMIT, "error")
    assert fault.missing == (6,)
    assert fault.versions == (6, 7, 8, 9, 10)
    assert found.loadable == (0, 1, 2, 3, 4, 5)
    (log / commit_file(8)).unlink()
    found = condition(tmp_path / "t")
    assert [fault.missing for fault in found.faults] == [(6,), (8,)]
    assert found.unloadable == (6, 7, 8, 9, 10)
    assert [fault.missing for fault in found.faults_at(7)] == [(6,)]


def test_condition_of_a_cleaned_log_is_ok(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 9, checkpoint=6)
    for version in range(4):
        (log / commit_file(version)).unlink()
    found = condition(tmp_path / "t")
    assert found.mark == "ok"
    assert found.loadable == (6, 7, 8, 9)


def test_condition_names_the_line_of_a_broken_commit(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 20)
    (log / commit_file(16)).write_text('{"add":{"path":"a"\x00garbage\n')
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.line) == (FaultKind.CORRUPT_COMMIT, 1)
    assert commit_file(16) in (fault.file or "")
    assert fault.text.startswith("Version 16 cannot be read: ")
    assert found.newest_loadable == 15
    assert fault.versions == (16, 17, 18, 19, 20)


def test_condition_reads_earlier_commits_on_request(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 9, checkpoint=6)
    (log / commit_file(3)).write_text("garbage\n")
    assert condition(tmp_path / "t").mark == "ok"
    found = condition(tmp_path / "t", first=0)
    assert found.faults[0].versions == (3, 4, 5)
    assert found.is_readable


def test_condition_of_an_unsupported_feature_names_the_versions_that_need_it(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6)
    action = protocol(3, 7, readerFeatures=["timeMachine"], writerFeatures=["timeMachine"])
    (log / commit_file(4)).write_text(json.dumps(action) + "\n")
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert fault.kind == FaultKind.UNSUPPORTED_PROTOCOL
    assert "timeMachine" in fault.text
    assert fault.versions == (4, 5, 6)
    assert found.loadable == (0, 1, 2, 3)


@pytest.mark.parametrize("missing", ["protocol", "metadata"])
def test_condition_reports_a_log_without_protocol_or_metadata(tmp_path: Path, missing: str) -> None:
    first = FIRST[1:] if missing == "protocol" else FIRST[:1]
    write_log(tmp_path / "t", {0: [*first, add("a")], 1: [add("b")]})
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert fault.kind == FaultKind.MISSING_ACTION
    assert missing in fault.text
    assert not found.loadable


SCHEMAS = {
    "no JSON": "{ not json",
    "no struct": '"string"',
    "no fields": '{"type":"struct"}',
    "a field without a name": '{"type":"struct","fields":[{"type":"long"}]}',
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_condition_reports_that_the_current_schema_cannot_be_read(tmp_path: Path, schema: str) -> None:
    write_log(tmp_path / "t", {0: [*FIRST, add("a")], 1: [metadata(schemaString=schema)], 2: [add("b")]})
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark, found.mark) == (FaultKind.BROKEN_SCHEMA, "error", "error")
    assert "metaData.schemaString" in fault.text
    assert found.loadable == (0, 1, 2)
    write_log(tmp_path / "t", {3: [metadata()]})
    assert condition(tmp_path / "t").mark == "ok"


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
    "changes of a type that are texts": STRUCT % ('"decimal(10,2)"', '{"delta.typeChanges":["x"]}'),
    "physical name that is null": STRUCT % ('"long"', '{"delta.columnMapping.physicalName":null}'),
    "id that is a text": STRUCT % ('"long"', '{"delta.columnMapping.id":"one"}'),
    "type of an unknown name": STRUCT % ('"geometry3d"', "{}"),
    "type of an unknown kind": STRUCT % ('{"type":"geometry3d"}', "{}"),
    "user-defined type without its storage type": STRUCT % ('{"type":"udt","class":"x"}', "{}"),
    "decimal of too many digits": STRUCT % ('"decimal(39,0)"', "{}"),
    "id beyond 32 bits": STRUCT % ('"long"', '{"delta.columnMapping.id":4294967296}'),
}
INSIDE = '{"type":"array","elementType":{"type":"map","keyType":"string","valueType":%s}}'


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("schema", DEEP_SCHEMAS.values(), ids=DEEP_SCHEMAS.keys())
def test_condition_examines_the_schema_at_all_levels(tmp_path: Path, schema: str, depth: int) -> None:
    text = STRUCT % (INSIDE % schema, "{}") if depth else schema
    write_log(tmp_path / "t", {0: [protocol(), metadata(schemaString=text), add("a")]})
    (fault,) = condition(tmp_path / "t").faults
    assert (fault.kind, fault.mark) == (FaultKind.BROKEN_SCHEMA, "error")


@pytest.mark.parametrize("kind", ['{"type":"struct","fields":[]}', '{"type":"array","elementType":"long"}'])
def test_condition_names_partition_columns_with_nested_types(tmp_path: Path, kind: str) -> None:
    schema = STRUCT % (kind, "{}")
    write_log(tmp_path / "t", {0: [protocol(), metadata(schemaString=schema, partitionColumns=["A"]), add("a")]})
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind is FaultKind.BROKEN_SCHEMA
    assert "expected a primitive type of A" in fault.text


@pytest.mark.parametrize(
    "fields",
    [
        {"partitionColumns": ["nope"]},
        {"configuration": {"delta.columnMapping.mode": "Name "}},
        {"configuration": {"delta.columnMapping.mode": "id"}},
    ],
)
def test_condition_names_partition_columns_and_mappings_that_do_not_exist(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    write_log(
        tmp_path / "t", {0: [protocol(2, 5), metadata(schemaString=STRUCT % ('"long"', "{}"), **fields), add("a")]}
    )
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind is FaultKind.BROKEN_SCHEMA
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
    write_log(tmp_path / "t", {0: [protocol(), metadata(schemaString=struct_of(*fields, user_defined)), add("a")]})
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
    [
        *((*found, mode) for found in UNMAPPED.values() for mode in ("id", "name")),
        (ONE_ID, "id of field s.a", "id"),
    ],
)
def test_condition_names_columns_that_data_files_cannot_tell_apart(
    tmp_path: Path, schema: str, named: str, mode: str
) -> None:
    table = metadata(schemaString=schema, configuration={"delta.columnMapping.mode": mode})
    write_log(tmp_path / "t", {0: [protocol(2, 5), table, add("a")]})
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, tuple(found.loadable)) == (FaultKind.BROKEN_SCHEMA, (0,))
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


def test_commits_without_a_required_in_commit_timestamp_cannot_be_loaded(tmp_path: Path) -> None:
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    commits = {0: [commit_info(inCommitTimestamp=1), protocol(), enabled], 1: [commit_info()], 2: [add("a")]}
    write_log(tmp_path / "t", {**commits, 3: [commit_info(inCommitTimestamp=9), add("b")]})
    found = condition(tmp_path / "t", first=0)
    (fault,) = found.faults
    assert (fault.kind, [*fault.versions], [*found.loadable]) == (FaultKind.CORRUPT_COMMIT, [1, 2], [0, 3])
    assert "inCommitTimestamp" in fault.text


def test_condition_warns_of_in_commit_timestamps_that_decrease(tmp_path: Path) -> None:
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true"})
    times = {0: 10, 1: 30, 2: 20, 3: 20, 4: 40, 5: 5}
    commits = {v: [commit_info(inCommitTimestamp=time), add(str(v))] for v, time in times.items()}
    write_log(tmp_path / "t", {**commits, 0: [*commits[0], protocol(), enabled]})
    found = condition(tmp_path / "t", first=0)
    (fault,) = found.faults
    assert (fault.kind, fault.mark, [*found.loadable]) == (FaultKind.BROKEN_TIMESTAMPS, "warning", [*times])
    assert "versions 2, 5" in fault.text


@pytest.mark.parametrize("stated", [{"Version": "0"}, {"Timestamp": "10"}, {"Version": "0", "Timestamp": "x"}])
def test_condition_warns_of_properties_that_partly_state_since_when_timestamps_are_enabled(
    tmp_path: Path, stated: dict[str, str]
) -> None:
    names = {f"delta.inCommitTimestampEnablement{key}": value for key, value in stated.items()}
    enabled = metadata(configuration={"delta.enableInCommitTimestamps": "true", **names})
    write_log(tmp_path / "t", {0: [commit_info(inCommitTimestamp=10), protocol(), enabled]})
    assert [(f.kind, f.mark) for f in condition(tmp_path / "t").faults] == [(FaultKind.BROKEN_TIMESTAMPS, "warning")]


VECTOR = {"storageType": "u", "pathOrInlineDv": "abc", "sizeInBytes": 1, "cardinality": -4}
NEGATIVE: dict[str, dict[str, Any]] = {
    "size": {"size": -1},
    "number of records": {"stats": '{"numRecords":-1}'},
    "number of deleted rows": {"deletionVector": VECTOR},
    "number of live rows": {"stats": '{"numRecords":1}', "deletionVector": {**VECTOR, "cardinality": 2}},
}


@pytest.mark.parametrize("fields", NEGATIVE.values(), ids=NEGATIVE)
def test_condition_warns_of_negative_numbers_in_commits(tmp_path: Path, fields: dict[str, Any]) -> None:
    write_log(tmp_path / "t", {0: [*FIRST, add("a")], 1: [add("b", **fields)], 2: [add("c", size=0)]})
    found = condition(tmp_path / "t")
    (fault,) = found.faults
    assert (fault.kind, fault.mark, [*found.loadable]) == (FaultKind.NEGATIVE_NUMBER, "warning", [0, 1, 2])
    assert "Files of version 1 in the log" in fault.text


@pytest.mark.parametrize("style", ["classic", "v2-json", "v2-parquet-sidecars"])
@pytest.mark.parametrize("number", ["size", "number of deleted rows", "number of live rows"])
def test_condition_warns_of_negative_numbers_in_a_checkpoint(
    tmp_path: Path, style: CheckpointStyle, number: str
) -> None:
    log = write_log(tmp_path / "t", {2: [add("b")]})
    write_checkpoint(log, 1, style, [*FIRST, add("a", **NEGATIVE[number])])
    assert [(f.kind, f.mark) for f in condition(tmp_path / "t").faults] == [(FaultKind.NEGATIVE_NUMBER, "warning")]


def test_condition_warns_of_a_negative_number_of_records_in_the_struct_of_a_checkpoint(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t", {2: [add("b")]})
    (file,) = write_checkpoint(log, 1, "classic", [*FIRST, add("a")])
    numbers = pa.array([None, None, {"numRecords": -1}], pa.struct([("numRecords", pa.int64())]))
    put_parsed_statistics(file, numbers, keep_json=True)
    assert [(f.kind, f.mark) for f in condition(tmp_path / "t").faults] == [(FaultKind.NEGATIVE_NUMBER, "warning")]


@pytest.mark.parametrize("style", ["classic", "multipart", "v2-parquet-sidecars"])
def test_condition_warns_of_a_negative_number_of_records_in_the_json_of_a_checkpoint(
    tmp_path: Path, style: CheckpointStyle
) -> None:
    log = write_log(tmp_path / "t", {2: [add("b")]})
    stats = '{"minValues":{},"numRecords" : -1}'
    write_checkpoint(log, 1, style, [*FIRST, add("a", stats=stats), add("c"), remove("d")])
    assert [(f.kind, f.mark) for f in condition(tmp_path / "t").faults] == [(FaultKind.NEGATIVE_NUMBER, "warning")]


@pytest.mark.parametrize("fields", NEGATIVE.values(), ids=NEGATIVE)
def test_condition_warns_of_negative_numbers_in_commits_too_large_for_memory(
    tmp_path: Path, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_batch, "LARGE_COMMIT_BYTES", 0)
    monkeypatch.setattr(commit_reader, "MEASURED_BYTES", 0)
    write_log(tmp_path / "t", {0: [*FIRST, add("a")], 1: [add("b", **fields)]})
    (fault,) = condition(tmp_path / "t").faults
    assert fault.kind is FaultKind.NEGATIVE_NUMBER
    assert "Files of version 1 in the log" in fault.text


DOMAIN = {"domain": "d", "configuration": "", "removed": False}
RIGHT = {
    "tableSizeBytes": 1,
    "numFiles": 1,
    "numMetadata": 1,
    "numProtocol": 1,
    "inCommitTimestamp": 5,
    "domainMetadata": [],
    "setTransactions": [],
    **protocol(),
    "metadata": metadata()["metaData"],
}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({}, ""),
        ({"setTransactions": None}, ""),
        ({"protocol": protocol(2, 5)["protocol"]}, "protocol"),
        ({"metadata": metadata(table_id="other")["metaData"]}, "metadata"),
        ({"setTransactions": [{"appId": "a", "version": 1}]}, "set_transactions"),
        (
            {"numProtocol": 2, "domainMetadata": [DOMAIN]},
            "num_protocol, domain_metadata",
        ),
    ],
)
def test_condition_warns_of_a_checksum_that_differs_from_the_log(
    tmp_path: Path, wrong: dict[str, Any], named: str
) -> None:
    log = write_log(tmp_path / "t", {0: [*FIRST, add("a")], 1: [add("b")]})
    (log / checksum_file(1)).write_text(json.dumps({**RIGHT, **wrong}))
    (log / checksum_file(0)).write_text(json.dumps({**RIGHT, **protocol(2, 5)}))
    expected = f"The log differs from the checksum of version 1: {named}." if named else ""
    assert condition(tmp_path / "t").text == expected


def test_condition_uses_known_schemas_of_stored_versions(tmp_path: Path) -> None:
    broken = metadata(schemaString="{")
    write_log(tmp_path / "t", {0: [FIRST[0], broken], 1: [add("b")]})
    found = TableLog.for_path(str(tmp_path / "t")).condition(sound=VersionRanges.of(range(2)))
    assert found.mark == "ok"
    known = Metadata.from_json(broken["metaData"])
    assert found.with_schema_of(known, None).mark == "error"
    assert (
        found.with_schema_of(known, None).with_schema_of(known, None).faults == found.with_schema_of(known, None).faults
    )


def test_stored_version_after_a_checkpoint_does_not_vouch_for_the_commits_before_it(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=5)
    (log / commit_file(3)).write_bytes(b"{nope")
    found = condition(tmp_path / "t", first=3, sound=VersionRanges.of([0, 1, 2, 5]))
    assert [[*found.commits_read], [*found.unloadable], [*found.unread]] == [[3, 4, 6], [3, 4], [0, 1, 2, 5]]
    assert not found.is_complete
    assert condition(tmp_path / "t", first=0).is_complete


def test_condition_of_an_invalid_hint_warns(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    (log / "_last_checkpoint").write_text('{"version":6,"size":3}')
    assert [(f.kind, f.mark) for f in condition(tmp_path / "t").faults] == [(FaultKind.BROKEN_HINT, "warning")]
    (log / "_last_checkpoint").write_text("{")
    assert [(f.kind, f.mark) for f in condition(tmp_path / "t").faults] == [(FaultKind.BROKEN_HINT, "warning")]


@pytest.mark.parametrize(
    ("hint", "reported"),
    [
        ({}, None),
        ({"parts": 1}, None),
        ({"parts": 3}, "in 3 parts"),
        ({"v2Checkpoint": {"path": checkpoint_file(4)}}, None),
        ({"v2Checkpoint": {"path": "4.checkpoint.x.json"}}, "in the file 4.checkpoint.x.json"),
    ],
)
def test_condition_warns_of_a_hint_at_another_form_of_the_checkpoint(
    tmp_path: Path, hint: dict[str, Any], reported: str | None
) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    (log / "_last_checkpoint").write_text(json.dumps({"version": 4, "size": 3, **hint}))
    found = condition(tmp_path / "t")
    expected = [] if reported is None else [(FaultKind.BROKEN_HINT, "warning")]
    assert [(fault.kind, fault.mark) for fault in found.faults] == expected
    if reported is not None:
        assert f"it names the checkpoint of version 4 {reported}, which is not in the log" in found.text


def test_condition_of_an_empty_commit_warns_and_every_version_loads(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=4)
    for version in (2, 6):
        (log / commit_file(version)).write_bytes(b"")
    found = condition(tmp_path / "t")
    assert [(f.kind, f.mark) for f in found.faults] == [(FaultKind.EMPTY_COMMIT, "warning")]
    assert "commits of versions 2, 6 are empty" in found.text
    assert [*found.loadable] == [0, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("blank", [b"\n", b" \r\n\t \n", b"\n" * 1000])
def test_commit_with_only_blank_lines_is_an_empty_commit(tmp_path: Path, blank: bytes) -> None:
    log = make_log(tmp_path / "t", 3)
    (log / commit_file(2)).write_bytes(blank)
    (log / commit_file(3)).write_bytes(b"{}\n")
    found = condition(tmp_path / "t")
    assert [(f.kind, f.mark) for f in found.faults] == [(FaultKind.EMPTY_COMMIT, "warning")]
    assert "commit of version 2 is empty" in found.text
    assert [*found.loadable] == [0, 1, 2, 3]


@pytest.mark.parametrize(("action", "named"), [(metadata, "metaData"), (protocol, "protocol")])
def test_commit_with_two_actions_of_a_kind_is_a_warning(action: Any, named: str, tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 3)
    text = "\n".join(json.dumps(each) for each in (action(), action()))
    (log / commit_file(2)).write_text(text)
    found = condition(tmp_path / "t")
    assert [(f.kind, f.mark) for f in found.faults] == [(FaultKind.AMBIGUOUS_COMMIT, "warning")]
    assert f"The commit of version 2 in the log of {found.table} has more than one {named} action." in found.text
    assert [*found.loadable] == [0, 1, 2, 3]


def test_condition_reports_an_empty_commit_of_a_stored_version(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6)
    (log / commit_file(5)).write_bytes(b"\n")
    (log / commit_file(6)).write_bytes(b"")
    assert "commits of versions 5 to 6 are empty" in condition(tmp_path / "t", sound=VersionRanges.of(range(7))).text


def _drop(table: Path) -> Path:
    shutil.rmtree(table)
    return table


def _drop_log(table: Path) -> Path:
    shutil.rmtree(table / "_delta_log")
    return table


def _empty_log(table: Path) -> Path:
    for file in (table / "_delta_log").iterdir():
        file.unlink()
    return table


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (_drop, "no such folder"),
        (_drop_log, "the folder has no _delta_log"),
        (_empty_log, "neither a commit nor a checkpoint"),
        (lambda table: table / "_delta_log", "names a log folder"),
        (lambda table: table / "_delta_log" / commit_file(0), "names a file"),
    ],
    ids=["dropped", "no log", "empty log", "log folder", "file"],
)
def test_condition_of_a_path_without_a_table_has_a_reason(
    tmp_path: Path, broken: Callable[[Path], Path], reason: str
) -> None:
    make_log(tmp_path / "t", 1)
    found = condition(broken(tmp_path / "t"))
    (fault,) = found.faults
    assert (fault.kind, found.mark, found.latest) == (FaultKind.NO_TABLE, "error", None)
    assert reason in fault.text
    assert fault.advice


@pytest.mark.parametrize(
    ("cause", "reason", "kind"),
    [
        (PermissionError(13, "Permission denied"), "Permission denied", FaultKind.ACCESS_DENIED),
        (OSError(), "An error occurred (403) when calling ListObjectsV2: Forbidden", FaultKind.ACCESS_DENIED),
        (OSError(), "Unable to locate credentials", FaultKind.ACCESS_DENIED),
        (OSError(), "Connection reset by peer", FaultKind.STORAGE_FAILED),
    ],
    ids=["local", "403", "no credentials", "network"],
)
def test_condition_distinguishes_denied_access_from_failed_storage(
    cause: OSError, reason: str, kind: FaultKind
) -> None:
    class RefusingStore(MemoryLogStore):
        def list_from(self, path: str) -> Iterator[FileStatus]:
            raise StorageError(path="s3://key:secret@lake/t", reason=reason) from cause

    (fault,) = TableLog(RefusingStore(), LOG_PATH).condition().faults
    assert (fault.kind, fault.mark) == (kind, "error")
    assert reason in fault.text
    assert "secret@" not in fault.text
    assert fault.advice


def test_condition_of_an_unknown_scheme_does_not_advise_to_try_again() -> None:
    (fault,) = TableLog.for_path("foo://lake/t").condition().faults
    assert fault.kind == FaultKind.STORAGE_FAILED
    assert fault.advice == "Correct the scheme of the path, or install the package of the filesystem."


def test_condition_as_json_is_plain(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 5)
    (log / commit_file(3)).unlink()
    reported = json.loads(json.dumps(condition(tmp_path / "t").to_json()))
    assert reported["mark"] == "error"
    assert reported["unloadable_versions"] == [[3, 5]]
    assert reported["unread_versions"] == []
    (fault,) = reported["faults"]
    assert (fault["kind"], fault["mark"], fault["missing"], fault["versions"]) == (
        "missing_commit", "error", [[3, 3]], [[3, 5]],
    )  # fmt: skip
    names = ("kind", "mark", "text", "advice", "file", "line", "reason", "versions", "missing", "read_instead")
    assert tuple(fault) == names


def damaged(log: Path, *, checkpoint: int, gone: Sequence[int]) -> None:
    """Truncate a checkpoint, and delete commits."""
    file = log / checkpoint_file(checkpoint)
    file.write_bytes(file.read_bytes()[:100])
    for version in gone:
        (log / commit_file(version)).unlink()


@pytest.mark.parametrize("gone", [[1], [0, 1, 2, 3]], ids=["gap", "cleaned up"])
def test_damaged_older_checkpoint_is_found_where_versions_need_it(tmp_path: Path, gone: list[int]) -> None:
    log = make_log(tmp_path / "t", 7, checkpoint=3)
    write_checkpoint(log, 6, "classic", [*FIRST, *(add(f"f{v}.parquet") for v in range(7))])
    damaged(log, checkpoint=3, gone=gone)
    found = condition(tmp_path / "t", first=0)
    assert [*found.loadable] == [version for version in range(8) if loads(tmp_path / "t", version)]
    assert found.loadable.text() == ("0, 6 to 7" if gone == [1] else "6 to 7")
    (fault,) = [fault for fault in found.faults if fault.kind == FaultKind.CORRUPT_CHECKPOINT]
    assert fault.versions.text() == "3 to 5"


def test_empty_checkpoint_after_the_latest_commit_is_reported(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 6, checkpoint=6)
    for version in (0, 5, 6):
        (log / commit_file(version)).unlink()
    (log / checkpoint_file(6)).write_bytes(b"")
    found = condition(tmp_path / "t")
    assert (found.latest, found.loadable.text()) == (4, "")
    (fault,) = [fault for fault in found.faults if fault.kind == FaultKind.CORRUPT_CHECKPOINT]
    assert fault.versions.text() == "6"


def test_older_checkpoint_is_not_read_where_no_version_needs_it(tmp_path: Path) -> None:
    log = make_log(tmp_path / "t", 7, checkpoint=3)
    write_checkpoint(log, 6, "classic", [*FIRST, *(add(f"f{v}.parquet") for v in range(7))])
    found = condition(tmp_path / "t", first=0)
    assert found.checkpoints_read == (checkpoint_file(6),)
    assert condition(tmp_path / "t", first=5).checkpoints_read == (checkpoint_file(6), checkpoint_file(3))


def test_versions_without_a_protocol_before_the_newest_checkpoint_are_found(tmp_path: Path) -> None:
    log = write_log(tmp_path / "t", {v: [add(f"f{v}.parquet")] for v in range(6)})
    write_checkpoint(log, 3, "classic", [*FIRST, *(add(f"f{v}.parquet") for v in range(4))])
    for first in range(3):
        found = condition(tmp_path / "t", first=first)
        assert found.loadable.text() == "3 to 5"
        assert [(fault.kind, fault.versions.text()) for fault in found.faults] == [(FaultKind.MISSING_ACTION, "0 to 2")]
    assert condition(tmp_path / "t").faults == ()


@given(data=st.data())
def test_condition_agrees_with_loading(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    table = tmp_path_factory.mktemp("log") / "t"
    last = data.draw(st.integers(0, 7))
    log = make_log(table, last)
    for version in sorted(data.draw(st.sets(st.integers(0, last), max_size=2))):
        write_checkpoint(log, version, "classic", [*FIRST, *(add(f"f{v}.parquet") for v in range(version + 1))])
    for file in sorted(log.iterdir()):
        match data.draw(st.sampled_from(["", "", "", "", "delete", "empty", "garbage", "half"])):
            case "delete":
                file.unlink()
            case "empty":
                file.write_bytes(b"")
            case "garbage":
                file.write_bytes(b'{"add":\n')
            case "half":
                file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    found = condition(table, first=0)
    able = [version for version in range(last + 1) if loads(table, version)]
    if found.latest is None:
        assert not able
        assert found.faults
        return
    newest = max(able, default=None)
    assert found.newest_loadable == newest, (found, able)
    assert [*found.loadable] == able, (found, able)
    assert not set(able) & set(found.unloadable), (found, able)
    assert found.is_readable or found.mark == "error"
    if found.latest not in able:
        assert any(found.faults_at(found.latest)), found
    sound = VersionRanges.of(data.draw(st.sets(st.sampled_from(able))) if able else ())
    first = sound.runs[0][1] + 1 if sound else 0
    known = condition(table, first=first, sound=sound)
    assert [v for v in known.loadable if v >= first] == [v for v in able if v >= first], (known, sound, able)
    assert not set(known.commits_read) & set(sound)
