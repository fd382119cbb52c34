"""Opening checkpoints by their footers: their content, and the errors of broken ones."""

from __future__ import annotations

import re
from contextlib import nullcontext
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltasnap_core import CorruptLogError, FileStatus
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, open_checkpoint, read_columns
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.non_file_actions import load_non_file_actions
from deltasnap_core.protocol.log_files.file_names import CheckpointKind
from tests.builders import (
    LOG_PATH,
    Action,
    CountingLogStore,
    MemoryLogStore,
    checkpoint,
    content,
    metadata,
    protocol,
    uuid_checkpoint,
)

STATS = pa.struct([("numRecords", pa.int64())])
ALWAYS = [("path", pa.string()), ("size", pa.int64())]
SCHEMA = pa.schema(
    [
        ("add", pa.struct([("path", pa.string()), ("size", pa.int64()), ("stats", pa.string())])),
        ("remove", pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64())])),
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())])),
        ("checkpointMetadata", pa.struct([("version", pa.int64())])),
    ]
)
V3: Action = {"checkpointMetadata": {"version": 3}}


def parquet(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA, rows_a_group: int = 2) -> bytes:
    sink = BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, row_group_size=rows_a_group)
    return sink.getvalue()


def twice() -> bytes:
    sink = BytesIO()
    column = pa.array([{"path": "x", "size": 1}])
    pq.write_table(pa.Table.from_arrays([column, column], names=["add", "add"]), sink)
    return sink.getvalue()


def opened(store: MemoryLogStore, *files: Any, kind: Any = "classic", form: Any = "parquet") -> CheckpointContents:
    provider = CheckpointProvider(version=3, files=tuple(files), kind=CheckpointKind(kind), format=form)
    return open_checkpoint(store, provider, LOG_PATH)


def test_a_column_is_read_only_from_row_groups_that_contain_it() -> None:
    store = MemoryLogStore()
    rows = [{"add": {"path": str(i), "size": i}} for i in range(8)]
    rows[5] = {"txn": {"appId": "a", "version": 7}}
    file = store.put(checkpoint(3)[0].name, parquet(rows))

    contents = opened(store, file)

    found = read_columns(store, contents.top_level[0], {"txn": "appId"})
    assert found == [("txn", {"appId": "a", "version": 7})]


def test_flipped_byte_of_a_page_with_a_checksum_raises_an_error_that_names_the_file() -> None:
    store, sink = MemoryLogStore(), BytesIO()
    rows = pa.Table.from_pylist([{"txn": {"appId": "a", "version": 7}}] * 9, schema=SCHEMA)
    pq.write_table(rows, sink, compression="none", use_dictionary=False, write_page_checksum=True)
    content, group = bytearray(sink.getvalue()), pq.read_metadata(sink).row_group(0)
    (column,) = [c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "txn.version"]
    content[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    contents = opened(store, store.put(checkpoint(3)[0].name, bytes(content)))
    with pytest.raises(CorruptLogError, match="column txn"):
        read_columns(store, contents.top_level[0], {"txn": "appId"})


@pytest.mark.parametrize(("is_required", "values"), [(True, {"p": "a"}), (False, {"p": "a"}), (False, {"p": None})])
def test_checkpoint_of_valid_partition_values_hides_no_nulls(is_required: bool, values: dict[str, str | None]) -> None:
    value = pa.field("value", pa.string(), nullable=not is_required)
    remove = pa.struct([("path", pa.string()), ("partitionValues", pa.map_(pa.string(), value))])
    rows: list[Action] = [{"add": {"path": "x", "size": 1}}]
    rows.append({"remove": {"path": "y", "partitionValues": [*values.items()]}})
    store = MemoryLogStore()
    contents = opened(
        store, store.put(checkpoint(3)[0].name, parquet(rows, pa.schema([SCHEMA.field("add"), ("remove", remove)])))
    )
    assert not contents.top_level[0].has_hidden_nulls


NUMBER = pa.struct([("x", pa.int64())])


@pytest.mark.parametrize("column", ["add", "remove", "sidecar", "protocol", "metaData", "txn", "domainMetadata"])
@pytest.mark.parametrize(("kind", "value", "message"), [(pa.string(), "x", "struct"), (NUMBER, {"x": 1}, "no such")])
def test_column_without_identifying_fields_is_an_error(
    column: str, kind: pa.DataType, value: Any, message: str
) -> None:
    schema, store = pa.schema([*(field for field in SCHEMA if field.name != column), (column, kind)]), MemoryLogStore()
    data = parquet([{column: value}], schema)
    with pytest.raises(CorruptLogError, match=message):
        opened(store, store.put(checkpoint(3)[0].name, data))


@pytest.mark.parametrize(
    "action",
    [
        {"add": {"path": None, "size": 1}},
        {"add": {"path": "x", "size": None}},
        {"remove": {"path": None, "deletionTimestamp": 1}},
        {"txn": {"appId": None, "version": 1}},
    ],
    ids=str,
)
def test_action_without_a_required_field_is_an_error(action: dict[str, Any]) -> None:
    store = MemoryLogStore()
    with pytest.raises(CorruptLogError, match="found null"):
        opened(store, store.put(checkpoint(3)[0].name, parquet([{"add": {"path": "a", "size": 1}}, action])))


ADD = {"path": "a", "size": 1}
REMOVE = {"path": "b", "deletionTimestamp": 1}


@pytest.mark.parametrize(
    ("partition_columns", "files", "is_error"),
    [
        (["day"], [{"add": ADD}], True),
        (["day"], [{"add": {**ADD, "partitionValues_parsed": {"day": "2026-01-01"}}}], True),
        (["day"], [{"remove": REMOVE}], False),
        ([], [{"add": ADD}], False),
    ],
    ids=["without", "only a struct", "no adds", "no partition columns"],
)
def test_adds_of_a_partitioned_table_need_a_column_of_partition_values(
    partition_columns: list[str], files: list[Action], is_error: bool
) -> None:
    rows, store = [*files, metadata(partitionColumns=partition_columns)], MemoryLogStore()
    add = pa.Table.from_pylist([{"add": ADD}, *files]).schema.field("add")
    fields = [("id", pa.string()), ("partitionColumns", pa.list_(pa.string()))]
    schema = pa.schema([add, SCHEMA.field("remove"), ("metaData", pa.struct(fields))])
    contents = opened(store, store.put(checkpoint(3)[0].name, parquet(rows, schema)))
    message = r"add\.partitionValues, found no such column"
    with pytest.raises(CorruptLogError, match=message) if is_error else nullcontext():
        load_non_file_actions(store, contents, EMPTY_BATCH)


def test_map_with_keys_that_are_not_strings_raises_an_error_that_names_the_file() -> None:
    store = MemoryLogStore()
    configuration = pa.map_(pa.struct([("x", pa.int64())]), pa.string())
    schema = pa.schema([("metaData", pa.struct([("id", pa.string()), ("configuration", configuration)]))])
    rows = [{"metaData": {"id": "a", "configuration": [({"x": 1}, "y")]}}]
    contents = opened(store, store.put(checkpoint(3)[0].name, parquet(rows, schema)))
    with pytest.raises(CorruptLogError, match="column metaData"):
        read_columns(store, contents.top_level[0], {"metaData": "id"})


def test_sidecars_are_found_by_their_encoded_names() -> None:
    store = MemoryLogStore()
    sidecar = store.put("_sidecars/part %1.parquet", parquet([{"add": {"path": "x", "size": 1}}]))
    named = {"sidecar": {"path": "part%20%251.parquet", "sizeInBytes": sidecar.size}}
    file = store.put(uuid_checkpoint(3)[0].name, parquet([V3, named]))

    contents = opened(store, file, kind="uuid")

    assert [part.file.path for part in contents.sidecars] == [sidecar.path]


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([protocol(), metadata()], "expected one checkpointMetadata action of version 3, found []"),
        ([{"checkpointMetadata": {"version": 2}}, protocol(), metadata()], "of version 3, found [2]"),
        ([V3, V3, protocol(), metadata()], "of version 3, found [3, 3]"),
        ([V3], "expected one protocol action in the checkpoint, found none"),
        ([V3, protocol()], "expected one metaData action in the checkpoint, found none"),
        ([V3, protocol(), metadata(), metadata()], "expected one metaData action in the checkpoint, found 2"),
    ],
)
def test_truncated_json_checkpoint_is_damaged(actions: list[Action], reason: str) -> None:
    store = MemoryLogStore()
    file = store.put(uuid_checkpoint(3, extension="json")[0].name, content(actions))
    with pytest.raises(CorruptLogError, match=re.escape(reason)) as error:
        load_non_file_actions(store, opened(store, file, kind="uuid", form="json"), EMPTY_BATCH)
    assert error.value.path == file.path


ONE: Action = {"sidecar": {"path": "one.parquet"}}
SAME: Action = {"sidecar": {"path": f"{LOG_PATH}/_sidecars/one%2Eparquet"}}


@pytest.mark.parametrize("form", ["parquet", "json"])
@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([ONE], "expected one checkpointMetadata action of version 3, found []"),
        ([{"checkpointMetadata": {"version": 2}}, ONE], "of version 3, found [2]"),
        ([V3, V3, ONE], "of version 3, found [3, 3]"),
        ([V3, ONE, SAME], "expected each sidecar once"),
        ([V3, ONE, {"add": {"path": "x", "size": 1}}], "expected all file actions in sidecars"),
        ([V3, ONE, {"remove": {"path": "x"}}], "expected all file actions in sidecars"),
    ],
)
def test_v2_checkpoint_must_state_its_version_and_have_actions_once(
    actions: list[Action], reason: str, form: Any
) -> None:
    store = MemoryLogStore()
    store.put("_sidecars/one.parquet", parquet([{"add": {"path": "x", "size": 1}}]))
    data = parquet(actions) if form == "parquet" else content(actions)
    file = store.put(uuid_checkpoint(3, extension=form)[0].name, data)
    with pytest.raises(CorruptLogError, match=re.escape(reason)) as error:
        opened(store, file, kind="uuid", form=form)
    assert error.value.path == file.path


def test_a_sidecar_of_a_json_checkpoint_must_have_a_path() -> None:
    store = MemoryLogStore()
    file = store.put(uuid_checkpoint(3, extension="json")[0].name, content([V3, {"sidecar": {"path": 1}}]))
    with pytest.raises(CorruptLogError, match="expected a sidecar, found") as error:
        opened(store, file, kind="uuid", form="json")
    assert (error.value.path, error.value.line) == (file.path, 2)


def test_a_checkpoint_with_a_classic_name_and_sidecars_must_state_its_version() -> None:
    store = MemoryLogStore()
    store.put("_sidecars/one.parquet", parquet([{"add": {"path": "x", "size": 1}}]))
    file = store.put(checkpoint(3)[0].name, parquet([ONE]))
    with pytest.raises(CorruptLogError, match="expected one checkpointMetadata action of version 3"):
        opened(store, file)


def test_a_json_checkpoint_yields_its_lines_and_sidecars() -> None:
    store = MemoryLogStore()
    store.put("_sidecars/one.parquet", parquet([{"add": {"path": "x", "size": 1}}]))
    name = uuid_checkpoint(3, extension="json")[0].name
    actions = [V3, protocol(), metadata(), {"sidecar": {"path": "one.parquet"}}]
    file = store.put(name, content(actions))

    contents = opened(store, file, kind="uuid", form="json")

    assert contents.lines.num_rows == 4
    assert [path.rpartition("/")[2] for path in contents.paths] == [name, "one.parquet"]
    assert [part.file.name for part in contents.sidecars] == ["one.parquet"]


@pytest.mark.parametrize(
    "path", [f"{LOG_PATH}/_sidecars/one.parquet", "/tables/events/_delta_log/_sidecars/one.parquet"]
)
def test_a_sidecar_may_be_named_by_its_absolute_path(path: str) -> None:
    store = MemoryLogStore()
    sidecar = store.put("_sidecars/one.parquet", parquet([{"add": {"path": "x", "size": 1}}]))
    file = store.put(uuid_checkpoint(3)[0].name, parquet([V3, {"sidecar": {"path": path}}]))

    assert [part.file.path for part in opened(store, file, kind="uuid").sidecars] == [sidecar.path]


@pytest.mark.parametrize(
    "path", ["http://host/x.parquet", "/etc/passwd", "../../../x", "file:///x", "simplecache::/x", ""]
)
@pytest.mark.parametrize("extension", ["parquet", "json"])
def test_a_sidecar_outside_the_table_is_rejected_without_opening_it(path: str, extension: Any) -> None:
    store = CountingLogStore(MemoryLogStore())
    assert isinstance(store.store, MemoryLogStore)
    named = {"sidecar": {"path": path, "sizeInBytes": 1}}
    data = parquet([V3, named]) if extension == "parquet" else content([V3, named])
    file = store.store.put(uuid_checkpoint(3, extension=extension)[0].name, data)
    provider = CheckpointProvider(version=3, files=(file,), kind=CheckpointKind.UUID, format=extension)

    with pytest.raises(CorruptLogError) as caught:
        open_checkpoint(store, provider, LOG_PATH)

    assert caught.value.path == file.path
    assert {*store.opens, *store.reads} == {file.path}


def test_a_sidecar_whose_key_is_written_with_escapes_is_found() -> None:
    store = MemoryLogStore()
    store.put("_sidecars/one.parquet", parquet([{"add": {"path": "x", "size": 1}}]))
    line = b'{"sidec\\u0061r":{"path":"one.parquet"}}\n'
    file = store.put(uuid_checkpoint(3, extension="json")[0].name, content([V3]) + line)

    assert [part.file.name for part in opened(store, file, kind="uuid", form="json").sidecars] == ["one.parquet"]


def test_files_with_file_actions_and_rows_include_every_part() -> None:
    store = MemoryLogStore()
    store.put("_sidecars/one.parquet", parquet([{"add": {"path": "x", "size": 1}}, {"remove": {"path": "y"}}]))
    bare = SCHEMA.remove(0).remove(0)
    file = store.put(uuid_checkpoint(3)[0].name, parquet([V3, {"sidecar": {"path": "one.parquet"}}], bare))

    contents = opened(store, file, kind="uuid")

    assert contents.num_rows == 4
    assert [part.file.name for part in contents.files_with_file_actions] == ["one.parquet"]
    assert [part.has_file_actions for part in contents.top_level] == [False]


def test_text_in_a_column_that_is_not_utf8_raises_an_error_that_names_the_file() -> None:
    store = MemoryLogStore()
    broken = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    sink = BytesIO()
    marker = pa.array([{"version": 3}])
    named = pa.StructArray.from_arrays([broken], ["path"])
    pq.write_table(pa.table({"sidecar": named, "checkpointMetadata": marker}), sink)
    file = store.put(uuid_checkpoint(3)[0].name, sink.getvalue())

    with pytest.raises(CorruptLogError) as caught:
        opened(store, file, kind="uuid")

    assert caught.value.path == file.path


def test_a_missing_sidecar_raises_an_error_that_names_it() -> None:
    store = MemoryLogStore()
    file = store.put(uuid_checkpoint(3)[0].name, parquet([V3, {"sidecar": {"path": "gone.parquet"}}]))

    with pytest.raises(CorruptLogError, match=r"_sidecars/gone\.parquet"):
        opened(store, file, kind="uuid")


def test_json_checkpoint_deleted_after_the_listing_is_a_missing_checkpoint() -> None:
    file = FileStatus(path=f"{LOG_PATH}/{uuid_checkpoint(3, extension='json')[0].name}", size=9, modification_time=0)
    with pytest.raises(CorruptLogError, match="expected a checkpoint, found no file"):
        opened(MemoryLogStore(), file, kind="uuid", form="json")


@pytest.mark.parametrize(
    ("data", "reported"),
    [
        pytest.param(parquet([{"add": {"path": "x"}}])[:-10], "expected Parquet", id="truncated"),
        pytest.param(b"", "expected Parquet", id="empty"),
        pytest.param(parquet([{"a": 1}], pa.schema([("a", pa.int64())])), "columns of log actions", id="foreign"),
        pytest.param(parquet([{"add": "x"}], pa.schema([("add", pa.string())])), "struct", id="no struct"),
        pytest.param(twice(), "each column once", id="a column twice"),
        pytest.param(
            parquet([{"Txn": {"appId": "a"}}], pa.schema([SCHEMA.field("add"), SCHEMA.field("txn").with_name("Txn")])),
            "expected column txn, found Txn",
            id="a column in other letters",
        ),
        pytest.param(
            parquet([], pa.schema([("add", pa.struct([*ALWAYS, ("stats_parsed", pa.string())]))])),
            "expected add.stats_parsed to be struct",
            id="statistics that are not a struct",
        ),
        pytest.param(
            parquet([{"add": {"path": 1}}], pa.schema([("add", pa.struct([("path", pa.int64())]))])),
            "text",
            id="mistyped path",
        ),
    ],
)
def test_a_broken_checkpoint_raises_an_error_that_names_the_file(data: bytes, reported: str) -> None:
    store = MemoryLogStore()
    file = store.put(checkpoint(3)[0].name, data)

    with pytest.raises(CorruptLogError, match=reported) as caught:
        opened(store, file)

    assert file.name in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "rows", "has_stats"),
    [
        pytest.param(("stats",), [{"path": "x", "stats": None}], True, id="JSON alone"),
        pytest.param(("stats", "stats_parsed"), [{"path": "x", "stats": "{}"}], True, id="both"),
        pytest.param(("stats", "stats_parsed"), [{"path": "x", "stats_parsed": {}}], False, id="struct alone in a row"),
        pytest.param(("stats_parsed",), [{"path": "x", "stats_parsed": {}}], False, id="struct alone"),
    ],
)
def test_json_statistics_of_all_files_count(
    fields: tuple[str, ...], rows: list[dict[str, Any]], has_stats: bool
) -> None:
    types = {"stats": pa.string(), "stats_parsed": STATS}
    schema = pa.schema([("add", pa.struct([*ALWAYS, *((name, types[name]) for name in fields)]))])
    store = MemoryLogStore()
    file = store.put(checkpoint(3)[0].name, parquet([{"add": {**row, "size": 1}} for row in rows], schema))

    assert opened(store, file).top_level[0].has_stats is has_stats


def test_file_without_null_counts_may_have_only_struct_statistics() -> None:
    schema = pa.schema([("add", pa.struct([*ALWAYS, ("stats", pa.string()), ("stats_parsed", STATS)]))])
    rows = [{"add": {"path": "x", "size": 1, "stats_parsed": {}}}]
    store, content = MemoryLogStore(), BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), content, write_statistics=False)
    file = store.put(checkpoint(3)[0].name, content.getvalue())
    assert not opened(store, file).top_level[0].has_stats
