"""Live files that are missing in storage, or have another size than in the log.

A file is missing only if no listed file shares a key with it (`FileKeys`), so names that differ only in case are equal.
Source: PROTOCOL.md, Add File and Remove File (`size` is the size of the file in bytes).
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.scan.files.file_keys import UNRESOLVED, FileKeys, spellings
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.named_files import OUTSIDE, named_files
from deltasnap_core.scan.version import ReferencedFiles
from deltasnap_core.storage.folder_listing import FolderListing
from deltasnap_core.storage.urls import join_url

MISSING, WRONG_SIZE = "missing", "wrong size"
MAYBE_LINKED = "not listed, but a symbolic link may lead to it"
UNRESOLVED_PATH = "its path cannot be resolved"

_CERTAIN = f"problem in ('{MISSING}', '{WRONG_SIZE}')"
_LISTED = pa.schema([("path", pa.string()), ("listed_size", pa.int64())])


def file_problems(table: ScannedTable, files: DataFrame, listing: FolderListing) -> DataFrame:
    """Return the live files and deletion vectors that are missing or have the wrong size, or were not compared.

    files: with the columns of AddFile. listing: of the table's folder, not older than the log of these files.
    """
    keys = FileKeys(listing.roots)
    names, _ = named_files(table, keys, ReferencedFiles(files=[files], tombstones=(), unread=None))
    root = join_url(table.table_path, "")
    rows = [
        {"path": path, "listed_size": file.size}
        for file in listing.files
        for path in spellings(file.path.removeprefix(root))
    ]
    listed = arrow_rows(table.spark, pa.Table.from_pylist(rows, _LISTED))
    places = names.selectExpr("path", "size", "keys", "explode(keys) as key").join(
        listed.selectExpr("listed_size", f"{keys.of_listed('path')} as key"), "key", "left"
    )
    found = aggregated(
        places,
        ["path", "size"],
        F.expr("first(keys) as keys"),
        F.expr("max(listed_size) as listed_size"),
        F.expr("bool_or(listed_size = size) as is_equal"),
    )
    problem = _problem(keys.is_inside("path"), listing)
    problems = found.selectExpr("*", f"{problem} as problem").where("problem is not null")
    return problems.selectExpr(
        f"coalesce({keys.shown('path')}, '') as path",
        "problem",
        f"{_CERTAIN} as certain",
        "size",
        "listed_size",
    )


def _problem(is_inside: str, listing: FolderListing) -> str:
    """Return SQL for the problem of a file; null: none. is_inside: SQL."""
    return (
        f"case when is_equal or (listed_size is not null and size is null) then null"
        f" when listed_size is not null then '{WRONG_SIZE}'"
        f" when array_contains(keys, '{UNRESOLVED}') then '{UNRESOLVED_PATH}'"
        f" when not {is_inside} then '{OUTSIDE}'"
        f" else '{MAYBE_LINKED if listing.link_targets else MISSING}' end"
    )
