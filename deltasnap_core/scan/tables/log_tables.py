"""The metadata tables that need only a listing of the log: versions and log files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol.log_files.file_names import ParsedLogPath
from deltasnap_core.rules.texts.sql_text import FIRST_MS, LAST_MS
from deltasnap_core.storage.log_store import FileStatus

_TIME = pa.timestamp("us", tz="UTC")
VERSIONS = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", _TIME),
        ("has_commit", pa.bool_()),
        ("has_checkpoint", pa.bool_()),
        ("loadable", pa.bool_()),
        ("why_not", pa.string()),
    ]
)
"""The columns of `MetadataTables.versions`."""
LOG_FILES = pa.schema(
    [
        ("path", pa.string()),
        ("kind", pa.string()),
        ("version", pa.int64()),
        ("size", pa.int64()),
        ("modification_time", _TIME),
        ("in_segment", pa.bool_()),
    ]
)
"""The columns of `MetadataTables.log_files`."""


def versions_rows(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return `MetadataTables.versions` in Arrow (VERSIONS). rows: as of `listed_versions`."""
    return pa.Table.from_pylist([{**row, "timestamp": _time(row["ms"])} for row in rows], VERSIONS)


def listed_versions(listing: LogListing, timestamps: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    """Yield rows of versions from a listing of a whole log, with the time as `ms` since the epoch.

    timestamps: ms by version.
    """
    loadable = set(listing.reconstructable_versions())
    checkpoints = {checkpoint.version for checkpoint in listing.checkpoints}
    start, why_not = -1, ""  # the last checkpoint before the version; why later versions cannot be loaded from it
    for version in sorted(checkpoints.union(listing.commits)):
        is_loadable = version in loadable
        if version in checkpoints:
            start, why_not = version, ""
        elif not is_loadable and not why_not:
            why_not = _why_not(version, listing, start)
        yield {
            "version": version,
            "ms": timestamps.get(version),
            "has_commit": version in listing.commits,
            "has_checkpoint": version in checkpoints,
            "loadable": is_loadable,
            "why_not": None if is_loadable else why_not,
        }


def log_files_rows(files: Iterable[FileStatus], segment: LogSegment) -> pa.Table:
    """Return `MetadataTables.log_files` in Arrow (LOG_FILES) from listed files. Unknown files are left out."""
    read = {file.path for file in (*segment.deltas, *segment.checkpoint_provider.files)}
    read |= {file.path for file in (segment.checksum_file, segment.last_commit_file) if file is not None}
    return pa.Table.from_pylist([*_log_files(files, read)], LOG_FILES)


def _log_files(files: Iterable[FileStatus], read: Collection[str]) -> Iterator[dict[str, Any]]:
    for file in files:
        parsed = ParsedLogPath.parse(file.name)
        if parsed is not None:
            yield {
                "path": file.path,
                "kind": parsed.kind.value,
                "version": parsed.version,
                "size": file.size,
                "modification_time": _time(file.modification_time),
                "in_segment": file.path in read,
            }


def _time(ms: int | None) -> int | None:
    """Return a time in µs; None: it is unknown, or outside of the years 1 to 9999."""
    return None if ms is None or not FIRST_MS <= ms <= LAST_MS else ms * 1000


def _why_not(version: int, listing: LogListing, start: int) -> str:
    missing = next(needed for needed in range(start + 1, version + 1) if needed not in listing.commits)
    begin = "no checkpoint before it" if start < 0 else f"the checkpoint of version {start} before it"
    return f"the commit of version {missing} is missing, and there is {begin}"
