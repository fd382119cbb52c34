"""What VACUUM would delete of a table's folder, and what keeps other files from it.

Somebody may delete what is listed here, so a file is a candidate only where it is certain that nothing needs it:
files are compared by `FileKeys`, and what cannot be resolved counts as needed.
Source: Delta's `VacuumCommand`; PROTOCOL.md, Remove File (tombstones and their retention).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.protocol.deletion_vector import DeletionVectorDescriptor
from deltasnap_core.protocol.file_names import LOG_FOLDER
from deltasnap_core.replay.spark.local_rows import arrow_rows
from deltasnap_core.scan.deletion_vectors import vector_file
from deltasnap_core.scan.file_keys import UNRESOLVED, FileKeys, normal_path
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.storage.folder_listing import FolderListing, roots_of
from deltasnap_core.storage.urls import join_url

_NAMED = pa.schema([("path", pa.string()), ("deleted_at", pa.int64()), ("size", pa.int64())])
_LISTED = pa.schema(
    [("path", pa.string()), ("kept", pa.string()), ("listed_size", pa.int64()), ("modified_at", pa.int64())]
)
_FILE = "path", "kept", "size", "listed_size", "modified_at"
_CHANGE_DATA, _CONVERTED = "_change_data", "metadata"

LINKED, NESTED = "a symbolic link leads to it", "in a folder of another table"
OUTSIDE = "outside the folder of the table"
SAME_NAME = "the log names a file of this name by another path"
UNRESOLVED_NAMES = "the log names a file that cannot be resolved"
LOG_IS_GONE = "the log is gone: other versions may need it"
YOUNG_TOMBSTONE = "expired tombstone, but the file is younger than the retention"
UNKNOWN_AGE = "orphan of unknown age"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedFiles:
    """What a log names.

    files, tombstones: frames with the columns of AddFile and of RemoveFile, of one version each or of many.
    change_data: the paths of files of change data, as the log has them. is_whole: whether the whole log was read.
    """

    files: Sequence[DataFrame]
    tombstones: Sequence[DataFrame]
    change_data: Sequence[str] = ()
    is_whole: bool = True


def vacuum_candidates(
    table: ScannedTable,
    named: NamedFiles,
    *,
    retention_ms: int,
    now_ms: int,
    listing: FolderListing | None = None,
) -> DataFrame:
    """Return the files that no version within the retention needs, and those that only something else keeps.

    named: of every version that is retained. listing: None: report only files that the log names.
    """
    keys = FileKeys(roots_of(table.table_path) if listing is None else listing.roots)
    names = _named(table, named).selectExpr("*", f"{keys.of_logged('path')} as keys")
    before = now_ms - retention_ms
    needs = names.selectExpr("explode(keys) as key", "deleted_at").groupBy("key").agg(
        F.expr("bool_or(deleted_at is null) as live"), F.expr("max(deleted_at) as deleted_at")
    )  # fmt: skip
    is_needed = f"(live or deleted_at > {before}L)"
    unknown = names.where(f"array_contains(keys, '{UNRESOLVED}')").selectExpr(
        "deleted_at is null as live", "deleted_at"
    )
    rows = _logged(keys, names) if listing is None else _listed(table, keys, listing)
    found = (
        rows.selectExpr(*_FILE, "posexplode(array(key, name)) as (by_name, key)")
        .join(needs, "key", "left")
        .groupBy(*_FILE)
        .agg(
            F.expr("max(if(by_name = 0, live, null)) as live"),
            F.expr("max(if(by_name = 0, deleted_at, null)) as deleted_at"),
            F.expr(f"bool_or(by_name = 1 and {is_needed}) as named"),
        )
        .crossJoin(unknown.agg(F.expr(f"coalesce(bool_or({is_needed}), false) as is_unknown")))
        .where("deleted_at is not null or (live is null and modified_at is not null)")
    )
    return found.selectExpr("*", f"{_reason(before, is_whole=named.is_whole)} as reason").selectExpr(
        "path",
        "reason",
        "reason not in ('expired tombstone', 'orphan') as protected",
        "coalesce(listed_size, size) as size",
        "timestamp_millis(nullif(deleted_at, 0L)) as deletion_timestamp",
        "timestamp_millis(modified_at) as modification_time",
    )


def _reason(before: int, *, is_whole: bool) -> str:
    # A tombstone without a time is one of 1970. A file without one has no age that could be compared.
    cases = (
        ("live", "live file"),
        (f"deleted_at > {before}L", "tombstone has not expired"),
        ("kept is not null", None),
        ("named", SAME_NAME),
        ("is_unknown", UNRESOLVED_NAMES),
        ("false" if is_whole else "true", LOG_IS_GONE),
        (f"deleted_at is not null and modified_at > {before}L", YOUNG_TOMBSTONE),
        ("deleted_at is not null", "expired tombstone"),
        ("modified_at = 0L", UNKNOWN_AGE),
        (f"modified_at > {before}L", "orphan younger than the retention"),
    )
    told = " ".join(f"when {case} then {'kept' if reason is None else repr(reason)}" for case, reason in cases)
    return f"case {told} else 'orphan' end"


def _named(table: ScannedTable, named: NamedFiles) -> DataFrame:
    """Return the files and deletion vectors that the log names: path (raw), deleted_at (ms; null: live), size."""
    ages = {"cast(null as bigint)": named.files, "coalesce(deletionTimestamp, 0L)": named.tombstones}
    columns = "path", "size", "deletionVector.storageType as type", "deletionVector.pathOrInlineDv as vector"
    rows = _union(
        [frame.selectExpr(*columns, f"{age} as deleted_at") for age, frames in ages.items() for frame in frames]
    )
    by_path = rows.where("type = 'p'").selectExpr("vector as path", "deleted_at", "cast(null as bigint) as size")
    found = [rows.select("path", "deleted_at", "size"), by_path]
    of_driver = [{"path": path} for path in named.change_data]
    of_driver += _encoded_vectors(rows.where("type is not null and type not in ('p', 'i')"))
    if of_driver:
        found.append(arrow_rows(table.spark, pa.Table.from_pylist(of_driver, _NAMED)))
    return _union(found)


def _encoded_vectors(rows: DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the vectors whose path is encoded, as `_named` has them; path None: it cannot be decoded."""
    age = F.expr("if(bool_or(deleted_at is null), null, max(deleted_at)) as deleted_at")
    for row in rows.groupBy("type", "vector").agg(age).toArrow().to_pylist():
        vector = DeletionVectorDescriptor(
            storage_type=row["type"], path_or_inline_dv=row["vector"] or "", size_in_bytes=0, cardinality=0
        )
        try:
            path = quote(vector_file(vector))
        except ValueError:
            path = None
        yield {"path": path, "deleted_at": row["deleted_at"]}


def _logged(keys: FileKeys, names: DataFrame) -> DataFrame:
    """Return the files that the log names, one row a path as it is shown."""
    outside = f"if({keys.is_inside('path')}, cast(null as string), '{OUTSIDE}') as kept"
    shown = names.selectExpr(f"coalesce({keys.shown('path')}, '') as path", outside, "keys[0] as key", "size")
    sizes = shown.groupBy("path", "kept", "key").agg(F.expr("max(size) as size"))
    not_listed = "cast(null as bigint) as listed_size", "cast(null as bigint) as modified_at"
    return sizes.selectExpr("*", *not_listed, f"{keys.of_name('path')} as name")


def _listed(table: ScannedTable, keys: FileKeys, listing: FolderListing) -> DataFrame:
    """Return the listed files that VACUUM would consider, with the columns of `_logged`."""
    rows = arrow_rows(table.spark, _considered(table, listing))
    names = f"{keys.of_listed('path')} as key", f"{keys.of_name('path')} as name"
    return rows.selectExpr("*", "cast(null as bigint) as size", *names)


def _considered(table: ScannedTable, listing: FolderListing) -> pa.Table:
    root = join_url(table.table_path, "")
    files = {file.path.removeprefix(root): file for file in listing.files}
    nested = {path.partition(f"/{LOG_FOLDER}/")[0] for path in files if f"/{LOG_FOLDER}/" in path}
    roots = [f"{normal_path(root)}/" for root in listing.roots]
    targets = [f"{normal_path(target)}/" for target in listing.link_targets]
    linked = {target.removeprefix(root).rstrip("/") for target in targets for root in roots if target.startswith(root)}
    if any(root.startswith(target) for target in targets for root in roots):
        linked.add("")  # a link to the table's folder, or to one above it
    rows = []
    for path, file in files.items():
        if not _is_hidden(path, table.metadata.partition_columns):
            kept = (
                NESTED
                if _is_below(path, nested)
                else LINKED
                if _is_below(path.lower().replace("\\", "/"), linked)
                else None
            )
            row = {"path": path, "kept": kept, "listed_size": file.size, "modified_at": file.modification_time}
            rows.append(row)
    return pa.Table.from_pylist(rows, _LISTED)


def _is_hidden(path: str, partition_columns: Sequence[str]) -> bool:
    """Return whether VACUUM leaves a file alone: hidden, or in a hidden folder, unless that is a partition's.

    So does this for a name that is not UTF-8: no log names it, and nobody could be told it.
    """
    parts = path.split("/")
    if parts[0] in (LOG_FOLDER, _CONVERTED, "") or any("\ud800" <= character <= "\udfff" for character in path):
        return True
    partitions = tuple(f"{name}=" for name in partition_columns)
    return any(
        part.startswith((".", "_")) and part != _CHANGE_DATA and not part.startswith(partitions) for part in parts
    )


def _is_below(path: str, folders: Set[str]) -> bool:
    """Return whether a path is one of some paths, or lies below it; all lie below the empty one."""
    if not folders:
        return False
    parts = path.split("/")
    return "" in folders or any("/".join(parts[:depth]) in folders for depth in range(1, len(parts) + 1))


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionAll, frames)
