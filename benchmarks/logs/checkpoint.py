"""Writes the checkpoint of a log: classic, multi-part, or V2 with sidecars."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.logs import columns, documents
from benchmarks.logs.columns import MAP, Numbers
from benchmarks.logs.shape import EPOCH_MS, CheckpointKind, LogShape

_ROWS_AT_A_TIME = 131_072
"""The number of rows in memory at a time, and the number of rows per row group in the usual shape."""

_UUID = "0b5f6d9c-1f4e-4c0a-8d3e-2a7c9be0f001"
_STRINGS = pa.list_(pa.string())
_FORMAT = pa.struct([("provider", pa.string()), ("options", MAP)])
_ACTIONS = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _STRINGS),
            ("writerFeatures", _STRINGS),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", _FORMAT),
            ("schemaString", pa.string()),
            ("partitionColumns", _STRINGS),
            ("configuration", MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
}
_V2_ACTIONS = {
    "checkpointMetadata": pa.struct([("version", pa.int64())]),
    "sidecar": pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]),
}


def write_checkpoint(shape: LogShape, log: Path) -> None:
    """Write the checkpoint of the base version, and `_last_checkpoint`."""
    stem = f"{shape.base_version:020d}.checkpoint"
    if shape.checkpoint.is_v2:
        files = [_write_v2(shape, log, stem)]
    elif shape.checkpoint is CheckpointKind.MULTI_PART:
        files = [log / f"{stem}.{part:010d}.{shape.parts:010d}.parquet" for part in range(1, shape.parts + 1)]
        for part, path in enumerate(files):
            _write_parquet(path, shape, _non_file_rows(shape) if part == 0 else [], _share(shape, part))
    else:
        files = [log / f"{stem}.parquet"]
        _write_parquet(files[0], shape, _non_file_rows(shape), _share(shape, 0))
    hint: dict[str, Any] = {
        "version": shape.base_version,
        "size": shape.files + shape.tombstones + 2,
        "sizeInBytes": sum(path.stat().st_size for path in files),
        "numOfAddFiles": shape.files,
    }
    if shape.checkpoint is CheckpointKind.MULTI_PART:
        hint["parts"] = shape.parts
    (log / "_last_checkpoint").write_text(json.dumps(hint))


def _write_v2(shape: LogShape, log: Path, stem: str) -> Path:
    folder = log / "_sidecars"
    folder.mkdir()
    rows: list[dict[str, Any]] = [{"checkpointMetadata": {"version": shape.base_version}}]
    for part in range(shape.parts):
        path = folder / f"{part:08d}-3a0d5b1e-7c55-4b8e-9d2f-5be0a1c4d002.parquet"
        _write_parquet(path, shape, None, _share(shape, part))
        status = {"path": path.name, "sizeInBytes": path.stat().st_size, "modificationTime": EPOCH_MS}
        rows.append({"sidecar": status})
    if shape.checkpoint is CheckpointKind.V2_PARQUET:
        top_level = log / f"{stem}.{_UUID}.parquet"
        _write_parquet(top_level, shape, rows + _non_file_rows(shape), None)
    else:
        top_level = log / f"{stem}.{_UUID}.json"
        rows += [{"protocol": documents.protocol(shape)}, {"metaData": documents.metadata(shape)}]
        top_level.write_bytes(b"".join(documents.line(*action) for row in rows for action in row.items()))
    return top_level


def _share(shape: LogShape, part: int) -> tuple[Numbers, Numbers]:
    """Return the live files and the tombstones of a part."""
    live = np.array_split(np.arange(shape.files, dtype=np.int64), shape.parts)[part]
    return live, np.array_split(shape.buried, shape.parts)[part]


def _write_parquet(
    path: Path, shape: LogShape, others: list[dict[str, Any]] | None, share: tuple[Numbers, Numbers] | None
) -> None:
    """Write one file. others: its rows that are not file actions; None: it has no columns for them."""
    kinds: dict[str, pa.DataType] = {} if others is None else dict(_ACTIONS)
    if others is not None and shape.checkpoint.is_v2:
        kinds |= _V2_ACTIONS
    kinds |= {"add": _adds(np.arange(0), shape).type, "remove": _removes(np.arange(0), shape).type}
    schema = pa.schema(list(kinds.items()))
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        if others:
            writer.write_table(pa.Table.from_pylist(others, schema=schema))
        for name, actions in _file_actions(shape, share):
            arrays = [actions if field.name == name else pa.nulls(len(actions), field.type) for field in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _file_actions(shape: LogShape, share: tuple[Numbers, Numbers] | None) -> Iterator[tuple[str, pa.StructArray]]:
    if share is None:
        return
    live, buried = share
    rows = max(len(live) // shape.row_groups, 1) if shape.row_groups else _ROWS_AT_A_TIME
    for numbers in columns.blocks(live, rows):
        yield "add", _adds(numbers, shape)
    for numbers in columns.blocks(buried, rows):
        yield "remove", _removes(numbers, shape)


def _adds(numbers: Numbers, shape: LogShape) -> pa.StructArray:
    return _struct(
        path=columns.paths(numbers, shape.partition_columns),
        partitionValues=columns.partition_values(numbers, shape.partition_columns, mapped=shape.mapped),
        size=pa.array(columns.sizes(numbers)),
        modificationTime=pa.array(EPOCH_MS - numbers),
        dataChange=pa.repeat(pa.scalar(False), len(numbers)),
        tags=pa.nulls(len(numbers), MAP),
        **_statistics(numbers, shape),
        **_vectors(numbers, shape),
    )


def _removes(numbers: Numbers, shape: LogShape) -> pa.StructArray:
    return _struct(
        path=columns.paths(numbers, shape.partition_columns),
        deletionTimestamp=pa.array(EPOCH_MS - numbers % 600_000_000),
        dataChange=pa.repeat(pa.scalar(False), len(numbers)),
        extendedFileMetadata=pa.repeat(pa.scalar(True), len(numbers)),
        partitionValues=columns.partition_values(numbers, shape.partition_columns, mapped=shape.mapped),
        size=pa.array(columns.sizes(numbers)),
        **_vectors(numbers, shape),
    )


def _statistics(numbers: Numbers, shape: LogShape) -> dict[str, pa.Array]:
    if not shape.stats_columns:
        return {"stats": pa.nulls(len(numbers), pa.string())}
    make = columns.stats_parsed if shape.parsed_stats else columns.stats
    name = "stats_parsed" if shape.parsed_stats else "stats"
    return {name: make(numbers, shape.stats_columns, mapped=shape.mapped)}


def _vectors(numbers: Numbers, shape: LogShape) -> dict[str, pa.Array]:
    every = shape.vectors_every
    return {"deletionVector": columns.deletion_vectors(numbers, every)} if every else {}


def _struct(**fields: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(fields.values()), list(fields))


def _non_file_rows(shape: LogShape) -> list[dict[str, Any]]:
    metadata = documents.metadata(shape)
    maps_as_pairs = {
        "format": {"provider": "parquet", "options": []},
        "configuration": list(metadata["configuration"].items()),
    }
    return [{"protocol": documents.protocol(shape)}, {"metaData": metadata | maps_as_pairs}]
