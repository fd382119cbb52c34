"""Builders for the tests of metadata."""

from __future__ import annotations

import json

import dagster as dg

from deltasnap_core import FileSizeHistogram, Metadata, Protocol, SnapshotState
from deltasnap_core.protocol.state.deleted_record_counts_histogram import DeletedRecordCountsHistogram

KIB = 1024


SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "the key"}},
        {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}, "nullable": True},
    ],
}


def state(**changes: object) -> SnapshotState:
    sizes = (100, 9 * KIB, 10 * KIB, 40 * KIB)
    values: dict[str, object] = {
        "size_in_bytes": sum(sizes),
        "num_of_files": len(sizes),
        "num_of_removes": 2,
        "num_of_set_transactions": 0,
        "num_of_metadata": 1,
        "num_of_protocol": 1,
        "num_known_records": 100,
        "num_files_without_records": 0,
        "num_deletion_vectors": 1,
        "num_deleted_records": 10,
        "set_transactions": (),
        "domain_metadata": (),
        "metadata": Metadata(
            id="t",
            schema_string=json.dumps(SCHEMA),
            partition_columns=("id",),
            configuration={"delta.appendOnly": "true"},
        ),
        "protocol": Protocol(min_reader_version=3, min_writer_version=7, reader_features=("deletionVectors",)),
        "file_size_histogram": FileSizeHistogram.of_sizes(sizes),
        "deleted_record_counts_histogram": DeletedRecordCountsHistogram.of_counts([0, 0, 0, 10]),
    }
    return SnapshotState(**{**values, **changes})  # type: ignore[arg-type]


def plain(entries: dict[str, dg.MetadataValue]) -> dict[str, object]:
    return {name: value.value for name, value in entries.items()}
