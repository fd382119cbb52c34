"""The storage bill of a table: each file below its folder has one class. The classes of a bill add up to the listing.

`vacuum_candidates` alone decides which files may be deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.protocol.log_files.file_names import LOG_FOLDER
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.rules.texts.sql_text import exact_sum_sql, timestamp_sql
from deltasnap_core.scan.files.file_keys import FileKeys
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.named_files import named_files
from deltasnap_core.scan.tables.vacuum_candidates import (
    CHANGE_DATA,
    LIVE_FILE,
    files_with_reasons,
    listed_entries,
    listed_files,
    needed_files,
)
from deltasnap_core.scan.tables.vacuum_summary import EXPIRED
from deltasnap_core.scan.version import ReferencedFiles
from deltasnap_core.storage.folder_listing import FolderListing


class StorageClass(StrEnum):
    """Why a file is there."""

    LIVE = "live"
    """The version reads it."""
    VECTOR = "vector"
    """It has deletion vectors of live files."""
    TIME_TRAVEL = "time_travel"
    """An earlier version reads it. VACUUM keeps it for now."""
    EXPIRED = "expired"
    """Only versions before the retention read it: VACUUM may delete it now."""
    CHANGE_DATA = "change_data"
    """It is in the folder of the change data feed."""
    LOG = "log"
    """It is part of the log."""
    ORPHAN = "orphan"
    """No version reads it: it is left over from a failed write, or is no file of the table."""


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class StorageBill:
    """The bytes of the files below the folder of a table, by class. Without a listing, some are unknown (None).

    expires_ms: when (ms since the epoch) VACUUM may have freed all of `time_travel_bytes`; None: there are none, or
                it is unknown.
    deleted_records: rows of live files that a deletion vector marks as deleted: they are part of `live_bytes`.
    """

    version: int
    live_bytes: int
    vector_bytes: int | None
    time_travel_bytes: int
    expired_bytes: int
    change_data_bytes: int | None
    log_bytes: int
    orphan_bytes: int | None
    num_files: int | None
    expires_ms: int | None
    deleted_records: int

    @property
    def total_bytes(self) -> int | None:
        """The sum of the classes; None: some are unknown."""
        sizes = [getattr(self, f"{each}_bytes") for each in StorageClass]
        return None if None in sizes else sum(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedStorage:
    """The files below the folder of a table.

    keys: of these files. names: those of the log, as `named_files` returns them. listed: path (relative to the table),
    keys. files: path, class, size (bytes), modification_time, deletion_timestamp (timestamps; null: storage or the log
    does not state it, or the file was not removed).
    """

    table: ScannedTable
    keys: FileKeys
    names: DataFrame
    listed: DataFrame
    files: DataFrame

    @classmethod
    def of(
        cls, table: ScannedTable, named: ReferencedFiles, listing: FolderListing, now_ms: int, cache: StateCache | None
    ) -> ListedStorage:
        """Return the listed files. named: the first files are the live ones. cache: as for `named_files`."""
        keys = FileKeys(listing.roots)
        names, unknown = named_files(table, keys, needed_files(named, now_ms), cache)
        listed = listed_files(table, keys, listing)
        files = files_with_reasons(listed_entries(names, listed), unknown, named, now_ms).selectExpr(
            *("path", f"{_CLASS} as class", "size"),
            f"{timestamp_sql('nullif(modified_at, 0L)')} as modification_time",
            f"{timestamp_sql('if(own is null, nullif(deleted_at, 0L), null)')} as deletion_timestamp",
        )
        return cls(table=table, keys=keys, names=names, listed=listed.select("path", "keys"), files=files)


def by_path(listed: DataFrame, keyed: DataFrame, value: str) -> DataFrame:
    """Return a row for each listed file that `keyed` has: path, and an aggregate (SQL) of the rows with its keys.

    listed: as in ListedStorage.
    """
    return aggregated(listed.selectExpr("path", "explode(keys) as key").join(keyed, "key"), ["path"], F.expr(value))


def retained_files(candidates: DataFrame) -> DataFrame:
    """Return the class, size and deletion_timestamp of the files that only earlier versions read, as the log states it.

    candidates: as `vacuum_candidates` returns them without a listing.
    """
    of_class = f"if(reason = '{EXPIRED}', '{StorageClass.EXPIRED}', '{StorageClass.TIME_TRAVEL}') as class"
    return candidates.where(f"reason != '{LIVE_FILE}'").selectExpr(of_class, "size", "deletion_timestamp")


def storage_bill(
    version: int, state: SnapshotState, files: DataFrame, *, retention_ms: int, log_bytes: int | None
) -> StorageBill:
    """Return the bill of a version. state: its computed state.

    files: those of ListedStorage, or `retained_files`: then `log_bytes` are those of the log. One Spark job.
    """
    sums = (
        F.expr(f"{exact_sum_sql('size')} as bytes"),
        F.expr("count(1) as files"),
        F.expr("max(unix_millis(deletion_timestamp)) as deleted_at"),
    )
    groups = {StorageClass(row["class"]): row for row in aggregated(files, ["class"], *sums).toArrow().to_pylist()}
    found: dict[str, Any] = {
        f"{each}_bytes": int(groups[each]["bytes"]) if each in groups else 0 for each in StorageClass
    }
    last = groups[StorageClass.TIME_TRAVEL]["deleted_at"] if StorageClass.TIME_TRAVEL in groups else None
    if log_bytes is not None:
        unknown = (StorageClass.VECTOR, StorageClass.CHANGE_DATA, StorageClass.ORPHAN)
        found |= {f"{each}_bytes": None for each in unknown}
        found |= {"live_bytes": state.size_in_bytes, "log_bytes": log_bytes}
    return StorageBill(
        version=version,
        num_files=sum(group["files"] for group in groups.values()) if log_bytes is None else None,
        expires_ms=None if last is None else last + retention_ms,
        deleted_records=state.num_deleted_records or 0,
        **found,
    )


# The log and change data come by their folders. A file that is live, and also has a tombstone, is live: a delete wrote
# another deletion vector for it. A file without a name in UTF-8 is an orphan, since no log can name it.
_CLASS = f"""case
  when startswith(path, '{LOG_FOLDER}/') then '{StorageClass.LOG}'
  when own then '{StorageClass.LIVE}'
  when own is not null then '{StorageClass.VECTOR}'
  when startswith(path, '{CHANGE_DATA}/') then '{StorageClass.CHANGE_DATA}'
  when reason = '{EXPIRED}' then '{StorageClass.EXPIRED}'
  when live or deleted_at is not null then '{StorageClass.TIME_TRAVEL}'
  else '{StorageClass.ORPHAN}' end"""
