"""Checkpoints of every kind, written from actions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltasnap_core.protocol.log_files import file_names
from tests.builders import UUIDS, Action, content, mtime_of, multipart_checkpoint_files

CheckpointStyle = Literal["classic", "multipart", "v2-parquet", "v2-json", "v2-parquet-sidecars", "v2-json-sidecars"]
STYLES: tuple[CheckpointStyle, ...] = (
    "classic",
    "multipart",
    "v2-parquet",
    "v2-json",
    "v2-parquet-sidecars",
    "v2-json-sidecars",
)

PARTS = 2
"""Of a multi-part checkpoint, and the number of sidecars."""
ROWS_A_GROUP: int | None = None

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _TEXTS),
        ("deletionVector", _VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _TEXTS),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        ("add", _ADD),
        ("remove", _REMOVE),
        ("metaData", _METADATA),
        ("protocol", _PROTOCOL),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
        ("checkpointMetadata", pa.struct([("version", pa.int64())])),
        ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])),
    ]
)


def write_checkpoint(log: Path, version: int, style: CheckpointStyle, actions: Sequence[Action]) -> list[Path]:
    """Write a checkpoint of a version into a log folder. Return its top-level files."""
    v2_marker = {"checkpointMetadata": {"version": version}}
    match style:
        case "classic":
            files = [_parquet(log / file_names.checkpoint_file(version), actions)]
        case "multipart":
            names = multipart_checkpoint_files(version, PARTS)
            files = [_parquet(log / name, actions[part::PARTS]) for part, name in enumerate(names)]
        case "v2-parquet" | "v2-json":
            files = [_v2(log, version, style, [v2_marker, *actions])]
        case _:
            files = [_v2(log, version, style, [v2_marker, *_with_sidecars(log, version, actions)])]
    for file in files:
        os.utime(file, (mtime_of(version) / 1000, mtime_of(version) / 1000))
    return files


def put_parsed_statistics(file: Path, parsed: pa.StructArray, *, keep_json: bool) -> None:
    """Add statistics as a struct to each add of a checkpoint file, beside its JSON statistics or instead of them."""
    rows = pq.read_table(file)
    add = rows["add"].combine_chunks()
    names = [field.name for field in add.type if keep_json or field.name != "stats"]
    arrays = [add.field(name) for name in names]
    whole = pa.StructArray.from_arrays([*arrays, parsed], [*names, "stats_parsed"], mask=add.is_null())
    pq.write_table(rows.set_column(rows.column_names.index("add"), "add", whole), file)


def put_structs_of_nulls(file: Path) -> None:
    """Write a checkpoint file again with structs that have only nulls in place of nulls."""

    def filled(values: pa.Array) -> pa.Array:
        if not pa.types.is_struct(values.type):
            return values
        inside = [filled(pc.struct_field(values, field.name)) for field in values.type]
        return pa.StructArray.from_arrays(inside, fields=list(values.type))

    rows = pq.read_table(file)
    pq.write_table(pa.table([filled(column.combine_chunks()) for column in rows.columns], schema=rows.schema), file)


def put_arrow_types(file: Path, text: pa.DataType, list_of: Callable[[pa.DataType], pa.DataType] = pa.list_) -> None:
    """Write a checkpoint file again with other Arrow types of texts and lists. The Parquet types stay the same.

    Write the sidecars before the file that states their sizes.
    """

    def other(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([field.with_type(other(field.type)) for field in kind])
        if pa.types.is_map(kind):
            return pa.map_(other(kind.key_type), other(kind.item_type))
        if pa.types.is_list(kind):
            return list_of(other(kind.value_type))
        return text if pa.types.is_string(kind) else kind

    rows = pq.read_table(file)
    schema = pa.schema([field.with_type(other(field.type)) for field in rows.schema])
    actions = rows.to_pylist()
    for sidecar in filter(None, (action.get("sidecar") for action in actions)):
        named = file.parent / file_names.SIDECAR_FOLDER / unquote(sidecar["path"])
        sidecar["sizeInBytes"] = named.stat().st_size
    # pyarrow 26.0.1 counts too few nulls of a dictionary in a struct.
    pq.write_table(
        pa.Table.from_pylist(actions, schema=schema), file, write_statistics=not pa.types.is_dictionary(text)
    )


def _with_sidecars(log: Path, version: int, actions: Sequence[Action]) -> list[Action]:
    of_files = [action for action in actions if "add" in action or "remove" in action]
    kept = [action for action in actions if action not in of_files]
    (log / file_names.SIDECAR_FOLDER).mkdir(exist_ok=True)
    for part in range(PARTS):
        name = f"{version} part {part}.parquet"
        file = _parquet(log / file_names.SIDECAR_FOLDER / name, of_files[part::PARTS])
        encoded = name.replace(" ", "%20")
        kept.append({"sidecar": {"path": encoded, "sizeInBytes": file.stat().st_size, "modificationTime": 1}})
    return kept


def _v2(log: Path, version: int, style: CheckpointStyle, actions: Sequence[Action]) -> Path:
    if "json" in style:
        file = log / file_names.uuid_checkpoint_file(version, UUIDS[version % 16], "json")
        file.write_bytes(content(actions))
        return file
    return _parquet(log / file_names.uuid_checkpoint_file(version, UUIDS[version % 16], "parquet"), actions)


def _parquet(file: Path, actions: Sequence[Action]) -> Path:
    pq.write_table(pa.Table.from_pylist(list(actions), schema=_SCHEMA), file, row_group_size=ROWS_A_GROUP)
    return file
