"""The files that VACUUM would delete from a table's folder, and the reasons that protect other files.

A user may delete the listed files. So a file is a candidate only if it is certain that nothing needs it: files are
compared by `FileKeys`, and a path that cannot be resolved counts as needed.
Source: Delta's `VacuumCommand`; PROTOCOL.md, Remove File (tombstones and their retention).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.protocol.actions import Protocol
from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER
from deltasnap_core.protocol.table_features import CATALOG_MANAGED, is_catalog_managed
from deltasnap_core.protocol.writer_features import CHECKPOINT_WRITER_FEATURES, has_unknown_writer_features
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.rules.texts.sql_text import timestamp_sql
from deltasnap_core.scan.files.file_keys import FileKeys, normal_path, spellings
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.named_files import OUTSIDE, named_files
from deltasnap_core.scan.version import ReferencedFiles
from deltasnap_core.storage.folder_listing import FolderListing, roots_of
from deltasnap_core.storage.urls import join_url

_LISTED = pa.schema(
    [
        *(("path", pa.string()), ("kept", pa.string()), ("listed_size", pa.int64()), ("modified_at", pa.int64())),
        ("spellings", pa.list_(pa.string())),
    ]
)
_FILE = "path", "kept", "listed_size", "modified_at"
# own: whether the own version reads a file as data (false: as a deletion vector; null: it does not).
_NEED = "deleted_at", "if(is_own, is_data, null) as own"
_NO_NEED = "cast(null as bigint) as deleted_at", "cast(null as boolean) as own"
_NO_FILE = (
    *(f"cast(null as string) as {name}" for name in _FILE[:2]),
    *(f"cast(null as bigint) as {name}" for name in (*_FILE[2:], "size")),
)
CHANGE_DATA, _CONVERTED = "_change_data", "metadata"

HIDDEN, LINKED, NESTED = "hidden: VACUUM ignores it", "a symbolic link leads to it", "in a folder of another table"
SAME_NAME = "the log names a file of this name by another path"
UNRESOLVED_NAMES = "the log names a file that cannot be resolved"
LOG_IS_GONE = "the log is gone: other versions may need it"
CATALOG_IS_UNKNOWN = "a catalog manages the table, and was not queried: its unpublished commits may need it"
UNKNOWN_FEATURES = "the table has writer features that deltasnap does not know: they may need it"
LIVE_FILE, IN_FORCE = "live file", "tombstone has not expired"
YOUNG_TOMBSTONE = "expired tombstone, but the file is younger than the retention"
UNKNOWN_AGE = "orphan of unknown age"


def why_unread(protocol: Protocol | None, *, is_catalog_known: bool) -> str | None:
    """Return why the log does not show every file that is needed; None: it does. protocol: of the newest version.

    Source: PROTOCOL.md, Catalog-managed tables (unpublished commits); Vacuum Protocol Check (VACUUM needs support for
    all writer features).
    """
    if is_catalog_managed(protocol) and not is_catalog_known:
        return CATALOG_IS_UNKNOWN
    known = CHECKPOINT_WRITER_FEATURES | CATALOG_MANAGED
    return UNKNOWN_FEATURES if protocol and has_unknown_writer_features(protocol, known=known) else None


def vacuum_candidates(
    table: ScannedTable,
    named: ReferencedFiles,
    *,
    now_ms: int,
    listing: FolderListing | None = None,
    cache: StateCache | None = None,
) -> DataFrame:
    """Return the files that no version within the retention needs, and those protected only for another reason.

    named: of every version that is retained, with the retention. listing: None: report only files that the log names.
    cache: as for `named_files`.
    """
    keys = FileKeys(roots_of(table.table_path) if listing is None else listing.roots)
    names, unknown = named_files(table, keys, needed_files(named, now_ms), cache)
    if listing is None:
        shown = names.selectExpr(*_NEED, "keys", *_shown(keys))
        entries = shown.selectExpr("deleted_at", "own", *_FILE, "size", _places(keys.of_name("path")))
    else:
        entries = listed_entries(names, listed_files(table, keys, listing))
    candidates = files_with_reasons(entries, unknown, named, now_ms).where(
        f"kept is distinct from '{HIDDEN}' and (deleted_at is not null or (live is null and modified_at is not null))"
    )
    return candidates.selectExpr(
        *("path", "reason", "reason not in ('expired tombstone', 'orphan') as protected"),
        *("size", f"{timestamp_sql('nullif(deleted_at, 0L)')} as deletion_timestamp"),
        f"{timestamp_sql('modified_at')} as modification_time",
    )


def needed_files(named: ReferencedFiles, now_ms: int) -> ReferencedFiles:
    """Return the files with only the change data of versions within the retention: VACUUM deletes it by its age."""
    recent = [each for each in named.change_data if each[2] > now_ms - named.retention_ms]
    return replace(named, change_data=recent)


def listed_files(table: ScannedTable, keys: FileKeys, listing: FolderListing) -> DataFrame:
    """Return the listed files: path (relative), kept (why VACUUM keeps it), listed_size, modified_at, keys, names."""
    spelled = {"keys": keys.of_listed("spelled"), "names": keys.of_name("spelled")}
    found = (f"transform(spellings, spelled -> {sql}) as {name}" for name, sql in spelled.items())
    return arrow_rows(table.spark, _listed(table, listing)).selectExpr(*_FILE, *found)


def listed_entries(names: DataFrame, listed: DataFrame) -> DataFrame:
    """Return the entries (see `files_with_reasons`) of listed files and of the names in the log."""
    needs = names.selectExpr(*_NEED, *_NO_FILE, "explode(keys) as key", "cast(null as int) as by_name")
    columns = (*_NO_NEED, *_FILE, "cast(null as bigint) as size")
    by_key = listed.selectExpr(*columns, "explode(keys) as key", "0 as by_name")
    by_name = listed.selectExpr(*columns, "explode(names) as key", "1 as by_name")
    return needs.unionByName(by_key).unionByName(by_name)


def files_with_reasons(entries: DataFrame, unknown: DataFrame, named: ReferencedFiles, now_ms: int) -> DataFrame:
    """Return a row for each file: the columns of _FILE, size, live, own, deleted_at, named, reason (why it is kept).

    entries: the files by key (by_name: 0) and by name (1), and what the log says about a key (null). unknown: as
    `named_files` returns it. live, own, deleted_at: null: no version of the log, not the own one, none has removed it.
    named: a needed file has the same name.

    One pass over the names: what the log says about a key is joined to the files with that key.
    """
    before = now_ms - named.retention_ms
    is_unknown = unknown.agg(F.expr(f"coalesce(bool_or({_is_needed(before)}), false) as is_unknown"))
    of_key = ("bool_or", "deleted_at is null", "live"), ("bool_or", "own", "own"), ("max", "deleted_at", "deleted_at")
    facts = entries.selectExpr(
        *(*_FILE, "size", "by_name"),
        *(
            f"{sum_}(if(by_name is null, {value}, null)) over (partition by key) as {name}"
            for sum_, value, name in of_key
        ),
    ).where("by_name is not null")
    of_file = (f"{sum_}(if(by_name = 0, {name}, null)) as {name}" for sum_, _, name in of_key)
    is_named = f"coalesce(bool_or(by_name = 1 and {_is_needed(before)}), false) as named"
    size = "coalesce(listed_size, max(size)) as size"
    files = aggregated(facts, _FILE, *map(F.expr, (size, *of_file, is_named))).crossJoin(is_unknown)
    return files.selectExpr("*", f"{_reason(before, unread=named.unread)} as reason")


def _reason(before: int, *, unread: str | None) -> str:
    # A tombstone without a time counts as one of 1970. A file without a time has no comparable age. At the limit, Delta
    # counts a tombstone as expired, and a file as too young.
    cases = (
        ("live", LIVE_FILE),
        (f"deleted_at > {before}L", IN_FORCE),
        ("kept is not null", None),
        ("named", SAME_NAME),
        ("is_unknown", UNRESOLVED_NAMES),
        ("false" if unread is None else "true", unread or ""),
        (f"deleted_at is not null and modified_at >= {before}L", YOUNG_TOMBSTONE),
        ("deleted_at is not null", "expired tombstone"),
        ("modified_at = 0L", UNKNOWN_AGE),
        (f"modified_at >= {before}L", "orphan younger than the retention"),
    )
    branches = " ".join(f"when {case} then {'kept' if reason is None else repr(reason)}" for case, reason in cases)
    return f"case {branches} else 'orphan' end"


def _is_needed(before: int) -> str:
    return f"(live or deleted_at > {before}L)"


def _shown(keys: FileKeys) -> tuple[str, ...]:
    """Return SQL for the columns of _FILE, and the size, of a path that the log names."""
    return (
        f"coalesce({keys.shown('path')}, '') as path",
        f"if({keys.is_inside('path')}, cast(null as string), '{OUTSIDE}') as kept",
        *("cast(null as bigint) as listed_size", "cast(null as bigint) as modified_at", "size"),
    )


def _places(name: str) -> str:
    """Return SQL for the rows of a path that the log names: each of its keys, and as a file its key and its name."""
    keys = "transform(keys, each -> struct(each as key, cast(null as int) as by_name))"
    own = f"array(struct(keys[0] as key, 0 as by_name), struct({name} as key, 1 as by_name))"
    return f"inline(flatten(array({keys}, {own})))"


def _listed(table: ScannedTable, listing: FolderListing) -> pa.Table:
    root = join_url(table.table_path, "")
    files = {file.path.removeprefix(root): file for file in listing.files}
    nested = {path.partition(f"/{LOG_FOLDER}/")[0] for path in files if f"/{LOG_FOLDER}/" in path}
    roots = [f"{normal_path(root)}/" for root in listing.roots]
    targets = [f"{normal_path(target)}/" for target in listing.link_targets]
    below = (target.removeprefix(root) for target in targets for root in roots if target.startswith(root))
    linked = {path.removesuffix("/") for path in below}
    if any(root.startswith(target) for target in targets for root in roots):
        linked.add("")  # a link to the table's folder, or to a folder above it
    rows = []
    for path, file in files.items():
        names = spellings(path)
        kept = None
        if not names or _is_hidden(path, table.metadata.partition_columns):
            kept = HIDDEN
        elif _is_below(path, nested):
            kept = NESTED
        elif _is_below(path.lower().replace("\\", "/"), linked):
            kept = LINKED
        shown = path if names else path.encode("utf-8", "backslashreplace").decode()
        row = {"path": shown, "kept": kept, "listed_size": file.size, "modified_at": file.modification_time}
        rows.append({**row, "spellings": names or [""]})  # no log can name a file whose name is not UTF-8
    return pa.Table.from_pylist(rows, _LISTED)


def _is_hidden(path: str, partition_columns: Sequence[str]) -> bool:
    """Return whether VACUUM ignores a file: it is hidden or in a hidden folder, unless that is a partition."""
    parts = path.split("/")
    if parts[0] in (LOG_FOLDER, "") or _CONVERTED in parts:
        return True
    partitions = tuple(f"{name}=" for name in partition_columns)
    return any(
        part.startswith((".", "_")) and part != CHANGE_DATA and not part.startswith(partitions) for part in parts
    )


def _is_below(path: str, folders: Set[str]) -> bool:
    """Return whether a path is one of the folders, or lies below one; every path lies below the empty one."""
    if not folders:
        return False
    parts = path.split("/")
    return "" in folders or any("/".join(parts[:depth]) in folders for depth in range(1, len(parts) + 1))
