"""Scans of one table per rule."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import CorruptLogError, DeltaLog, SnapshotOptions, SnapshotStore, TableLog
from deltasnap_core.replay.driver.full_actions import live_adds
from deltasnap_core.scan import scan
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.row_reader import read_rows
from deltasnap_core.scan.scanned_table import ScannedTable
from tests.builders import add, field, mapped, metadata, protocol, schema, write_log
from tests.checkpoint_files import write_checkpoint
from tests.core.scan.files.deletion_vectors_builders import inline_vector
from tests.core.scan.scan_builders import file, found, found_by, ids, snapshot_of, stats
from tests.core.snapshot.damage_builders import flip
from tests.thorough import one_in
from tests.without_spark import log_without_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltasnap_core import Snapshot
    from deltasnap_core.support import EngineUse


@pytest.mark.slow
def test_columns_are_named_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    rows = pa.table({"a.b": [1], "a": [{"b": 2}], "x`y": [3]})
    inner = {"type": "struct", "fields": [field("b", "long")]}
    names = schema(field("a.b", "long"), field("a", inner), field("x`y", "long"))
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "f", rows)], schemaString=names)
    for name, value in {"`a.b`": 1, "a.b": 1, "a.`b`": 2, "`a`.`b`": 2, "`x``y`": 3, "x`y": 3}.items():
        assert found(snapshot.scan(columns=[name])) == [(value,)]
    with pytest.raises(ValueError, match="has no column"):
        snapshot.scan(columns=["`a.b"])


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
    days = snapshot.scan("d is not null").to_df().selectExpr("cast(d as string) as d")
    assert [row.d for row in days.collect()] == ["2026-01-01 00:00:00"]


def test_char_and_varchar_are_strings(spark: SparkSession, tmp_path: Path) -> None:
    adds = [file(tmp_path, "a", pa.table({"c": ["ab "], "v": ["x"]}))]
    fields = schema(field("c", "char(3)"), field("v", "varchar(9)"))
    assert found(snapshot_of(spark, tmp_path, adds, schemaString=fields).scan("c = 'ab '")) == [("ab ", "x")]


@pytest.mark.spark
def test_void_fields_in_arrays_and_maps_are_null_fields(spark: SparkSession, tmp_path: Path) -> None:
    struct = {"type": "struct", "fields": [mapped("a", "long", 1, "c1"), mapped("v", "void", 2, "c2")]}
    arrays = {"type": "array", "elementType": struct, "containsNull": True}
    maps = {"type": "map", "keyType": "string", "valueType": struct, "valueContainsNull": True}
    stored = pa.struct([("c1", pa.int64())])
    lists = pa.array([[{"c1": 5}, None]], pa.list_(stored))
    rows = pa.table({"c3": lists, "c4": pa.array([[("k", {"c1": 6})]], pa.map_(pa.string(), stored))})
    snapshot = snapshot_of(
        spark,
        tmp_path,
        [file(tmp_path, "a", rows)],
        schemaString=schema(mapped("l", arrays, 3, "c3"), mapped("m", maps, 4, "c4")),
        configuration={"delta.columnMapping.mode": "name"},
        features=["columnMapping"],
    )
    assert found(snapshot.scan("l[0].a = 5 and m['k'].a = 6")) == [([(5, None), None], {"k": (6, None)})]


@pytest.mark.spark
def test_columns_are_found_by_name_and_by_id(spark: SparkSession, tmp_path: Path) -> None:
    inner = [pa.field("y", pa.int64(), metadata={"PARQUET:field_id": "3"})]
    physical = pa.schema(
        [
            pa.field("col-1", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("col-2", pa.struct(inner), metadata={"PARQUET:field_id": "2"}),
        ]
    )
    rows = pa.Table.from_pylist([{"col-1": 7, "col-2": {"y": 8}}], physical)

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


@pytest.mark.spark
@pytest.mark.parametrize("name", ["c.a", "c[0].a", "c['k'].a"])
def test_field_of_a_column_mapped_by_id_is_found_by_other_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Spark forgets the id of a column if it reads only some of the fields inside."""

    def numbered(inner: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(inner, kind, metadata={"PARQUET:field_id": str(number)})

    inside = pa.struct([numbered("x", pa.int64(), 1), numbered("y", pa.int64(), 2)])
    struct = {"type": "struct", "fields": [mapped("a", "long", 1, "a"), mapped("b", "long", 2, "b")]}
    stored, kind, value = {
        "c.a": (inside, struct, {"x": 7, "y": 8}),
        "c[0].a": (
            pa.list_(inside),
            {"type": "array", "elementType": struct, "containsNull": True},
            [{"x": 7, "y": 8}],
        ),
        "c['k'].a": (
            pa.map_(pa.string(), inside),
            {"type": "map", "keyType": "string", "valueType": struct, "valueContainsNull": True},
            [("k", {"x": 7, "y": 8})],
        ),
    }[name]
    rows = pa.Table.from_pylist([{"other": value}], pa.schema([numbered("other", stored, 3)]))
    snapshot = snapshot_of(
        spark,
        tmp_path,
        [file(tmp_path, "a", rows)],
        schemaString=schema(mapped("c", kind, 3, "c")),
        configuration={"delta.columnMapping.mode": "id"},
        features=["columnMapping"],
    )
    assert snapshot.scan().to_df().selectExpr(name).collect() == [(7,)]


@pytest.mark.spark
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


@pytest.mark.parametrize("mode", ["id", *(pytest.param(each, marks=pytest.mark.spark) for each in ("name", "other"))])
def test_rows_are_read_by_name_without_column_mapping(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    adds = [file(tmp_path, "a", pa.table({"id": [7]}), partitionValues={"day": "x"}, stats=stats(7, 7, rows=1))]
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    fields = schema(field("id", "long", **mapped), field("day", "string"))
    log = write_log(
        tmp_path,
        {
            0: [
                protocol(),
                metadata(
                    schemaString=fields, partitionColumns=["day"], configuration={"delta.columnMapping.mode": mode}
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

    struct = {"type": "struct", "fields": [mapped("w", "variant", 3, "c-3")]}
    snapshot = snapshot_of(
        spark,
        tmp_path,
        [add(f"made/{part.name}", size=part.stat().st_size)],
        schemaString=schema(mapped("v", "variant", 1, "c-1"), mapped("s", struct, 2, "c-2")),
        configuration={"delta.columnMapping.mode": "name"},
        features=["columnMapping", "variantType"],
    )
    rows = snapshot.scan("variant_get(v, '$.a[0]', 'int') = 1").to_df()
    assert rows.selectExpr("to_json(v)", "to_json(s.w)").collect() == [('{"a":[1,null]}', '"x"')]


@pytest.mark.spark
def test_null_variants_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    made = spark.sql("select 1L as id, parse_json('2') as v union all select 2L, null")
    made.coalesce(1).write.parquet(str(tmp_path / "made"))
    (part,) = (tmp_path / "made").glob("*.parquet")
    snapshot = snapshot_of(
        spark,
        tmp_path,
        [add(f"made/{part.name}", size=part.stat().st_size)],
        schemaString=schema(field("id", "long"), field("v", "variant")),
        features=["variantType"],
    )
    expected = [{"id": 1, "v": {"value": b"\x0c\x02", "metadata": b"\x01\x00\x00"}}, {"id": 2, "v": None}]
    assert sorted(snapshot.scan().take(5).to_pylist(), key=itemgetter("id")) == expected
    assert sorted(snapshot.scan("id < 3").to_arrow().to_pylist(), key=itemgetter("id")) == expected


@pytest.mark.spark
def test_mapped_fields_inside_arrays_and_maps_are_read_with_their_nulls(spark: SparkSession, tmp_path: Path) -> None:
    inner = pa.struct([("c-1", pa.int64()), ("c-2", pa.string())])
    physical = pa.schema([("c-3", pa.list_(inner)), ("c-4", pa.map_(pa.string(), inner))])
    value = {"c-1": 1, "c-2": None}
    written = [{"c-3": [value, None], "c-4": [("k", value), ("n", None)]}, {"c-3": [], "c-4": None}]

    struct = {"type": "struct", "fields": [mapped("c-2", "long", 1, "c-1"), mapped("c-1", "string", 2, "c-2")]}
    array = {"type": "array", "elementType": struct, "containsNull": True}
    labels = {"type": "map", "keyType": "string", "valueType": struct, "valueContainsNull": True}
    snapshot = snapshot_of(
        spark,
        tmp_path,
        [file(tmp_path, "a", pa.Table.from_pylist(written, physical))],
        schemaString=schema(mapped("items", array, 3, "c-3"), mapped("labels", labels, 4, "c-4")),
        configuration={"delta.columnMapping.mode": "name"},
        features=["columnMapping"],
    )
    rows = snapshot.scan().to_df().toArrow().to_pylist(maps_as_pydicts="strict")
    read = {"c-2": 1, "c-1": None}
    assert rows == [{"items": [read, None], "labels": {"k": read, "n": None}}, {"items": [], "labels": None}]


def with_deleted_rows(spark: SparkSession, table: Path, *, partitioned: bool) -> Snapshot:
    """Return a table of a file with the rows 0 to 4, without 0 and 3, and another one with 10 and 11."""
    values = ({"p": "1"}, {"p": "2"}) if partitioned else ({}, {})
    adds = [
        file(table, "dir a/x", ids(*range(5)), deletionVector=inline_vector(0, 3), partitionValues=values[0]),
        file(table, "y", ids(10, 11), partitionValues=values[1]),
    ]
    return snapshot_of(
        spark,
        table,
        adds,
        schemaString=schema(field("id", "long"), *([field("p", "integer")] if partitioned else [])),
        partitionColumns=["p"] if partitioned else [],
        features=["deletionVectors"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", one_in(2, [True, False]))
def test_deleted_rows_are_omitted(spark: SparkSession, tmp_path: Path, partitioned: bool) -> None:
    snapshot = with_deleted_rows(spark, tmp_path, partitioned=partitioned)
    rows = [(1, 1), (10, 2), (11, 2), (2, 1), (4, 1)]
    assert found(snapshot.scan()) == [row if partitioned else row[:1] for row in rows]
    assert [row[0] for row in found(snapshot.scan("id < 3"))] == [1, 2]


@pytest.mark.spark
@pytest.mark.parametrize("partitioned", one_in(2, [False, True]))
def test_both_kinds_of_files_are_read_with_the_condition(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], partitioned: bool
) -> None:
    with_deleted_rows(spark, tmp_path, partitioned=partitioned).scan("id < 3", columns=["id"]).to_df().explain()
    plan = capsys.readouterr().out
    assert plan.count("LessThan(id,3)") == 2, plan


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", pytest.param("spark", marks=pytest.mark.spark)])
def test_deletion_vector_beyond_its_file_is_a_corrupt_log(
    spark: SparkSession, tmp_path: Path, engine: EngineUse
) -> None:
    first = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
    sound = file(tmp_path, "sound", ids(1, 2, 3), stats=stats(1, 3, rows=3), deletionVector=inline_vector(2))
    beyond = file(tmp_path, "beyond", ids(4, 5, 6), stats=stats(4, 6, rows=3), deletionVector=inline_vector(0, 3))
    write_log(tmp_path, {0: [first, metadata(), sound], 1: [beyond]})
    log = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine=engine))
    assert found(log.get_snapshot_at(version=0).scan()) == [(1,), (2,)]
    with pytest.raises(CorruptLogError, match=r"/beyond: version 1: its deletion vector deletes row 3, .* of 3 rows"):
        log.snapshot.scan().to_df()


def write_several_vectors(table: Path) -> None:
    """Write a file that a commit adds again with a deletion vector, twice, and removes with one of these."""
    first = protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"])
    whole = file(table, "a", ids(1, 2, 3), stats=stats(1, 3, rows=3))
    some, most = ({"add": whole["add"] | {"deletionVector": inline_vector(*rows)}} for rows in ((0,), (0, 1)))
    replaced = {"remove": {"path": "a", "deletionVector": inline_vector(0), "dataChange": True}}
    write_log(table, {0: [first, metadata(), whole], 1: [some], 2: [most, replaced]})


def test_driver_counts_a_file_live_with_several_deletion_vectors_once_for_each(tmp_path: Path) -> None:
    write_several_vectors(tmp_path)
    log = log_without_spark(TableLog.for_path(tmp_path))
    for version, expected in {1: (2, 5), 2: (2, 4)}.items():
        snapshot = log.get_snapshot_at(version)
        assert (snapshot.computed_state.num_of_files, snapshot.computed_state.num_live_records) == expected
        assert len(live_adds(log.context.table_log.store, snapshot.log.replayable, log.path)) == expected[0]


@pytest.mark.thorough
@pytest.mark.spark
def test_file_live_with_several_deletion_vectors_counts_once_for_each(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_several_vectors(tmp_path)
    delta_log = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine="spark"))
    store = SnapshotStore.open(spark, tmp_path / "store", engine="spark")
    store.write_range("t", delta_log, 0, 2)
    for version, (files, rows, changes) in {
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
        assert is_warned == [True, True]
        for changed in (delta_log.row_changes(version, version), store.row_changes("t", version, version)):
            assert sorted((row["id"], row["_change_type"]) for row in changed.collect()) == changes


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.thorough])])
def test_some_rows_are_read_from_some_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: EngineUse
) -> None:
    deleted = [file(tmp_path, f"deleted{n}", ids(-n), deletionVector=inline_vector(0)) for n in range(3)]
    write_log(
        tmp_path,
        {
            0: [
                protocol(3, 7, readerFeatures=["deletionVectors"], writerFeatures=["deletionVectors"]),
                metadata(schemaString=schema(field("id", "long"))),
                *deleted,
                *(file(tmp_path, f"row{n}", ids(n)) for n in range(3)),
                *(file(tmp_path, f"empty{n}", ids()) for n in range(3)),
            ]
        },
    )
    snapshot = DeltaLog.for_table(spark, tmp_path, options=SnapshotOptions(engine=engine)).snapshot
    read: list[int] = []

    def counting(table: ScannedTable, files: Sequence[DataFile], pushed: Sequence[str]) -> DataFrame:
        assert len(files) > 3 or all(file.vector is None for file in files)
        read.append(len(files))
        return read_rows(table, files, pushed)

    monkeypatch.setattr(scan, "read_rows", counting)
    assert snapshot.scan().take(3).num_rows == 3  # the three files may be empty; then all are read
    assert read in ([3], [3, 9])
    assert sorted(snapshot.scan().take(100)["id"].to_pylist()) == [*range(3)]
    read.clear()
    assert snapshot.scan("id > 0", columns=["id"]).take(2).num_rows == 2
    assert read == [9]
    assert snapshot.scan().take(0).num_rows == 0


def test_rows_without_columns_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    snapshot = snapshot_of(spark, tmp_path, [file(tmp_path, "a", ids(1, 2))], schemaString=schema(field("id", "long")))
    assert snapshot.scan(columns=[]).take(1).shape == (1, 0)
    assert snapshot.scan("id > 1", columns=[]).take(5).shape == (1, 0)


@pytest.mark.parametrize("path", ["./a", "x//a", "x/./a"])
def test_file_whose_path_has_empty_parts_is_read(spark: SparkSession, tmp_path: Path, path: str) -> None:
    adds = [file(tmp_path, name, ids(1), partitionValues={"p": name}) for name in (path, "b")]
    fields = schema(field("p", "string"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p"])
    assert {row.p for row in snapshot.scan().to_df().collect()} == {path, "b"}


@pytest.mark.slow
def test_partition_value_without_a_key_is_null_for_rows_and_for_skipping(spark: SparkSession, tmp_path: Path) -> None:
    values = {"known": {"p": "1", "q": "1"}, "missing": {}, "empty": {"p": "", "q": ""}}
    adds = [file(tmp_path, name, ids(n), partitionValues=each) for n, (name, each) in enumerate(values.items())]
    fields = schema(field("id", "long"), field("p", "string"), field("q", "integer"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["p", "q"])
    assert found(snapshot.scan()) == [(0, "1", 1), (1, None, None), (2, None, None)]
    expected = {"{} is null": [1, 2], "{} = '1'": [0], "{} is not null or id = 2": [0, 2]}
    by_column = {where.format(name): [(n,) for n in rows] for where, rows in expected.items() for name in "pq"}
    assert found_by({where: snapshot.scan(where, columns=["id"]).to_df() for where in by_column}) == by_column
    chosen = {where: snapshot.scan(where).files.select("path") for where in ("p is not null", "q is not null")}
    assert found_by(chosen) == {where: [("known",)] for where in chosen}


@pytest.mark.slow
def test_bytes_of_a_partition_are_read_escaped_or_raw(spark: SparkSession, tmp_path: Path) -> None:
    values = {"a": "\\u0001\\u00FF", "b": "\u0001\u00ff", "c": "", "d": "\\u01"}
    adds = [file(tmp_path, name, ids(1), partitionValues={"raw": value}) for name, value in values.items()]
    fields = schema(field("raw", "binary"), field("id", "long"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=fields, partitionColumns=["raw"])
    expected = [b"\x01\xff", "\u0001\u00ff".encode(), None, b"\\u01"]
    assert {row[0] if row[0] is None else bytes(row[0]) for row in snapshot.scan().to_df().collect()} == set(expected)
    assert [row.path for row in snapshot.scan("raw = X'01FF'").files.collect()] == ["a"]


def test_changes_with_a_damaged_checkpoint_come_from_the_commits(spark: SparkSession, tmp_path: Path) -> None:
    first = [protocol(), metadata(), file(tmp_path, "a", ids(1, 2))]
    write_log(tmp_path, {0: first, 1: [file(tmp_path, "b", ids(3))]})
    (checkpoint,) = write_checkpoint(tmp_path / "_delta_log", 0, "classic", first)
    flip(checkpoint)
    changes = DeltaLog.for_table(spark, tmp_path).file_changes(0, 1)
    assert [row.path for row in changes.added.collect()] == ["b"]
    assert changes.scan_added("id > 0").report.files == 1


def test_rows_are_read_in_a_session_that_prefers_version_2_of_sources(spark: SparkSession, tmp_path: Path) -> None:
    adds = [file(tmp_path, name, ids(number), partitionValues={"p": name}) for number, name in enumerate("ab")]
    columns = schema(field("id", "long"), field("p", "string"))
    snapshot = snapshot_of(spark, tmp_path, adds, schemaString=columns, partitionColumns=["p"])
    setting = "spark.sql.sources.useV1SourceList"
    before = str(spark.conf.get(setting))
    spark.conf.set(setting, "")
    try:
        assert found(snapshot.scan()) == [(0, "a"), (1, "b")]
    finally:
        spark.conf.set(setting, before)
