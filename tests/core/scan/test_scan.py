"""Scans of one table per rule."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import DeltaLog, ScanOptions, SnapshotOptions, SnapshotStore
from deltasnap_core.errors import CorruptLogError, DataFileError, DataFileNotFoundError, DataPathError, PredicateError
from deltasnap_core.scan.planning import chosen_files
from deltasnap_core.scan.row_reader import DataFile, RowReader
from deltasnap_core.scan.skipping.data_skipping import skipping_of
from tests.builders import Action, add, metadata, protocol, write_log
from tests.checkpoint_files import put_parsed_statistics, write_checkpoint
from tests.core.scan.test_deletion_vectors import encode_z85
from tests.core.scan.test_roaring import array_container, array_of, bitmap_of
from tests.core.snapshot.test_damage import flip

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltasnap_core import EngineUse, Scan, Snapshot

pytestmark = pytest.mark.spark


def field(name: str, kind: Any, **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": properties}


def schema(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def file(table: Path, path: str, rows: pa.Table, *, name: str | None = None, **fields: Any) -> Action:
    """Write a data file at `name` (default: `path`) and return its add action."""
    target = table / (name or path)
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, target)
    return add(path, size=target.stat().st_size, **fields)


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def snapshot_of(spark: SparkSession, table: Path, adds: Iterable[Action], **fields: Any) -> Snapshot:
    features = fields.pop("features", None)
    first = protocol(3, 7, readerFeatures=features, writerFeatures=features) if features else protocol()
    write_log(table, {0: [first, metadata(**fields), *adds]})
    return DeltaLog.for_table(spark, table).snapshot


def found(scan: Scan) -> list[Any]:
    return sorted((tuple(row) for row in scan.to_df().collect()), key=repr)


def stats(low: int, high: int, *, nulls: int = 0, rows: int = 2) -> str:
    return json.dumps(
        {"numRecords": rows, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": nulls}}
    )


CUT_STRINGS = {
    "a character beyond U+FFFF after the cut": ("🤣" * 20, "🤣" * 16 + "\ufffd"),
    "one right after the cut": ("a" * 32 + "😀", "a" * 32 + "\ufffd"),
    "one that the cut divides": ("a" * 31 + "😀x", "a" * 31 + "?\ufffd"),
}


@pytest.mark.parametrize(("value", "stored"), CUT_STRINGS.values(), ids=CUT_STRINGS)
@pytest.mark.parametrize("form", ["name = '{}'", "name >= '{}'", "name in ('{}', 'zz')", "name like '{}%'"])
def test_maximum_truncated_too_low_by_delta_loses_no_file(
    spark: SparkSession, tmp_path: Path, value: str, stored: str, form: str
) -> None:
    bounds = {"numRecords": 1, "minValues": {"name": stored[:-1]}, "maxValues": {"name": stored}}
    rows = pa.table({"name": [value]})
    adds = [file(tmp_path, "a", rows, stats=json.dumps({**bounds, "nullCount": {"name": 0}}))]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("name", "string")))
    assert snapshot.scan(form.format(value)).files.count() == 1
    assert snapshot.scan("name = 'b'").files.count() == 0


def test_columns_are_named_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"a.b": [1], "a": [{"b": 2}], "x`y": [3]})
    inner = {"type": "struct", "fields": [field("b", "long")]}
    names = schema(field("a.b", "long"), field("a", inner), field("x`y", "long"))
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "f", rows)], schemaString=names)
    for name, value in {"`a.b`": 1, "a.b": 1, "a.`b`": 2, "`a`.`b`": 2, "`x``y`": 3, "x`y": 3}.items():
        assert found(snapshot.scan(columns=[name])) == [(value,)]
    with pytest.raises(ValueError, match="has no column"):
        snapshot.scan(columns=["`a.b"])


def test_invalid_partition_value_is_an_error_even_if_the_file_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    days = [{"p": "y", "q": "abc"}, {"p": "x", "q": "5"}]
    adds = [
        file(tmp_path, f"f{n}", ids(n), partitionValues=values, stats=stats(n, n, rows=1))
        for n, values in enumerate(days)
    ]
    kinds = schema(field("id", "long"), field("p", "string"), field("q", "integer"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=kinds, partitionColumns=["p", "q"])
    with pytest.raises(CorruptLogError, match="abc"):
        snapshot.scan("q = 5 or p = 'x' and id = 3").to_df()


@pytest.mark.parametrize("damage", [{"pathOrInlineDv": None}, {"sizeInBytes": -5}, {"offset": -1, "storageType": "p"}])
def test_incomplete_deletion_vector_is_an_error(spark: SparkSession, tmp_path: Path, damage: dict[str, Any]) -> None:
    (tmp_path / "v.bin").write_bytes(b"\x01" + bytes(40))
    place = {"storageType": "p", "pathOrInlineDv": f"{tmp_path}/v.bin", "offset": 1, "sizeInBytes": 8, "cardinality": 1}
    adds = [file(tmp_path, "a", ids(1, 2), deletionVector={**place, **damage})]
    snapshot = snapshot_of(spark, tmp_path, adds, features=["deletionVectors"])
    with pytest.raises(CorruptLogError, match="deletion vector"):
        snapshot.scan().to_df().collect()


def test_partitions_and_statistics_select_files_and_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    adds = [
        file(tmp_path, "a", ids(1, 2), partitionValues={"day": "2026-01-01"}, stats=stats(1, 2)),
        file(tmp_path, "b", ids(5, 6), partitionValues={"day": "2026-01-01"}, stats=stats(5, 6)),
        file(tmp_path, "c", ids(1, 9), partitionValues={"day": "2026-01-01"}),
        file(tmp_path, "d", ids(1, 2), partitionValues={"day": "2026-01-02"}, stats=stats(1, 2)),
        file(tmp_path, "e", ids(1), partitionValues={"day": ""}, stats=stats(1, 1, rows=1)),
    ]
    snapshot = snapshot_of(
        spark,
        tmp_path,
        adds,
        schemaString=schema(field("id", "long"), field("day", "date")),
        partitionColumns=["day"],
    )
    scan = snapshot.scan("day = '2026-01-01' and ID > 4 and id % 2 = 1")
    size = adds[0]["add"]["size"]
    assert sorted(row.path for row in scan.files.collect()) == ["b", "c"]
    assert (scan.report.files, scan.report.files_after_partitions, scan.report.files_after_statistics) == (5, 3, 2)
    assert scan.report.bytes_after_partitions == pytest.approx(3 * size, abs=size)
    assert scan.report.used == ("day = '2026-01-01'", "ID > 4")
    assert (snapshot.computed_state.num_of_files, snapshot.scan(scan.where).report) == (5, scan.report)
    assert scan.report.unused == ("id % 2 = 1",)
    assert found(scan) == [(5, date(2026, 1, 1)), (9, date(2026, 1, 1))]
    assert found(snapshot.scan("day is null", columns=["DAY", "id"])) == [(None, 1)]
    assert found(snapshot.scan("day > '2030-01-01'")) == []


def test_file_names_are_used_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "a{b} 100%25 é+[c]"
    names = ["p=x y%20z/part 1.parquet", "p=é+?#[]{}&'!$,;=@:/a.parquet", "p=%41/a*.parquet", "a\u00a0b.parquet"]
    adds = []
    for number, name in enumerate(names):
        path = "".join(c if (c.isalnum() and c.isascii()) or c in "/._-" else _encoded(c) for c in name)
        adds.append(file(table, path, ids(number), name=name, partitionValues={"p": name[:3]}))
    snapshot = snapshot_of(
        spark, table, adds, schemaString=schema(field("p", "string"), field("id", "long")), partitionColumns=["p"]
    )
    assert found(snapshot.scan()) == sorted(((name[:3], number) for number, name in enumerate(names)), key=repr)


def _encoded(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def test_columns_missing_in_a_file_are_null_and_older_types_are_widened(spark: SparkSession, tmp_path: Path) -> None:
    old = pa.schema([("n", pa.int32()), ("d", pa.date32()), ("x", pa.float32()), ("c", pa.int8())])
    new = pa.schema([("n", pa.int64()), ("c", pa.decimal128(4, 1))])
    adds = [
        file(tmp_path, "old", pa.Table.from_pylist([{"n": 1, "d": date(2026, 1, 1), "x": 1.5, "c": -7}], old)),
        file(tmp_path, "new", pa.Table.from_pylist([{"n": 2**40, "c": Decimal("2.5")}], new)),
    ]
    fields = schema(
        field("n", "long"),
        field("d", "timestamp_ntz"),
        field("x", "double"),
        field("c", "decimal(4,1)", **{"delta.typeChanges": [{"fromType": "byte", "toType": "decimal(4,1)"}]}),
        field("later", "string"),
        field("nothing", "void"),
    )
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, features=["typeWidening", "timestampNtz"])
    rows = found(snapshot.scan(columns=["n", "x", "c", "later", "nothing"]))
    assert rows == [(1, 1.5, Decimal(-7), None, None), (2**40, None, Decimal("2.5"), None, None)]
    assert [str(row.d) for row in snapshot.scan("d is not null").to_df().collect()] == ["2026-01-01 00:00:00"]


@pytest.mark.parametrize("where", ["x = 0", "x in (0, 5)", "x >= 0D", "s.y <=> 0"])
def test_zero_equals_negative_zero(spark: SparkSession, tmp_path: Path, where: str) -> None:
    numbers = pa.array([-0.0, -0.0, -7.5], pa.float64())
    rows = pa.table({"x": numbers, "s": pa.StructArray.from_arrays([numbers.cast(pa.float32())], ["y"])})
    text = schema(field("x", "double"), field("s", {"type": "struct", "fields": [field("y", "float")]}))
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a.parquet", rows)], schemaString=text)
    assert snapshot.scan(where).to_df().count() == 2


def test_char_and_varchar_are_strings(spark: SparkSession, tmp_path: Path) -> None:
    adds = [file(tmp_path, "a", pa.table({"c": ["ab "], "v": ["x"]}))]
    fields = schema(field("c", "char(3)"), field("v", "varchar(9)"))
    assert found(snapshot_of(spark, tmp_path, adds, schemaString=fields).scan("c = 'ab '")) == [("ab ", "x")]


def test_columns_are_found_by_name_and_by_id(spark: SparkSession, tmp_path: Path) -> None:
    inner = [pa.field("y", pa.int64(), metadata={"PARQUET:field_id": "3"})]
    physical = pa.schema(
        [
            pa.field("col-1", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("col-2", pa.struct(inner), metadata={"PARQUET:field_id": "2"}),
        ]
    )
    rows = pa.Table.from_pylist([{"col-1": 7, "col-2": {"y": 8}}], physical)

    def mapped(name: str, kind: Any, number: int, column: str) -> dict[str, Any]:
        return field(name, kind, **{"delta.columnMapping.id": number, "delta.columnMapping.physicalName": column})

    for mode, names in {"name": ("col-1", "col-2", "y"), "id": ("of", "another", "name")}.items():
        table = tmp_path / mode
        struct = {"type": "struct", "fields": [mapped("b", "long", 3, names[2])]}
        snapshot = snapshot_of(
            spark,
            table,
            [file(table, "a", rows)],
            schemaString=schema(mapped("a.b", "long", 1, names[0]), mapped("s", struct, 2, names[1])),
            configuration={"delta.columnMapping.mode": mode},
            features=["columnMapping"],
        )
        assert found(snapshot.scan("`a.b` = 7 and s.b = 8", columns=["a.b", "s.b"])) == [(7, 8)], mode


def test_files_in_another_order_case_and_format_of_times_are_read(spark: SparkSession, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)
    rows = pa.table(
        {
            "AT": pa.array([moment], pa.timestamp("us", "UTC")),
            "Name": ["x"],
            "other": [1],
            "id": pa.array([7], pa.int64()),
        }
    )
    adds = [file(tmp_path, "a", rows)]
    pq.write_table(rows, tmp_path / "a", use_deprecated_int96_timestamps=True)
    adds[0]["add"]["size"] = (tmp_path / "a").stat().st_size
    fields = schema(field("id", "long"), field("name", "string"), field("at", "timestamp"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields)
    found_rows = snapshot.scan("NAME = 'x' and at = timestamp'2026-01-01 12:00:00.123456Z'").to_df()
    assert found_rows.selectExpr("id", "name", "unix_micros(at)").collect() == [(7, "x", 1_767_268_800_123_456)]


@pytest.mark.parametrize("mode", ["name", "id", "other"])
def test_rows_are_read_by_name_if_the_protocol_has_no_column_mapping(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    adds = [file(tmp_path, "a", pa.table({"id": [7]}), partitionValues={"day": "x"}, stats=stats(7, 7, rows=1))]
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    fields = schema(field("id", "long", **mapped), field("day", "string"))
    log = write_log(
        tmp_path,
        {
            0: [
                protocol(),
                metadata(
                    schemaString=fields,
                    partitionColumns=["day"],
                    configuration={"delta.columnMapping.mode": mode},
                ),
                *adds,
            ]
        },
    )
    source = DeltaLog.for_table(spark, log.parent)
    assert (source.snapshot.column_mapping_mode, found(source.snapshot.scan("id = 7"))) == ("none", [(7, "x")])
    assert [row["id"] for row in source.row_changes(0, 0).collect()] == [7]


def test_variants_are_read_in_a_mapped_struct(spark: SparkSession, tmp_path: Path) -> None:
    made = spark.sql("""select parse_json('{"a": [1, null]}') as `c-1`, struct(parse_json('"x"') as `c-3`) as `c-2`""")
    made.coalesce(1).write.parquet(str(tmp_path / "made"))
    (part,) = (tmp_path / "made").glob("*.parquet")

    def mapped(name: str, kind: Any, column: str) -> dict[str, Any]:
        return field(
            name, kind, **{"delta.columnMapping.id": int(column[2:]), "delta.columnMapping.physicalName": column}
        )

    struct = {"type": "struct", "fields": [mapped("w", "variant", "c-3")]}
    snapshot = snapshot_of(
        spark,
        tmp_path,
        [add(f"made/{part.name}", size=part.stat().st_size)],
        schemaString=schema(mapped("v", "variant", "c-1"), mapped("s", struct, "c-2")),
        configuration={"delta.columnMapping.mode": "name"},
        features=["columnMapping", "variantType"],
    )
    rows = snapshot.scan("variant_get(v, '$.a[0]', 'int') = 1").to_df()
    assert rows.selectExpr("to_json(v)", "to_json(s.w)").collect() == [('{"a":[1,null]}', '"x"')]


def test_mapped_fields_inside_arrays_and_maps_are_read_with_their_nulls(spark: SparkSession, tmp_path: Path) -> None:
    inner = pa.struct([("c-1", pa.int64()), ("c-2", pa.string())])
    physical = pa.schema([("c-3", pa.list_(inner)), ("c-4", pa.map_(pa.string(), inner))])
    value = {"c-1": 1, "c-2": None}
    written = [{"c-3": [value, None], "c-4": [("k", value), ("n", None)]}, {"c-3": [], "c-4": None}]

    def mapped(name: str, kind: Any, column: str) -> dict[str, Any]:
        return field(
            name, kind, **{"delta.columnMapping.id": int(column[2:]), "delta.columnMapping.physicalName": column}
        )

    struct = {"type": "struct", "fields": [mapped("c-2", "long", "c-1"), mapped("c-1", "string", "c-2")]}
    array = {"type": "array", "elementType": struct, "containsNull": True}
    labels = {"type": "map", "keyType": "string", "valueType": struct, "valueContainsNull": True}
    snapshot = snapshot_of(
        spark,
        tmp_path,
        [file(tmp_path, "a", pa.Table.from_pylist(written, physical))],
        schemaString=schema(mapped("items", array, "c-3"), mapped("labels", labels, "c-4")),
        configuration={"delta.columnMapping.mode": "name"},
        features=["columnMapping"],
    )
    rows = snapshot.scan().to_df().toArrow().to_pylist(maps_as_pydicts="strict")
    read = {"c-2": 1, "c-1": None}
    assert rows == [{"items": [read, None], "labels": {"k": read, "n": None}}, {"items": [], "labels": None}]


def test_deleted_rows_are_omitted_with_and_without_partitions(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = array_of(k0=bitmap_of(array_container(0, [0, 3])))
    vector = {"storageType": "i", "pathOrInlineDv": encode_z85(content), "sizeInBytes": len(content), "cardinality": 2}
    for partitioned in (False, True):
        table = tmp_path / str(partitioned)
        values = ({"p": "1"}, {"p": "2"}) if partitioned else ({}, {})
        adds = [
            file(table, "dir a/x", ids(*range(5)), name="dir a/x", deletionVector=vector, partitionValues=values[0]),
            file(table, "y", ids(10, 11), partitionValues=values[1]),
        ]
        snapshot = snapshot_of(
            spark,
            table,
            adds,
            schemaString=schema(field("id", "long"), *([field("p", "integer")] if partitioned else [])),
            partitionColumns=["p"] if partitioned else [],
            features=["deletionVectors"],
        )
        assert [row[0] for row in found(snapshot.scan())] == [1, 10, 11, 2, 4]
        assert [row[0] for row in found(snapshot.scan("id < 3"))] == [1, 2]
        snapshot.scan("id < 3", columns=["id"]).to_df().explain()
        plan = capsys.readouterr().out
        assert plan.count("LessThan(id,3)") == 2, plan  # by the reader of each of the two kinds of files


def vector_of(*rows: int) -> dict[str, Any]:
    """Return an inline deletion vector."""
    content = array_of(k0=bitmap_of(array_container(0, list(rows))))
    text = encode_z85(content)
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(content), "cardinality": len(rows)}


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_deletion_vector_of_rows_that_the_file_lacks_is_a_corrupt_log(
    spark: SparkSession, tmp_path: Path, engine: EngineUse
) -> None:
    first = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
    sound = file(tmp_path, "sound", ids(1, 2, 3), stats=stats(1, 3, rows=3), deletionVector=vector_of(2))
    beyond = file(tmp_path, "beyond", ids(4, 5, 6), stats=stats(4, 6, rows=3), deletionVector=vector_of(0, 3))
    write_log(tmp_path, {0: [first, metadata(), sound], 1: [beyond]})
    log = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine=engine))
    assert found(log.get_snapshot_at(version=0).scan()) == [(1,), (2,)]
    with pytest.raises(CorruptLogError, match=r"/beyond: version 1: its deletion vector deletes row 3, .* of 3 rows"):
        log.snapshot.scan().to_df()


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_file_live_with_several_deletion_vectors_counts_once_for_each(
    spark: SparkSession, tmp_path: Path, engine: EngineUse, caplog: pytest.LogCaptureFixture
) -> None:
    first = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
    whole = file(tmp_path, "a", ids(1, 2, 3), stats=stats(1, 3, rows=3))
    some, most = ({"add": whole["add"] | {"deletionVector": vector_of(*rows)}} for rows in ((0,), (0, 1)))
    replaced = {"remove": {"path": "a", "deletionVector": vector_of(0), "dataChange": True}}
    write_log(tmp_path, {0: [first, metadata(), whole], 1: [some], 2: [most, replaced]})
    delta_log = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine=engine))
    store = SnapshotStore.open(spark, tmp_path / "store", engine=engine)
    store.write_range("t", delta_log, 0, 2)
    for version, (files, rows, changes) in {
        0: (1, [1, 2, 3], [(1, "insert"), (2, "insert"), (3, "insert")]),
        1: (2, [1, 2, 2, 3, 3], [(2, "insert"), (3, "insert")]),
        2: (2, [1, 2, 3, 3], [(2, "delete")]),
    }.items():
        caplog.clear()
        snapshot = delta_log.get_snapshot_at(version=version)
        states = (snapshot.computed_state, store.computed_state("t", version))
        assert {(state.num_of_files, state.num_live_records) for state in states} == {(files, len(rows))}
        assert {snapshot.all_files.count(), store.all_files("t", version).count()} == {files}
        assert found(snapshot.scan()) == found(store.scan("t", version)) == [(each,) for each in rows]
        is_warned = [f"Version {version} of" in message for message in caplog.messages if "several times" in message]
        assert is_warned == [True, True] * (version > 0)
        for changed in (delta_log.row_changes(version, version), store.row_changes("t", version, version)):
            assert sorted((row["id"], row["_change_type"]) for row in changed.collect()) == changes


def test_damaged_deletion_vector_is_a_corrupt_log(spark: SparkSession, tmp_path: Path) -> None:
    vector = {"storageType": "i", "pathOrInlineDv": encode_z85(b"12345678"), "sizeInBytes": 8, "cardinality": 2}
    snapshot = snapshot_of(
        spark, tmp_path, [file(tmp_path, "a", ids(1), deletionVector=vector)], features=["deletionVectors"]
    )
    with pytest.raises(CorruptLogError, match="magic number"):
        snapshot.scan().to_df()


@pytest.mark.parametrize("engine", ["auto", "spark"])
def test_some_rows_are_read_from_some_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineUse
) -> None:
    content = array_of(k0=bitmap_of(array_container(0, [0])))
    text = encode_z85(content)
    vector = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(content), "cardinality": 1}
    deleted = [file(tmp_path, f"deleted{n}", ids(-n), deletionVector=vector) for n in range(9)]
    write_log(
        tmp_path,
        {
            0: [
                protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"]),
                metadata(schemaString=schema(field("id", "long"))),
                *deleted,
                *(file(tmp_path, f"row{n}", ids(n)) for n in range(9)),
                *(file(tmp_path, f"empty{n}", ids()) for n in range(9)),
            ]
        },
    )
    snapshot = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine=engine)).snapshot
    read: list[int] = []
    original = RowReader.read

    def counting(reader: RowReader, files: Sequence[DataFile]) -> DataFrame:
        read.append(len(files))
        return original(reader, files)

    monkeypatch.setattr(RowReader, "read", counting)
    assert snapshot.scan().take(9).num_rows == 9  # the nine files may be empty; then all are read
    assert read in ([9], [9, 27])
    assert sorted(snapshot.scan().take(100)["id"].to_pylist()) == [*range(9)]
    read.clear()
    assert snapshot.scan("id > 3", columns=["id"]).take(2).num_rows == 2
    assert read == [27]
    assert snapshot.scan().take(0).num_rows == 0


def test_missing_file_is_reported_with_path_and_version(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1)), add("gone.parquet")])
    with pytest.raises(DataFileNotFoundError, match=r"Version 0 of .*gone\.parquet") as raised:
        snapshot.scan().to_df()
    assert raised.value.version == 0


def test_file_outside_the_table_is_read_only_with_permission(spark: SparkSession, tmp_path: Path) -> None:
    action = file(tmp_path / "source", (tmp_path / "source" / "a").as_uri(), ids(1), name="a")
    snapshot = snapshot_of(spark, tmp_path / "clone", [action])
    with pytest.raises(DataPathError, match="is outside"):
        snapshot.scan().to_df()
    allowed = ScanOptions(data_roots=(str(tmp_path / "source"),))
    assert found(snapshot.scan(options=allowed)) == [(1,)]


@pytest.mark.parametrize("text", [None, "x"])
def test_data_file_that_spark_cannot_read_is_named(spark: SparkSession, tmp_path: Path, text: str | None) -> None:
    damaged = file(tmp_path, "a b.parquet", pa.table({"id": [text]}))
    if text is None:
        (tmp_path / "a b.parquet").write_bytes(b"no Parquet")
    scan = snapshot_of(spark, tmp_path, [damaged], schemaString=schema(field("id", "long"))).scan()
    with pytest.raises(DataFileError, match=rf"the data file file:///\S+/a%20b\.parquet of version 0 .*{tmp_path}: "):
        scan.take(1)


def test_rows_without_columns_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1, 2))], schemaString=schema(field("id", "long")))
    assert snapshot.scan(columns=[]).take(1).shape == (1, 0)
    assert snapshot.scan("id > 1", columns=[]).take(5).shape == (1, 0)


@pytest.mark.parametrize("other", ["./a", "file:///{table}/a", "/{table}//a"])
@pytest.mark.parametrize("values", [("x", "x"), ("x", "y")])
def test_data_file_live_under_two_spellings_is_a_corrupt_log(
    spark: SparkSession, tmp_path: Path, other: str, values: tuple[str, str]
) -> None:
    other = other.format(table=str(tmp_path)[1:])
    first, second = ({"p": value} for value in values)
    adds = [file(tmp_path, "a", ids(1), partitionValues=first), add(other, partitionValues=second)]
    fields = schema(field("p", "string"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    with pytest.raises(CorruptLogError, match="name the same data file") as raised:
        snapshot.scan().to_df()
    assert "a and " in raised.value.reason or "and a " in raised.value.reason
    assert other.removeprefix("file://") in raised.value.reason


@pytest.mark.parametrize("path", ["./a", "x//a", "x/./a"])
def test_file_whose_path_has_empty_parts_is_read(spark: SparkSession, tmp_path: Path, path: str) -> None:
    adds = [file(tmp_path, name, ids(1), partitionValues={"p": name}) for name in (path, "b")]
    fields = schema(field("p", "string"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    assert {row.p for row in snapshot.scan().to_df().collect()} == {path, "b"}


def test_file_that_spark_would_ignore_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "_a.parquet", ids(1)), file(tmp_path, "b", ids(2))])
    with pytest.raises(DataPathError, match="skips files"):
        snapshot.scan().to_df()


@pytest.mark.parametrize("where", ["id + 1", "id > array(1)", "id = no_such_function(1)", "nope = 1", "id = "])
def test_invalid_arguments_are_reported_before_anything_is_read(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    snapshot = snapshot_of(spark, tmp_path, [add("gone.parquet")])
    with pytest.raises(PredicateError) as raised:
        snapshot.scan(where)
    assert isinstance(raised.value, ValueError)
    assert where in str(raised.value)


def test_conditions_supported_only_by_spark_filter_rows(spark: SparkSession, tmp_path: Path) -> None:
    adds = [file(tmp_path, "a", ids(1, 2), stats=stats(1, 2)), file(tmp_path, "b", ids(5), stats=stats(5, 5))]
    scan = snapshot_of(spark, tmp_path, adds).scan("id = 1 and not struct(id as lateral).lateral = 2")
    assert found(scan) == [(1,)]


def test_unknown_column_is_a_value_error(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [add("gone.parquet")])
    with pytest.raises(ValueError, match="no column 'nope'"):
        snapshot.scan(columns=["id", "nope"])


def test_invalid_json_statistics_keep_a_file(spark: SparkSession, tmp_path: Path) -> None:
    broken = ["{", "[]", '{"minValues": 7}', '{"numRecords": "x", "minValues": {"id": {}}}', "null", ""]
    adds = [file(tmp_path, f"f{number}", ids(5), stats=text) for number, text in enumerate(broken)]
    scan = snapshot_of(spark, tmp_path, adds).scan("id = 5")
    assert scan.report.files_after_statistics == len(broken)
    assert len(found(scan)) == len(broken)


def test_only_requested_struct_statistics_of_a_checkpoint_are_read(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = [protocol(), metadata(schemaString=schema(field("id", "long"), field("at", "timestamp")))]
    moments = [datetime(2026, 1, day, 12, 0, 0, 1500, UTC) for day in (1, 2)]
    adds = [
        file(tmp_path, name, pa.table({"id": [low], "at": pa.array([moment], pa.timestamp("us", "UTC"))}))
        for name, low, moment in zip("ab", (1, 5), moments, strict=True)
    ]
    log = write_log(tmp_path, {0: [*first, *adds], 1: [file(tmp_path, "c", ids(9), stats=stats(9, 9, rows=1))]})
    (checkpoint,) = write_checkpoint(log, 0, "classic", [*first, *adds])
    bounds = pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    counts = pa.struct([("id", pa.int64()), ("at", pa.int64())])
    parts = [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", counts)]
    values = [
        {"numRecords": 1, "minValues": value, "maxValues": value, "nullCount": {"id": 0, "at": 0}}
        for value in ({"id": low, "at": moment} for low, moment in zip((1, 5), moments, strict=True))
    ]
    put_parsed_statistics(checkpoint, pa.array([None, None, *values], pa.struct(parts)), keep_json=True)
    snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
    for where, chosen in {
        "id = 5": 1, "id >= 5": 2, "at <= timestamp'2026-01-01 12:00:00.0015Z'": 2, "id is null": 0,
    }.items():  # fmt: skip
        assert snapshot.scan(where).report.files_after_statistics == chosen, where
    skipping = skipping_of("id = 5", snapshot.scanned_table().columns)
    snapshot._files.run(skipping.fields, lambda files: chosen_files(files, skipping).explain("formatted"))
    plan = capsys.readouterr().out
    assert "stats_parsed:struct<maxValues:struct<id:bigint>" in plan.replace(" ", "")
    assert found(snapshot.scan("id > 4", columns=["id"])) == [(5,), (9,)]


@pytest.mark.filterwarnings("ignore")
def test_a_partition_value_that_a_checkpoint_has_twice_is_the_one_that_scans_skip_by(
    spark: SparkSession, tmp_path: Path
) -> None:
    text, twice = schema(field("id", "long"), field("p", "string")), [("p", "x"), ("p", "y")]
    first = [protocol(), metadata(schemaString=text, partitionColumns=["p"])]
    log = write_log(tmp_path, {0: first})
    write_checkpoint(log, 0, "classic", [*first, file(tmp_path, "f", ids(1), partitionValues=twice)])
    snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
    found = {where: [row.p for row in snapshot.scan(where).to_df().collect()] for where in (None, "p = 'x'", "p = 'y'")}
    assert found == {None: ["x"], "p = 'x'": ["x"], "p = 'y'": []}


def test_damaged_checkpoint_is_replaced_or_reported(spark: SparkSession, tmp_path: Path) -> None:
    actions = [protocol(), metadata(), file(tmp_path, "a", ids(1, 2), stats=stats(1, 2))]
    log = write_log(tmp_path, {0: actions, 1: [file(tmp_path, "b", ids(5), stats=stats(5, 5, rows=1))]})
    (checkpoint,) = write_checkpoint(log, 0, "classic", actions)
    flip(checkpoint)
    for where in ("id < 5", None):
        snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
        assert found(snapshot.scan(where))[0] == (1,)
        assert snapshot.scan(where).report.files == 2
        DeltaLog.clear_cache()
    (log / f"{0:020}.json").unlink()
    snapshot = DeltaLog.for_table(spark, tmp_path).snapshot
    with pytest.raises(CorruptLogError, match=checkpoint.name):
        _ = snapshot.scan("id < 5").report
    with pytest.raises(CorruptLogError, match=checkpoint.name):
        snapshot.scan().to_df()


def test_scan_skips_by_statistics_that_all_files_omits(spark: SparkSession, tmp_path: Path) -> None:
    adds = [file(tmp_path, name, ids(low), stats=stats(low, low, rows=1)) for name, low in (("a", 1), ("b", 5))]
    snapshot_of(spark, tmp_path, adds)
    snapshot = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(load_stats=False)).snapshot
    assert snapshot.all_files.where("stats is not null").count() == 0
    assert [row.path for row in snapshot.scan("id = 5").files.collect()] == ["b"]


def test_partition_value_of_the_wrong_type_is_a_corrupt_log(spark: SparkSession, tmp_path: Path) -> None:
    adds = [
        file(tmp_path, name, ids(1), partitionValues={"n": value})
        for name, value in (("a", "1"), ("b", "x"), ("c", ""))
    ]
    fields = schema(field("n", "integer"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["N"])
    for where in (None, "n is not null", "n = 1"):
        with pytest.raises(
            CorruptLogError, match="file b, partition column n: expected a value of type integer, found 'x'"
        ):
            snapshot.scan(where).to_df()


@pytest.mark.parametrize(
    ("kind", "text"), [("timestamp", "12:30"), ("date", "2024"), ("decimal(10,2)", "123.456"), ("boolean", "yes")]
)
def test_partition_value_in_a_form_that_only_a_cast_accepts_is_a_corrupt_log(
    spark: SparkSession, tmp_path: Path, kind: str, text: str
) -> None:
    adds = [file(tmp_path, "a", ids(1), partitionValues={"p": text})]
    fields = schema(field("p", kind), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    for where in (None, "p is not null", "p is null and id = 5"):
        with pytest.raises(CorruptLogError, match=f"expected a value of type {re.escape(kind)}, found '{text}'"):
            snapshot.scan(where).to_df()


@pytest.mark.parametrize(("kind", "bound"), [("date", "2024"), ("timestamp_ntz", "12:30"), ("decimal(4,1)", "1.26")])
def test_bound_in_a_form_that_only_a_cast_accepts_keeps_the_file(
    spark: SparkSession, tmp_path: Path, kind: str, bound: str
) -> None:
    bounds = {"numRecords": 1, "minValues": {"id": bound}, "maxValues": {"id": bound}, "nullCount": {"id": 0}}
    adds = [file(tmp_path, "a", ids(1), stats=json.dumps(bounds))]
    features = ["timestampNtz"] if kind == "timestamp_ntz" else None
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("id", kind)), features=features)
    for symbol in "<", ">":
        value = "1.3" if kind == "decimal(4,1)" else "'2024-01-01'"
        assert snapshot.scan(f"id {symbol} {value}").files.count() == 1


@pytest.mark.parametrize("kind", ["string", "integer"])
def test_partition_value_without_the_key_of_its_column_is_null_for_rows_and_for_skipping(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    values = {"known": {"p": "1"}, "missing": {}, "other case": {"P": "1"}, "empty": {"p": ""}}
    adds = [file(tmp_path, name, ids(n), partitionValues=each) for n, (name, each) in enumerate(values.items())]
    fields = schema(field("id", "long"), field("p", kind))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    one = "1" if kind == "string" else 1
    assert found(snapshot.scan()) == [(0, one), (1, None), (2, None), (3, None)]
    for where, expected in {"p is null": [1, 2, 3], "p = '1'": [0], "p is not null or id = 2": [0, 2]}.items():
        assert [row[0] for row in found(snapshot.scan(where))] == expected, where
    assert snapshot.scan("p is not null").files.count() == 1


def test_bytes_of_a_partition_are_read_escaped_or_raw(spark: SparkSession, tmp_path: Path) -> None:
    values = {"a": "\\u0001\\u00FF", "b": "\u0001\u00ff", "c": "", "d": "\\u01"}
    adds = [file(tmp_path, name, ids(1), partitionValues={"raw": value}) for name, value in values.items()]
    fields = schema(field("raw", "binary"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["raw"])
    expected = [b"\x01\xff", "\u0001\u00ff".encode(), None, b"\\u01"]
    assert {row[0] if row[0] is None else bytes(row[0]) for row in snapshot.scan().to_df().collect()} == set(expected)
    assert [row.path for row in snapshot.scan("raw = X'01FF'").files.collect()] == ["a"]


def test_condition_that_fails_on_the_value_of_a_partition_is_left_to_the_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    adds = [
        file(tmp_path, name, ids(number), partitionValues={"p": name}, stats=stats(number, number, rows=1))
        for number, name in enumerate(("1", "2", "x"))
    ]
    fields = schema(field("p", "string"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    failing = snapshot.scan("id < 2 and cast(p as int) = 2")
    assert [row.path for row in failing.files.collect()] == ["1", "2"]
    assert failing.report.unused == ("cast(p as int) = 2",)


def test_times_do_not_depend_on_the_timestamp_type_of_the_session(spark: SparkSession, tmp_path: Path) -> None:
    text = json.dumps(
        {
            "numRecords": 1,
            "minValues": {"at": "2026-01-01T22:00:00.000Z"},
            "maxValues": {"at": "2026-01-01T22:00:00.000Z"},
        }
    )
    rows = pa.table({"at": pa.array([datetime(2026, 1, 1, 22, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    adds = [file(tmp_path, "a", rows, stats=text, partitionValues={"p": "2026-01-01T22:00:00.000000Z"})]
    fields = schema(field("at", "timestamp"), field("p", "timestamp"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    settings = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.session.timeZone": "Asia/Kolkata"}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        for column in ("at", "p"):
            assert snapshot.scan(f"{column} = '2026-01-02 03:30:00'").to_df().count() == 1
            assert snapshot.scan(f"{column} = timestamp'2026-01-01 22:00:00Z'").to_df().count() == 1
    finally:
        spark.conf.unset("spark.sql.timestampType")
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("hour", [0, 1])
def test_ambiguous_time_text_matches_both_times(spark: SparkSession, tmp_path: Path, hour: int) -> None:
    moment = datetime(2020, 10, 25, hour, 30, tzinfo=UTC)  # clocks are put back from 3 to 2 at 1:00 UTC
    bound = {"at": moment.isoformat().replace("+00:00", ".000Z")}
    text = json.dumps({"numRecords": 1, "minValues": bound, "maxValues": bound, "nullCount": {"at": 0}})
    adds = [file(tmp_path, "a", pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))}), stats=text)]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("at", "timestamp")))
    try:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        for where in ("at like '2020-10-25 02:30:00'", "cast(at as string) = '2020-10-25 02:30:00'"):
            assert snapshot.scan(where).to_df().count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_invalid_schema_is_a_corrupt_log(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [add("a")], schemaString="{")
    for where in (None, "id = 1"):
        with pytest.raises(CorruptLogError, match="metadata of version 0"):
            snapshot.scan(where).to_df()


def test_file_with_only_nulls_is_skipped_by_a_comparison(spark: SparkSession, tmp_path: Path) -> None:
    nulls = json.dumps({"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"id": 2}})
    adds = [file(tmp_path, "nulls", pa.table({"id": pa.array([None, None], pa.int64())}), stats=nulls)]
    snapshot = snapshot_of(spark, tmp_path, adds)
    assert snapshot.scan("id != 5").report.files_after_statistics == 0
    assert snapshot.scan("id is null").report.files_after_statistics == 1


@pytest.mark.parametrize(
    ("bound", "moment", "kept", "left_out"),
    [
        (
            "2026-01-01T00:00:00.123Z",
            datetime(2026, 1, 1, 0, 0, 0, 123456, UTC),
            "at > timestamp'2026-01-01 00:00:00.123400Z'",
            "at > timestamp'2026-01-01 00:00:00.124001Z'",
        ),
        (  # New York's offset then was -04:56:02
            "1883-01-01T00:00:00.000-04:56",
            datetime(1883, 1, 1, 4, 56, 2, 0, UTC),
            "at > timestamp'1883-01-01 04:56:01Z'",
            "at > timestamp'1883-01-01 04:57:01Z'",
        ),
    ],
    ids=["milliseconds", "offsets with seconds"],
)
def test_timestamp_within_the_truncation_of_its_maximum_is_kept(
    spark: SparkSession, tmp_path: Path, bound: str, moment: datetime, kept: str, left_out: str
) -> None:
    text = json.dumps({"numRecords": 1, "minValues": {"at": bound}, "maxValues": {"at": bound}, "nullCount": {"at": 0}})
    rows = pa.table({"at": pa.array([moment], pa.timestamp("us", "UTC"))})
    adds = [file(tmp_path, "a", rows, stats=text)]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("at", "timestamp")))
    assert len(found(snapshot.scan(kept))) == 1
    assert snapshot.scan(left_out).report.files_after_statistics == 0


def test_changes_with_a_damaged_checkpoint_come_from_the_commits(spark: SparkSession, tmp_path: Path) -> None:
    first = [protocol(), metadata(), file(tmp_path, "a", ids(1, 2))]
    write_log(tmp_path, {0: first, 1: [file(tmp_path, "b", ids(3))]})
    (checkpoint,) = write_checkpoint(tmp_path / "_delta_log", 0, "classic", first)
    flip(checkpoint)
    changes = DeltaLog.for_table(spark, tmp_path).file_changes(0, 1)
    assert [row.path for row in changes.added.collect()] == ["b"]
    assert changes.scan_added("id > 0").report.files == 1


def test_sums_of_sizes_beyond_64_bits_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    huge = [add(path, size=2**62, stats=stats(1, 2)) for path in ("a", "b")]
    write_log(tmp_path, {0: [protocol(), metadata()], 1: huge})
    log = DeltaLog.for_table(spark, tmp_path)
    report = log.snapshot.scan("id = 1").report
    assert (report.bytes_in_files, report.bytes_after_statistics) == (2**63, 2**63)
    there, back = log.file_changes(0, 1).summary, log.file_changes(1, 0).summary
    assert (there.added_bytes, there.removed_bytes) == (2**63, 0)
    assert (back.added_bytes, back.removed_bytes) == (0, 2**63)
    (partition,) = log.snapshot.tables.partitions.collect()
    assert (partition.files, partition.bytes, partition.records) == (2, None, 4)


def test_number_of_rows_to_take_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    scan = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1, 2))]).scan()
    with pytest.raises(ValueError, match="Expected 0 rows or more, found -1"):
        scan.take(-1)
    assert scan.take(10**12).num_rows == 2


def test_clocks_set_back_by_a_day_hide_no_date(spark: SparkSession, tmp_path: Path) -> None:
    times = [datetime(1867, 10, 18, 23, tzinfo=UTC), datetime(1867, 10, 19, 4, tzinfo=UTC)]
    first, last = ({"at": time.isoformat().replace("+00:00", ".000Z")} for time in times)
    text = json.dumps({"numRecords": 2, "minValues": first, "maxValues": last, "nullCount": {"at": 0}})
    adds = [file(tmp_path, "a", pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))}), stats=text)]
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=schema(field("at", "timestamp")))
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/Juneau")
        rows = snapshot.scan().to_df().orderBy("at").selectExpr("cast(cast(at as date) as string)").collect()
        assert [row[0] for row in rows] == ["1867-10-19", "1867-10-18"]
        for where in ("cast(at as date) = date'1867-10-19'", "cast(at as date) > date'1867-10-18'"):
            assert snapshot.scan(where).report.files_after_statistics == 1
            assert snapshot.scan(where).to_df().count() == snapshot.scan().to_df().where(where).count()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
