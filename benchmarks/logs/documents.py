"""The actions that are not file actions, and the `.crc` file: one of each kind, as plain values."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.logs.columns import partition_names, physical, statistics_columns
from benchmarks.logs.shape import EPOCH_MS, LogShape

TABLE_ID = "6a1a2c3e-51ab-4c1e-9f60-00000000be9c"


def protocol(shape: LogShape) -> dict[str, Any]:
    """Return the lowest protocol that the shape needs."""
    needed = {
        "v2Checkpoint": shape.checkpoint.is_v2,
        "columnMapping": shape.mapped,
        "deletionVectors": bool(shape.vectors_every),
    }
    features = [name for name, is_needed in needed.items() if is_needed]
    if not features:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    both = {"readerFeatures": features, "writerFeatures": ["appendOnly", "invariants", *features]}
    return {"minReaderVersion": 3, "minWriterVersion": 7, **both}


def metadata(shape: LogShape) -> dict[str, Any]:
    """Return schema, partition columns and properties. Tombstones are kept for a century, so answers do not change."""
    partitions = partition_names(shape.partition_columns)
    columns = [*statistics_columns(shape.stats_columns), *((name, "string") for name in partitions)]
    fields = [_field(shape, number, *column) for number, column in enumerate(columns, start=1)]
    configuration = {"delta.deletedFileRetentionDuration": "interval 5200 weeks"}
    if shape.parsed_stats:
        configuration |= {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
    if shape.checkpoint.is_v2:
        configuration["delta.checkpointPolicy"] = "v2"
    if shape.mapped:
        configuration |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(columns))}
    if shape.vectors_every:
        configuration["delta.enableDeletionVectors"] = "true"
    return {
        "id": TABLE_ID,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}, separators=(",", ":")),
        "partitionColumns": partitions,
        "configuration": configuration,
        "createdTime": EPOCH_MS,
    }


def _field(shape: LogShape, number: int, name: str, kind: str) -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical(name, mapped=True)}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapping if shape.mapped else {}}


def commit_info(timestamp_ms: int) -> dict[str, Any]:
    """Return a writer's commitInfo."""
    return {
        "timestamp": timestamp_ms,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "engineInfo": "benchmarks",
    }


def checksum(shape: LogShape, num_files: int, size_in_bytes: int) -> dict[str, Any]:
    """Return the `.crc` file of a version with `num_files` files and `size_in_bytes` bytes."""
    return {
        "tableSizeBytes": size_in_bytes,
        "numFiles": num_files,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": metadata(shape),
        "protocol": protocol(shape),
    }


def line(name: str, action: dict[str, Any]) -> bytes:
    """Return one action as a line of a commit."""
    return json.dumps({name: action}, separators=(",", ":")).encode() + b"\n"
