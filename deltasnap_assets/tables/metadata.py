"""Values of the core as Dagster metadata. Numbers stay numbers, so that Dagster plots them over versions.

A log may hold anything: texts are bounded and escaped here, and what cannot be shown at all is a note, never an error.
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

from deltasnap_assets.tables.byte_units import bytes_text
from deltasnap_assets.tables.table_columns import table_schema
from deltasnap_assets.texts import markdown_code, visible, without_secrets
from deltasnap_core import (
    ChangedFile,
    CommitInfo,
    DeltaSnapError,
    LogSegment,
    Metadata,
    Protocol,
    SnapshotState,
    VersionManifest,
    parse_schema,
)

Entries = dict[str, dg.MetadataValue]

_MOST_PARTS = 100
_MOST_LEVELS = 10
_MOST_OF_A_NUMBER = 1 << 63

P = ParamSpec("P")


def _noting_problems(make: Callable[P, Entries]) -> Callable[P, Entries]:
    """Make metadata that cannot be made a note of why: what a version says must not fail what it is."""

    @wraps(make)
    def noting(*args: P.args, **kwargs: P.kwargs) -> Entries:
        try:
            return make(*args, **kwargs)
        except Exception as error:  # noqa: BLE001  # Dagster's own types raise what they like
            what = make.__name__.strip("_")
            said = str(error) if isinstance(error, ValueError | DeltaSnapError) else f"{type(error).__name__}: {error}"
            return {f"{what}_problem": text_value(f"cannot be shown: {said}")}

    return noting


@_noting_problems
def log_segment_metadata(segment: LogSegment) -> Entries:
    """What has to be read for a version."""
    checkpoint = segment.checkpoint_provider
    files = (*checkpoint.files, *segment.deltas)
    return {
        "version": text_value(f"{segment.version}"),
        "committed_at": time_value(segment.last_commit_timestamp),
        "commits_since_checkpoint": dg.MetadataValue.int(len(segment.deltas)),
        "checkpoint_version": _optional_text(None if checkpoint.is_empty else f"{checkpoint.version}"),
        "checkpoint_kind": _optional_text(checkpoint.kind),
        "files_to_read": dg.MetadataValue.int(len(files)),
        "dagster/size_bytes": dg.MetadataValue.int(sum(file.size for file in files)),
        "compactions": _plotted_unless_zero(len(segment.compactions)),
        "has_checksum": dg.MetadataValue.bool(segment.checksum_file is not None),
        "dagster/uri": text_value(segment.log_path),
    }


@_noting_problems
def commit_metadata(commit: CommitInfo | None) -> Entries:
    """Who made a version and with what; nothing where its commit is gone or says nothing."""
    if commit is None:
        return {}
    texts = {
        "operation": commit.operation,
        "user": commit.user_name or commit.user_id,
        "engine": commit.engine_info,
        "user_metadata": commit.user_metadata,
    }
    return {name: text_value(text) for name, text in texts.items() if text}


@_noting_problems
def operation_metadata(commit: CommitInfo | None) -> Entries:
    """The parameters and metrics of the operation that made a version, as the writer told them."""
    if commit is None:
        return {}
    objects = {"operation_parameters": commit.operation_parameters, "operation_metrics": commit.operation_metrics}
    return {name: dg.MetadataValue.json(_decoded(values)) for name, values in objects.items() if values}


@_noting_problems
def stored_metadata(manifest: VersionManifest) -> Entries:
    """What a version changed, and what it takes in the store."""
    entries: Entries = {"committed_at": time_value(manifest.timestamp)}
    if (changes := manifest.version_changes) is not None:
        entries |= {
            "added_bytes": dg.MetadataValue.int(changes.added_bytes),
            "added_files": dg.MetadataValue.int(changes.num_added_files),
            "removed_bytes": dg.MetadataValue.int(changes.removed_bytes),
            "removed_files": dg.MetadataValue.int(changes.num_removed_files),
        }
    return (
        entries
        | computed_by_metadata(manifest)
        | {
            "stored_as": text_value(
                f"{manifest.change_rows:,} changes to the whole state of version {manifest.base.last}"
            )
        }
    )


def computed_by_metadata(manifest: VersionManifest) -> Entries:
    """What computed a version: Spark, or the driver; nothing for one that an earlier release stored."""
    return {} if manifest.computed_by is None else {"computed_by": text_value(manifest.computed_by)}


@_noting_problems
def sample_metadata(files: Sequence[ChangedFile]) -> Entries:
    """Some of the files that a commit added and removed."""
    if not files:
        return {}
    rows = [
        (file.change, markdown_code(without_secrets(file.path)), "" if file.size is None else bytes_text(file.size))
        for file in files
    ]
    return {"sample_of_changes": dg.MetadataValue.md(markdown_table(("", "file", "size"), rows))}


@_noting_problems
def computed_state_metadata(state: SnapshotState) -> Entries:
    """The numbers of a version, those that matter most first, its protocol, schema and properties.

    Dagster orders its plots by name: these names are in the order of what they tell.
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
    if state.num_records is not None:
        records = dg.MetadataValue.int(state.num_records - state.num_deleted_records)
        entries = {"num_records": records, **entries}
    if state.protocol is not None:
        entries |= protocol_metadata(state.protocol)
    if state.metadata is not None:
        entries |= table_metadata(state.metadata)
    return entries


@_noting_problems
def all_files_metadata(state: SnapshotState) -> Entries:
    """How many rows the live files are, and how much they hold."""
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(state.num_of_files),
        "size_in_bytes": dg.MetadataValue.int(state.size_in_bytes),
    }


@_noting_problems
def tombstones_metadata(state: SnapshotState) -> Entries:
    """How many rows the tombstones are."""
    return {"dagster/partition_row_count": dg.MetadataValue.int(state.num_of_removes)}


@_noting_problems
def protocol_metadata(protocol: Protocol) -> Entries:
    """The versions and features that a table asks for."""
    features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    return {
        "min_reader_version": dg.MetadataValue.text(str(protocol.min_reader_version)),
        "min_writer_version": dg.MetadataValue.text(str(protocol.min_writer_version)),
        **({"table_features": text_value(", ".join(features))} if features else {}),
    }


@_noting_problems
def table_metadata(metadata: Metadata) -> Entries:
    """The id, the schema, the partitioning and the properties of a table."""
    entries = {"table_id": text_value(metadata.id), **_schema_metadata(metadata)}
    if metadata.partition_columns:
        entries["partition_columns"] = text_value(", ".join(metadata.partition_columns))
    if metadata.configuration:
        entries["properties"] = dg.MetadataValue.json(_bounded_object(metadata.configuration))
    return entries


@_noting_problems
def _schema_metadata(metadata: Metadata) -> Entries:
    schema = parse_schema(metadata.schema_string)
    return {
        "num_columns": dg.MetadataValue.text(f"{len(schema.fields):,}"),
        "dagster/column_schema": table_schema(metadata),
    }


def column_schema(schema: StructType, descriptions: Mapping[str, str]) -> dg.TableSchemaMetadataValue:
    """Return a schema of the core as Dagster shows columns. descriptions: of each column, by name."""
    columns = [
        dg.TableColumn(
            name=field.name,
            type=field.dataType.simpleString(),
            description=descriptions[field.name],
            constraints=dg.TableColumnConstraints(nullable=field.nullable),
        )
        for field in schema.fields
    ]
    return dg.MetadataValue.table_schema(dg.TableSchema(columns=columns))


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table. Cells are Markdown: what a log says comes as `markdown_code` or `markdown_text`."""
    lines = [header, ["-"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def text_value(text: str) -> dg.MetadataValue:
    """Return what a log says as text to show: bounded, escaped, without credentials."""
    return dg.MetadataValue.text(visible(without_secrets(text)))


def time_value(timestamp_ms: int) -> dg.MetadataValue:
    """A time; the bare number of ms where a log's clock was beyond any calendar."""
    try:
        return dg.MetadataValue.timestamp(datetime.fromtimestamp(timestamp_ms / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return dg.MetadataValue.int(timestamp_ms)


def _decoded(values: Mapping[str, str | None]) -> dict[str, object]:
    """Operation parameters and metrics are texts, often of JSON: numbers and lists read better as such."""

    def decode(text: str | None) -> object:
        try:
            # Of NaN and the like no JSON can be made again.
            return text if text is None else json.loads(text, parse_constant=str)
        except (ValueError, TypeError, RecursionError):
            return text

    return _bounded_object({name: decode(text) for name, text in values.items()})


def _bounded_object(values: Mapping[str, object], depth: int = 0) -> dict[str, object]:
    """Return an object of JSON cut to what a person looks at, and to what Dagster takes: it writes JSON recursively."""
    kept = {visible(name): _bounded(part, depth + 1) for name, part in islice(values.items(), _MOST_PARTS)}
    left_out = len(values) - len(kept)
    return {**kept, "...": f"and {left_out:,} more"} if left_out else kept


def _bounded(value: object, depth: int) -> object:
    match value:
        case None | bool():
            return value
        case int() | float() if abs(value) < _MOST_OF_A_NUMBER:
            return value
        case Mapping() if depth < _MOST_LEVELS:
            return _bounded_object(value, depth)
        case list() if depth < _MOST_LEVELS:
            parts = [_bounded(part, depth + 1) for part in value[:_MOST_PARTS]]
            return [*parts, f"and {len(value) - len(parts):,} more"] if len(value) > len(parts) else parts
        case Mapping() | list():
            return "..."
        case _:
            return visible(without_secrets(str(value)))


def _plotted_unless_zero(number: int) -> dg.MetadataValue:
    """A number that is zero for most tables: as text, so that Dagster has no flat line to plot."""
    return dg.MetadataValue.int(number) if number else dg.MetadataValue.text("0")


def _optional_text(value: str | None) -> dg.MetadataValue:
    return dg.MetadataValue.null() if value is None else text_value(value)
