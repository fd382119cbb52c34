"""Values of the core as Dagster metadata. Numbers stay numbers, so that Dagster plots them over versions.

A log can contain any text. Text is truncated and escaped here. A value that cannot be shown becomes a note; this module
does not raise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from itertools import islice
from typing import ParamSpec

import dagster as dg
from pyspark.sql.types import StructType

from deltasnap_assets.provenance import made_by, made_how
from deltasnap_assets.quantities import bytes_text
from deltasnap_assets.runs.planning.names import GENERATION
from deltasnap_assets.tables.pages.column_schema import clustering_columns, table_schema
from deltasnap_assets.texts import markdown_code, visible
from deltasnap_core import (
    CommitInfo,
    DeltaSnapError,
    LogSegment,
    Metadata,
    Protocol,
    SnapshotState,
    VersionManifest,
)
from deltasnap_core.support import ChangedFile, parse_schema

Entries = dict[str, dg.MetadataValue]

_MAX_PARTS = 100
_MAX_LEVELS = 10
_MAX_NUMBER = 1 << 63

_FILE_COLUMNS: Mapping[str, str] = {
    "path": "The data file: relative to the table's folder or a URI, with percent escapes as in the log.",
    "partitionValues": "The value of each partition column, as text; null for SQL's NULL.",
    "size": "The size of the file in bytes.",
    "modificationTime": "When the file was written, in ms since the epoch.",
    "deletionTimestamp": "When the file was removed, in ms since the epoch. Its retention starts then.",
    "dataChange": "False: the commit only rearranged existing rows, as OPTIMIZE does, or a checkpoint has the file.",
    "extendedFileMetadata": "Whether partitionValues, size and tags are set.",
    "stats": "Statistics of the file as JSON: the number of records; minimum, maximum and null count by column.",
    "tags": "Tags that the writer set on the file.",
    "deletionVector": "The deletion vector: which rows of the file are deleted; null: none.",
    "baseRowId": "The row id of the first row, where row tracking is enabled.",
    "defaultRowCommitVersion": "The version that committed the rows, unless a row has its own (row tracking).",
    "clusteringProvider": "The clustering provider of the file; null: not clustered.",
}
"""The descriptions of the columns of `all_files` and `tombstones`. Source: PROTOCOL.md, Add File and Remove File."""

P = ParamSpec("P")


def noting_problems(make: Callable[P, Entries]) -> Callable[P, Entries]:
    """Wrap a function that returns metadata: if it fails, return a note with the reason, so the asset does not fail."""

    @wraps(make)
    def noting(*args: P.args, **kwargs: P.kwargs) -> Entries:
        try:
            return make(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # Dagster's types can raise any exception
            what = make.__name__.strip("_")
            reason = (
                str(error) if isinstance(error, ValueError | DeltaSnapError) else f"{type(error).__name__}: {error}"
            )
            return {f"{what}_problem": text_value(f"cannot be shown: {reason}")}

    return noting


@noting_problems
def log_segment_metadata(segment: LogSegment) -> Entries:
    """Return the files to read for a version. `modified_at`: of the last file, as no commit is read here."""
    checkpoint = segment.checkpoint_provider
    return {
        "version": text_value(f"{segment.version}"),
        "modified_at": time_value(segment.last_commit_timestamp),
        "commits_since_checkpoint": dg.MetadataValue.int(len(segment.deltas)),
        "checkpoint_version": _optional_text(None if checkpoint.is_empty else f"{checkpoint.version}"),
        "checkpoint_kind": _optional_text(checkpoint.kind),
        "files_to_read": dg.MetadataValue.int(len(segment.files)),
        "dagster/size_bytes": dg.MetadataValue.int(segment.size_in_bytes),
        "compactions": _plotted_unless_zero(len(segment.compactions)),
        "has_checksum": dg.MetadataValue.bool(segment.checksum_file is not None),
        "dagster/uri": text_value(segment.log_path),
    }


@noting_problems
def commit_metadata(commit: CommitInfo | None) -> Entries:
    """Return who made a version and how; empty if its commit is gone or has no such information."""
    if commit is None:
        return {}
    texts = {
        "operation": commit.operation,
        **made_by(commit),
        **made_how(commit),
        "user_metadata": commit.user_metadata,
    }
    return {name: text_value(text) for name, text in texts.items() if text}


@noting_problems
def operation_metadata(commit: CommitInfo | None) -> Entries:
    """Return the parameters and metrics of the operation that made a version, as the writer recorded them."""
    if commit is None:
        return {}
    objects = {"operation_parameters": commit.operation_parameters, "operation_metrics": commit.operation_metrics}
    return {name: dg.MetadataValue.json(_decoded(values)) for name, values in objects.items() if values}


@noting_problems
def stored_metadata(manifest: VersionManifest) -> Entries:
    """Return the changes of a version, and its size in the store."""
    entries: Entries = {"committed_at": time_value(manifest.timestamp)}
    if (changes := manifest.version_changes) is not None:
        entries |= {
            "added_bytes": dg.MetadataValue.int(changes.added_bytes),
            "added_files": dg.MetadataValue.int(changes.num_added_files),
            "removed_bytes": dg.MetadataValue.int(changes.removed_bytes),
            "removed_files": dg.MetadataValue.int(changes.num_removed_files),
        }
    stored_as = text_value(f"{manifest.change_rows:,} changes since the base at version {manifest.base.last}")
    entries |= computed_by_metadata(manifest)
    return entries | {"stored_as": stored_as, GENERATION: text_value(manifest.generation)}


def computed_by_metadata(manifest: VersionManifest) -> Entries:
    """Return the engine that computed a version; empty if an earlier release stored it."""
    return {} if manifest.computed_by is None else {"computed_by": text_value(manifest.computed_by)}


@noting_problems
def sample_metadata(files: Sequence[ChangedFile]) -> Entries:
    """Return a sample of the files that a commit added and removed."""
    if not files:
        return {}
    rows = [
        (file.change, markdown_code(file.path), "" if file.size is None else bytes_text(file.size)) for file in files
    ]
    return {"sample_of_changes": dg.MetadataValue.md(markdown_table(("", "file", "size"), rows))}


@noting_problems
def computed_state_metadata(state: SnapshotState) -> Entries:
    """Return the numbers of a version, the most important first, its protocol, schema and properties.

    Dagster orders its plots by name. The names are chosen so that this order is also the order of importance.
    """
    entries: Entries = {
        "num_of_files": dg.MetadataValue.int(state.num_of_files),
        "size_in_bytes": dg.MetadataValue.int(state.size_in_bytes),
        "size_per_file": dg.MetadataValue.int(state.size_in_bytes // max(state.num_of_files, 1)),
        "tombstones": dg.MetadataValue.int(state.num_of_removes),
        "num_of_set_transactions": dg.MetadataValue.text(f"{state.num_of_set_transactions:,}"),
        "num_of_domains": dg.MetadataValue.text(f"{len(state.domain_metadata):,}"),
        "num_deletion_vectors": _plotted_unless_zero(state.num_deletion_vectors),
        "num_deleted_records": _plotted_unless_zero(state.num_deleted_records),
    }
    if state.num_live_records is not None:
        entries = {"num_records": dg.MetadataValue.int(state.num_live_records), **entries}
    if state.protocol is not None:
        entries |= protocol_metadata(state.protocol)
    if state.metadata is not None:
        entries |= table_metadata(state.metadata) | clustering_metadata(state)
    return entries


@noting_problems
def clustering_metadata(state: SnapshotState) -> Entries:
    """Return the clustering columns of a version; empty: it has none."""
    columns = clustering_columns(state)
    return {"clustered_by": text_value(", ".join(columns))} if columns else {}


@noting_problems
def all_files_metadata(state: SnapshotState) -> Entries:
    """Return the number of live files, and their total size."""
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(state.num_of_files),
        "size_in_bytes": dg.MetadataValue.int(state.size_in_bytes),
    }


@noting_problems
def tombstones_metadata(state: SnapshotState) -> Entries:
    """Return the number of tombstones."""
    return {"dagster/partition_row_count": dg.MetadataValue.int(state.num_of_removes)}


@noting_problems
def protocol_metadata(protocol: Protocol) -> Entries:
    """Return the protocol versions and features that a table requires."""
    features = sorted(protocol.features)
    return {
        "min_reader_version": dg.MetadataValue.text(str(protocol.min_reader_version)),
        "min_writer_version": dg.MetadataValue.text(str(protocol.min_writer_version)),
        **({"table_features": text_value(", ".join(features))} if features else {}),
    }


@noting_problems
def table_metadata(metadata: Metadata) -> Entries:
    """Return the id, the schema, the partitioning and the properties of a table."""
    entries = {"table_id": text_value(metadata.id), **_schema_metadata(metadata)}
    if metadata.partition_columns:
        entries["partition_columns"] = text_value(", ".join(metadata.partition_columns))
    if metadata.configuration:
        entries["properties"] = dg.MetadataValue.json(_bounded_object(metadata.configuration))
    return entries


@noting_problems
def _schema_metadata(metadata: Metadata) -> Entries:
    schema = parse_schema(metadata.schema_string)
    return {
        "num_columns": dg.MetadataValue.text(f"{len(schema.fields):,}"),
        "dagster/column_schema": table_schema(metadata),
    }


def file_columns(schema: StructType) -> dg.TableSchemaMetadataValue:
    """Return the schema of `all_files` or `tombstones` as Dagster's column schema."""
    columns = [
        dg.TableColumn(
            name=field.name,
            type=field.dataType.simpleString(),
            description=_FILE_COLUMNS[field.name],
            constraints=dg.TableColumnConstraints(nullable=field.nullable),
        )
        for field in schema.fields
    ]
    return dg.MetadataValue.table_schema(dg.TableSchema(columns=columns))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Cells are Markdown: pass texts from a log through `markdown_code` or `markdown_text`."""
    lines = [header, ["-"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def text_value(text: str) -> dg.MetadataValue:
    """Return a text from a log for display: truncated, escaped, without credentials."""
    return dg.MetadataValue.text(visible(text))


def time_value(timestamp_ms: int) -> dg.MetadataValue:
    """Return a time; the number of ms if it is outside the calendar's range."""
    try:
        return dg.MetadataValue.timestamp(datetime.fromtimestamp(timestamp_ms / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return dg.MetadataValue.int(timestamp_ms)


def _decoded(values: Mapping[str, str | None]) -> dict[str, object]:
    """Decode operation parameters and metrics that contain JSON. Numbers and lists are then easier to read."""
    return _bounded_object({name: _decoded_text(text) for name, text in values.items()})


def _decoded_text(text: str | None) -> object:
    try:
        # NaN and infinity cannot be written as JSON.
        return text if text is None else json.loads(text, parse_constant=str)
    except (ValueError, TypeError, RecursionError):
        return text


def _bounded_object(values: Mapping[str, object], depth: int = 0) -> dict[str, object]:
    """Return a JSON object, truncated for display and limited in depth, because Dagster writes JSON recursively."""
    kept = {visible(name): _bounded(part, depth + 1) for name, part in islice(values.items(), _MAX_PARTS)}
    left_out = len(values) - len(kept)
    return {**kept, "...": f"and {left_out:,} more"} if left_out else kept


def _bounded(value: object, depth: int) -> object:
    match value:
        case None | bool():
            return value
        case int() | float() if abs(value) < _MAX_NUMBER:
            return value
        case Mapping() if depth < _MAX_LEVELS:
            return _bounded_object(value, depth)
        case list() if depth < _MAX_LEVELS:
            parts = [_bounded(part, depth + 1) for part in value[:_MAX_PARTS]]
            return [*parts, f"and {len(value) - len(parts):,} more"] if len(value) > len(parts) else parts
        case Mapping() | list():
            return "..."
        case _:
            return visible(str(value))


def _plotted_unless_zero(number: int) -> dg.MetadataValue:
    """Return a number that is zero for most tables. Zero becomes text, so that Dagster does not plot a flat line."""
    return dg.MetadataValue.int(number) if number else dg.MetadataValue.text("0")


def _optional_text(value: str | None) -> dg.MetadataValue:
    return dg.MetadataValue.null() if value is None else text_value(value)
