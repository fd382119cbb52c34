"""The files that actions name: data files, and the files of their deletion vectors."""

from __future__ import annotations

from functools import reduce
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.protocol.actions import DeletionVectorDescriptor
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.scan.files.deletion_vectors import vector_file
from deltasnap_core.scan.files.file_keys import UNRESOLVED, FileKeys
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.version import ReferencedFiles

OUTSIDE = "outside the folder of the table"
"""The reason for a file that a listing of the folder cannot contain."""

_NAMED = pa.schema([("path", pa.string()), ("deleted_at", pa.int64()), ("is_own", pa.bool_())])
_AGE = pa.schema([("live", pa.bool_()), ("deleted_at", pa.int64())])
# The paths of an action: its data file, and its deletion vector if that is a file. encoding: of the vector's path.
_PATHS = """inline(filter(array(
  struct(path, size, true as is_data, partitionValues, cast(null as string) as encoding),
  if(coalesce(deletionVector.storageType, 'i') = 'i', null, struct(
    deletionVector.pathOrInlineDv as path, cast(null as bigint) as size, false as is_data,
    cast(null as map<string, string>) as partitionValues, nullif(deletionVector.storageType, 'p') as encoding))
), each -> each is not null))"""


def named_files(
    table: ScannedTable, keys: FileKeys, named: ReferencedFiles, cache: StateCache | None = None
) -> tuple[DataFrame, DataFrame]:
    """Return the files and deletion vectors that actions name, and the ages of the paths that cannot be resolved.

    cache: keeps the files from now on: both results read them, and each query of the caller.
    The first: path (as in the log), deleted_at (ms; null: live), is_own (of the first DataFrame of files), size (null:
    not stated), is_data (false: a deletion vector), partitionValues (null: none), keys (of `FileKeys`). The second:
    live, deleted_at.
    """
    live, gone = "cast(null as bigint) as deleted_at", "coalesce(deletionTimestamp, 0L) as deleted_at"
    parts = [frame.selectExpr(live, f"{n == 0} as is_own", _PATHS) for n, frame in enumerate(named.files)]
    parts += [frame.selectExpr(gone, "false as is_own", _PATHS) for frame in named.tombstones]
    of_log = f"{keys.of_logged('path')} as keys"
    with_keys = reduce(DataFrame.unionAll, parts).selectExpr("*", of_log)
    if cache is not None:
        with_keys = cache.cached(with_keys)
    unknown, of_driver = _undecided(with_keys)
    of_driver += [{"path": path, "deleted_at": None, "is_own": False} for path, _, _ in named.change_data]
    in_spark = with_keys.where("encoding is null").drop("encoding")
    local = arrow_rows(table.spark, pa.Table.from_pylist(of_driver, _NAMED)).selectExpr("*", "false as is_data", of_log)
    ages_of_local = local.where(f"array_contains(keys, '{UNRESOLVED}')").selectExpr(
        "deleted_at is null as live", "deleted_at"
    )
    ages_of_unknown = ages_of_local.unionAll(arrow_rows(table.spark, pa.Table.from_pylist(unknown, _AGE)))
    return in_spark.unionByName(local, allowMissingColumns=True) if of_driver else in_spark, ages_of_unknown


def _undecided(paths: DataFrame) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the ages (_AGE) of paths that cannot be resolved, and the vectors whose path is encoded (_NAMED).

    A path that cannot be decoded is None. There are few of them: one query finds them.
    """
    undecided = paths.where(f"encoding is not null or array_contains(keys, '{UNRESOLVED}')").selectExpr(
        *("deleted_at", "is_own", "encoding"), "if(encoding is null, null, path) as path"
    )
    sums = "bool_or(deleted_at is null) as live", "max(deleted_at) as deleted_at", "bool_or(is_own) as is_own"
    rows = aggregated(undecided, ["encoding", "path"], *map(F.expr, sums))
    unknown, vectors = [], []
    for row in rows.toArrow().to_pylist():
        if row["encoding"] is None:
            unknown.append({"live": row["live"], "deleted_at": row["deleted_at"]})
            continue
        vector = DeletionVectorDescriptor(
            storage_type=row["encoding"], path_or_inline_dv=row["path"] or "", size_in_bytes=0, cardinality=0
        )
        try:
            path = quote(vector_file(vector))
        except ValueError:
            path = None
        deleted_at = None if row["live"] else row["deleted_at"]
        vectors.append({"path": path, "deleted_at": deleted_at, "is_own": row["is_own"]})
    return unknown, vectors
