"""Values of the core as Dagster metadata. Numbers stay numbers, so that Dagster plots them over versions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg
from pyspark.sql.types import StructType

from deltasnap_assets.tables.byte_units import bytes_text
from deltasnap_core.log.commit_summary import ChangedFile
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.commit_info import CommitInfo
from deltasnap_core.protocol.file_size_histogram import FileSizeHistogram
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.table_schema import parse_schema
from deltasnap_core.store.manifest import VersionManifest

Entries = dict[str, dg.MetadataValue]

_BAR_WIDTH = 30
_BLOCK = "█"


def log_segment_metadata(segment: LogSegment) -> Entries:
    """What has to be read for a version."""
    checkpoint = segment.checkpoint_provider
    files = (*checkpoint.files, *segment.deltas)
    return {
        "version": dg.MetadataValue.int(segment.version),
        "committed_at": time_value(segment.last_commit_timestamp),
        "commits_since_checkpoint": dg.MetadataValue.int(len(segment.deltas)),
        "checkpoint_version": _optional_int(None if checkpoint.is_empty else checkpoint.version),
        "checkpoint_kind": _optional_text(checkpoint.kind),
        "files_to_read": dg.MetadataValue.int(len(files)),
        "dagster/size_bytes": dg.MetadataValue.int(sum(file.size for file in files)),
        "compactions": dg.MetadataValue.int(len(segment.compactions)),
        "has_checksum": dg.MetadataValue.bool(segment.checksum_file is not None),
        "dagster/uri": dg.MetadataValue.text(segment.log_path),
    }


def commit_metadata(commit: CommitInfo | None) -> Entries:
    """Who made a version, how and with what; nothing where its commit is gone or says nothing."""
    if commit is None:
        return {}
    texts = {
        "operation": commit.operation,
        "user": commit.user_name or commit.user_id,
        "engine": commit.engine_info,
        "user_metadata": commit.user_metadata,
    }
    objects = {"operation_parameters": commit.operation_parameters, "operation_metrics": commit.operation_metrics}
    return {
        **{name: dg.MetadataValue.text(text) for name, text in texts.items() if text},
        **{name: dg.MetadataValue.json(_decoded(values)) for name, values in objects.items() if values},
    }


def stored_metadata(manifest: VersionManifest) -> Entries:
    """What a version changed, and what it takes in the store."""
    entries: Entries = {
        "committed_at": time_value(manifest.timestamp),
        "base_version": dg.MetadataValue.int(manifest.base.last),
        "changes_since_base": dg.MetadataValue.int(manifest.change_rows),
    }
    if (changes := manifest.version_changes) is not None:
        entries |= {
            "num_added_files": dg.MetadataValue.int(changes.num_added_files),
            "num_removed_files": dg.MetadataValue.int(changes.num_removed_files),
            "added_bytes": dg.MetadataValue.int(changes.added_bytes),
            "removed_bytes": dg.MetadataValue.int(changes.removed_bytes),
        }
    return entries


def sample_metadata(files: Sequence[ChangedFile]) -> Entries:
    """Some of the files that a commit added and removed."""
    if not files:
        return {}
    rows = [(file.change, f"`{file.path}`", "" if file.size is None else bytes_text(file.size)) for file in files]
    return {"sample_of_changes": dg.MetadataValue.md(markdown_table(("", "file", "size"), rows))}


def computed_state_metadata(state: SnapshotState) -> Entries:
    """The numbers of a version, its protocol, schema and properties, and a picture of its file sizes."""
    entries: Entries = {
        "num_of_files": dg.MetadataValue.int(state.num_of_files),
        "size_in_bytes": dg.MetadataValue.int(state.size_in_bytes),
        "mean_file_bytes": dg.MetadataValue.int(state.size_in_bytes // max(state.num_of_files, 1)),
        "num_of_removes": dg.MetadataValue.int(state.num_of_removes),
        "num_of_set_transactions": dg.MetadataValue.int(state.num_of_set_transactions),
        "num_of_domains": dg.MetadataValue.int(len(state.domain_metadata)),
        "num_deletion_vectors": dg.MetadataValue.int(state.num_deletion_vectors),
        "num_deleted_records": dg.MetadataValue.int(state.num_deleted_records),
        "file_sizes": dg.MetadataValue.md(file_size_chart(state.file_size_histogram)),
    }
    if state.num_records is not None:
        entries["num_records"] = dg.MetadataValue.int(state.num_records - state.num_deleted_records)
    if state.protocol is not None:
        entries |= protocol_metadata(state.protocol)
    if state.metadata is not None:
        entries |= table_metadata(state.metadata)
    return entries


def all_files_metadata(state: SnapshotState) -> Entries:
    """How many rows the live files are, and how much they hold."""
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(state.num_of_files),
        "size_in_bytes": dg.MetadataValue.int(state.size_in_bytes),
    }


def tombstones_metadata(state: SnapshotState) -> Entries:
    """How many rows the tombstones are."""
    return {"dagster/partition_row_count": dg.MetadataValue.int(state.num_of_removes)}


def protocol_metadata(protocol: Protocol) -> Entries:
    """The versions and features that a table asks for."""
    features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    return {
        "min_reader_version": dg.MetadataValue.int(protocol.min_reader_version),
        "min_writer_version": dg.MetadataValue.int(protocol.min_writer_version),
        **({"table_features": dg.MetadataValue.text(", ".join(features))} if features else {}),
    }


def table_metadata(metadata: Metadata) -> Entries:
    """The id, the schema, the partitioning and the properties of a table."""
    schema = parse_schema(metadata.schema_string)
    return {
        "table_id": dg.MetadataValue.text(metadata.id),
        "num_columns": dg.MetadataValue.int(len(schema.fields)),
        "dagster/column_schema": column_schema(schema),
        **(
            {"partition_columns": dg.MetadataValue.text(", ".join(metadata.partition_columns))}
            if metadata.partition_columns
            else {}
        ),
        **({"properties": dg.MetadataValue.json(dict(metadata.configuration))} if metadata.configuration else {}),
    }


def column_schema(schema: StructType) -> dg.TableSchemaMetadataValue:
    """A Spark schema as Dagster shows columns."""
    return dg.MetadataValue.table_schema(
        dg.TableSchema(
            columns=[
                dg.TableColumn(
                    name=field.name,
                    type=field.dataType.simpleString(),
                    description=(field.metadata or {}).get("comment"),
                    constraints=dg.TableColumnConstraints(nullable=field.nullable),
                )
                for field in schema.fields
            ]
        )
    )


def file_size_chart(histogram: FileSizeHistogram) -> str:
    """How many files of which size, as a bar chart in Markdown; empty bins at both ends left out."""
    bins = list(zip(histogram.sorted_bin_boundaries, histogram.file_counts, strict=True))
    filled = [index for index, (_, count) in enumerate(bins) if count]
    if not filled:
        return "no files"
    scale = _BAR_WIDTH / max(histogram.file_counts)
    lines = [
        f"{bytes_text(start):>9}+ {_BLOCK * math.ceil(count * scale):<{_BAR_WIDTH}} {count}"
        for start, count in bins[filled[0] : filled[-1] + 1]
    ]
    return "\n".join(["```", *lines, "```"])


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; cells are escaped."""
    lines = [header, ["-"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


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
            return text if text is None else json.loads(text)
        except ValueError:
            return text

    return {name: decode(text) for name, text in values.items()}


def _optional_int(value: int | None) -> dg.MetadataValue:
    return dg.MetadataValue.null() if value is None else dg.MetadataValue.int(value)


def _optional_text(value: str | None) -> dg.MetadataValue:
    return dg.MetadataValue.null() if value is None else dg.MetadataValue.text(value)
