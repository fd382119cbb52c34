"""The results of both sides for a version, in one form for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from deltasnap_core import SnapshotState


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A version, its live files, their bytes and rows. records: known ones, before deletion vectors."""

    version: int
    files: int
    size_in_bytes: int
    records: int


def ours(version: int, state: SnapshotState) -> Answer:
    """Return deltasnap's result."""
    return Answer(
        version=version, files=state.num_of_files, size_in_bytes=state.size_in_bytes, records=state.num_known_records
    )


def theirs(table: DeltaTable) -> Answer:
    """Return deltalake's result for a loaded table."""
    files = pa.table(table.get_add_actions())
    return Answer(
        version=table.version(),
        files=files.num_rows,
        size_in_bytes=pc.sum(files["size_bytes"]).as_py() or 0,
        records=pc.sum(files["num_records"]).as_py() or 0,
    )


def their_file_list(table: Path) -> frozenset[tuple[str, int]]:
    """Return path and size of each live file, from deltalake."""
    files = pa.table(DeltaTable(table).get_add_actions())
    return frozenset(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))
