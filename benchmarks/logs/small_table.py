"""A small table: a log of a few commits and a checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltasnap_core.support import LOG_FOLDER, checkpoint_file, commit_file

_CHECKPOINT = 2
_LAST = 5
_SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_METADATA = {
    "id": "small",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": json.dumps(_SCHEMA),
    "partitionColumns": [],
    "configuration": {},
}


def write_table(table: Path) -> None:
    """Write a log of a few commits and a checkpoint."""
    log = table / LOG_FOLDER
    log.mkdir(parents=True)
    for version in range(_LAST + 1):
        actions: list[dict[str, Any]] = [{"commitInfo": {"operation": "WRITE", "timestamp": version}}]
        if version == 0:
            actions += [{"protocol": _PROTOCOL}, {"metaData": _METADATA}]
        actions += [{"add": _add(version, number)} for number in range(4)]
        if version > _CHECKPOINT:
            removed = {"path": _path(version - 1, 0), "deletionTimestamp": 1 << 50, "dataChange": True}
            actions += [{"remove": removed}]
        (log / commit_file(version)).write_text("\n".join(map(json.dumps, actions)), encoding="utf-8")
    rows: list[dict[str, Any]] = [{"protocol": _PROTOCOL}, {"metaData": {**_METADATA, "configuration": None}}]
    rows += [{"add": _add(version, number)} for version in range(_CHECKPOINT + 1) for number in range(4)]
    pq.write_table(pa.Table.from_pylist(rows, _CHECKPOINT_SCHEMA), log / checkpoint_file(_CHECKPOINT))


def _path(version: int, number: int) -> str:
    return f"part-{version}-{number}.parquet"


def _add(version: int, number: int) -> dict[str, Any]:
    return {
        "path": _path(version, number),
        "partitionValues": {},
        "size": 1000 + number,
        "modificationTime": version,
        "dataChange": True,
        "stats": '{"numRecords":10}',
    }


_TEXTS = pa.map_(pa.string(), pa.string())
_CHECKPOINT_SCHEMA = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct(
            {
                "id": pa.string(),
                "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
                "schemaString": pa.string(),
                "partitionColumns": pa.list_(pa.string()),
                "configuration": _TEXTS,
            }
        ),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "modificationTime": pa.int64(),
                "dataChange": pa.bool_(),
                "stats": pa.string(),
            }
        ),
    }
)
