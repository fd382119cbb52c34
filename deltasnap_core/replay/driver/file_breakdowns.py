"""FileBreakdown in Arrow. Counterpart: `replay/spark/file_breakdowns.py`."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.rules.paths import canonical_paths
from deltasnap_core.rules.totals.aggregates import MissingSizeError
from deltasnap_core.rules.totals.file_breakdown import FileGroup

BREAKDOWN_COLUMNS = ("add.partitionValues", "remove.size")
"""The Parquet columns that `file_groups` reads beside MEASURED_COLUMNS."""


def file_groups(rows: pa.Table, log_path: str, *, sign: int = 1) -> list[FileGroup]:
    """Return each file and tombstone as a group, in the order of the rows.

    rows: size and deleted_at of MEASURED_ACTION; `add` and `remove`, structs with path, partitionValues and size.
    sign: 1 or -1. Errors: MissingSizeError.
    """
    add, remove = rows["add"].combine_chunks(), rows["remove"].combine_chunks()
    found = []
    for deleted_at, path, size, values, removed_size in zip(
        rows["deleted_at"].to_pylist(),
        canonical_paths(pc.struct_field(add, "path"), log_path).to_pylist(),
        rows["size"].to_pylist(),
        pc.struct_field(add, "partitionValues").to_pylist(),
        pc.struct_field(remove, "size").to_pylist(),
        strict=True,
    ):
        if deleted_at is not None:
            found.append(FileGroup.of_tombstone(deleted_at, removed_size, sign=sign))
        elif size is None:
            raise MissingSizeError("expected add.size to be an integer, found null")
        else:
            found.append(FileGroup.of_file(path, size, values or (), sign=sign))
    return found
