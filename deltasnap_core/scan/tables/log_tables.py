"""The metadata tables that need only a listing of the log: versions and log files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol.log_files.file_names import ParsedLogPath
from deltasnap_core.replay.spark.session.local_rows import local_rows
from deltasnap_core.rules.texts.sql_text import timestamp_sql
from deltasnap_core.storage.log_store import FileStatus

_VERSIONS = StructType(
    [
        StructField("version", LongType()),
        StructField("ms", LongType()),
        StructField("has_commit", BooleanType()),
        StructField("has_checkpoint", BooleanType()),
        StructField("loadable", BooleanType()),
        StructField("why_not", StringType()),
    ]
)
_LOG_FILES = StructType(
    [
        StructField("path", StringType()),
        StructField("kind", StringType()),
        StructField("version", LongType()),
        StructField("size", LongType()),
        StructField("ms", LongType()),
        StructField("in_segment", BooleanType()),
    ]
)


def versions_table(spark: SparkSession, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Return `MetadataTables.versions` from rows with its columns; the time is `ms` since the epoch."""
    frame = local_rows(spark, rows, _VERSIONS)
    return frame.selectExpr(
        "version", f"{timestamp_sql('ms')} as timestamp", "has_commit", "has_checkpoint", "loadable", "why_not"
    )


def listed_versions(listing: LogListing, timestamps: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    """Yield the rows of `versions_table` from a listing of a whole log. timestamps: ms by version."""
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


def log_files_table(spark: SparkSession, files: Iterable[FileStatus], segment: LogSegment) -> DataFrame:
    """Return `MetadataTables.log_files` from listed files. Unknown files are left out."""
    read = {file.path for file in (*segment.deltas, *segment.checkpoint_provider.files)}
    read |= {file.path for file in (segment.checksum_file, segment.last_commit_file) if file is not None}
    rows = local_rows(spark, _log_files(files, read), _LOG_FILES)
    return rows.selectExpr(
        "path", "kind", "version", "size", f"{timestamp_sql('ms')} as modification_time", "in_segment"
    )


def _log_files(files: Iterable[FileStatus], read: Collection[str]) -> Iterator[dict[str, Any]]:
    for file in files:
        parsed = ParsedLogPath.parse(file.name)
        if parsed is not None:
            yield {
                "path": file.path,
                "kind": parsed.kind.value,
                "version": parsed.version,
                "size": file.size,
                "ms": file.modification_time,
                "in_segment": file.path in read,
            }


def _why_not(version: int, listing: LogListing, start: int) -> str:
    missing = next(needed for needed in range(start + 1, version + 1) if needed not in listing.commits)
    begin = "no checkpoint before it" if start < 0 else f"the checkpoint of version {start} before it"
    return f"the commit of version {missing} is missing, and there is {begin}"
