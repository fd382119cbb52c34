"""Real tables for the tests of the store, and comparisons of their versions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from deltasnap_core import DeltaLog, Snapshot, SnapshotStore


def rows(first: int, count: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, first + count), pa.int64()), "day": [f"d{n % 3} x" for n in range(count)]}
    )


def live(path: Path, versions: int) -> Iterator[int]:
    """Create a table version by version: appends, deletes, an overwrite, compactions, a checkpoint."""
    for version in range(versions):
        table = DeltaTable(str(path)) if version else None
        match version % 8:
            case 4 if table is not None:
                table.delete(f"id < {version * 10 - 5}")
            case 5:
                write_deltalake(str(path), rows(version * 10, 20), mode="overwrite", partition_by=["day"])
            case 6 if table is not None:
                table.update({"id": "id + 1"}, predicate="day = 'd1 x'")
            case _:
                write_deltalake(str(path), rows(version * 10, 10), mode="append", partition_by=["day"])
        table = DeltaTable(str(path))
        if table.version() == 6:
            table.create_checkpoint()
        yield table.version()


def make_table(path: Path, versions: int) -> int:
    """Create a table. Return its latest version."""
    return max(live(path, versions))


def as_rows(frame: Any) -> list[str]:
    """Return the rows of a DataFrame as sorted texts."""
    return sorted(json.dumps(row.asDict(recursive=True), sort_keys=True) for row in frame.collect())


def files_of_delta_rs(path: Path, version: int) -> list[tuple[str, int]]:
    """Return path and size of delta-rs's files of a version."""
    found = DeltaTable(str(path), version=version).get_add_actions(flatten=True)
    found = pa.table(found)
    return sorted(zip(found["path"].to_pylist(), found["size_bytes"].to_pylist(), strict=True))


def paths_and_sizes(frame: Any) -> list[tuple[str, int]]:
    """Return path and size of the rows of all_files."""
    return sorted((row.path, row.size) for row in frame.select("path", "size").collect())


def check_version(store: SnapshotStore, table: str, log: DeltaLog, version: int) -> None:
    """Check that a stored version equals a cold Snapshot in every respect."""
    manifest = store.manifest(table, version)
    snapshot: Snapshot = log.get_snapshot_at(
        version=version, min_file_retention_timestamp=manifest.min_file_retention_timestamp
    )
    assert as_rows(store.state(table, version)) == as_rows(snapshot.state)
    assert store.computed_state(table, version) == snapshot.computed_state
    assert store.log_segment(table, version) == snapshot.log_segment
    assert manifest.timestamp == snapshot.timestamp
    assert manifest.table_id == snapshot.metadata.id


def content(store: SnapshotStore, table: str, version: int) -> tuple[object, ...]:
    """Return the complete content of a stored version."""
    return (
        as_rows(store.state(table, version)),
        store.computed_state(table, version),
        store.log_segment(table, version),
        store.manifest(table, version).timestamp,
    )
