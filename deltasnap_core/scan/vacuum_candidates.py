"""What VACUUM would delete of a table's folder, and what is protected from it.

Source: Delta's `VacuumCommand`; PROTOCOL.md, Remove File (tombstones and their retention).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.protocol.deletion_vector import DeletionVectorDescriptor
from deltasnap_core.protocol.file_names import LOG_FOLDER
from deltasnap_core.scan.deletion_vectors import vector_file
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url

_NAMED = pa.schema([("path", pa.string()), ("live", pa.bool_()), ("deleted_at", pa.int64()), ("size", pa.int64())])
_LISTED = pa.schema([("path", pa.string()), ("listed_size", pa.int64()), ("modified_at", pa.int64())])


def vacuum_candidates(
    table: ScannedTable,
    files: DataFrame,
    tombstones: DataFrame,
    *,
    retention_ms: int,
    now_ms: int,
    listed: Iterable[FileStatus] | None = None,
) -> DataFrame:
    """Return the files that no version within the retention needs, and those that only the retention keeps.

    listed: the files below the table's folder; None: tell of those alone that the log names.
    """
    named = _named(table, files, tombstones)
    if listed is None:
        rows = named.selectExpr("*", "cast(null as bigint) as listed_size", "cast(null as bigint) as modified_at")
    else:
        there = table.spark.createDataFrame(_listing(table, listed))
        rows = there.join(named, "path", "left")
    before = now_ms - retention_ms
    # A tombstone without a time was made in 1970; a file without one is an orphan, and as old as its file.
    reason = (
        "case when live then 'live file'"
        f" when deleted_at > {before}L then 'tombstone has not expired'"
        " when deleted_at is not null then 'expired tombstone'"
        f" when modified_at > {before}L then 'orphan younger than the retention'"
        " else 'orphan' end"
    )
    told = rows.where("deleted_at is not null or (live is null and modified_at is not null)")
    return told.selectExpr("*", f"{reason} as reason").selectExpr(
        "path",
        "reason",
        "reason not in ('expired tombstone', 'orphan') as protected",
        "coalesce(listed_size, size) as size",
        "timestamp_millis(nullif(deleted_at, 0L)) as deletion_timestamp",
        "timestamp_millis(modified_at) as modification_time",
    )


def _named(table: ScannedTable, files: DataFrame, tombstones: DataFrame) -> DataFrame:
    """Return what the log names: path, live, deleted_at (ms), size; one row a path."""
    path = _path_in(table.table_path)
    live = files.selectExpr(f"{path} as path", "true as live", "cast(null as bigint) as deleted_at", "size")
    gone = tombstones.selectExpr(
        f"{path} as path", "false as live", "coalesce(deletionTimestamp, 0L) as deleted_at", "size"
    )
    vectors = _vectors(files, tombstones)
    rows = live.unionAll(gone)
    if vectors.num_rows:
        rows = rows.unionAll(table.spark.createDataFrame(vectors))
    return rows.groupBy("path").agg(
        F.expr("bool_or(live) as live"), F.expr("max(deleted_at) as deleted_at"), F.expr("max(size) as size")
    )


def _vectors(files: DataFrame, tombstones: DataFrame) -> pa.Table:
    """Return the files of deletion vectors below the table, as `_named` has them; their names take decoding."""
    found: list[dict[str, Any]] = []
    for rows, deleted_at in ((files, None), (tombstones, "max(coalesce(deletionTimestamp, 0L))")):
        of_files = rows.where("deletionVector.storageType = 'u'").groupBy("deletionVector.pathOrInlineDv")
        times = of_files.agg(F.expr(f"{deleted_at or 'cast(null as bigint)'} as deleted_at"))
        for row in times.toArrow().to_pylist():
            vector = DeletionVectorDescriptor(
                storage_type="u", path_or_inline_dv=row["pathOrInlineDv"], size_in_bytes=0, cardinality=0
            )
            found.append({"path": vector_file(vector), "live": deleted_at is None, "deleted_at": row["deleted_at"]})
    return pa.Table.from_pylist(found, _NAMED)


def _listing(table: ScannedTable, listed: Iterable[FileStatus]) -> pa.Table:
    root = join_url(table.table_path, "")
    rows = [
        {"path": file.path.removeprefix(root), "listed_size": file.size, "modified_at": file.modification_time}
        for file in listed
        if not _is_kept(file.path.removeprefix(root))
    ]
    return pa.Table.from_pylist(rows, _LISTED)


def _is_kept(path: str) -> bool:
    """Whether VACUUM leaves a file alone: hidden, or in a hidden folder, but for change data and partition folders."""
    parts = path.split("/")
    if parts[0] in (LOG_FOLDER, ""):
        return True
    return any(part.startswith((".", "_")) and "=" not in part and part != "_change_data" for part in parts)


def _path_in(table_path: str) -> str:
    """Return SQL for a path, decoded, and relative where it lies below the table."""
    decoded = "coalesce(try_url_decode(replace(path, '+', '%2B')), path)"
    scheme, _, rest = table_path.partition("://")
    root = f"file:{rest}/" if scheme == "file" else f"{table_path}/"
    quoted = root.replace("\\", "\\\\").replace("'", "\\'")
    return f"if(startswith({decoded}, '{quoted}'), substring({decoded}, {len(root) + 1}), {decoded})"
