"""What `deltasnap inspect` shows of a table, in two steps: what needs no replay, then what the replay gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from deltasnap_assets.command.terminal import output_to
from deltasnap_assets.settings.config import SparkSettings
from deltasnap_assets.spark.java import check_java
from deltasnap_assets.spark.session_config import session_config
from deltasnap_assets.tables.byte_units import bytes_text
from deltasnap_core.log.delta_history_manager import DeltaHistory
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.protocol.table_features import check_readable
from deltasnap_core.snapshot.delta_log import DeltaLog


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What can be known of a version without reading its file actions.

    timestamp_ms: of the version. earliest, latest: the versions that the log has commits for.
    history: the newest commits up to the version, newest first.
    """

    path: str
    segment: LogSegment
    timestamp_ms: int
    protocol: Protocol
    metadata: Metadata
    earliest: int
    latest: int
    history: tuple[DeltaHistory, ...]

    def check_readable(self) -> None:
        """Raise UnsupportedProtocolError unless the rest can be read too."""
        check_readable(self.protocol, path=self.path, version=self.segment.version)


def read_facts(
    path: str,
    storage_options: Mapping[str, Any],
    *,
    version: int | None = None,
    timestamp_ms: int | None = None,
    commits: int = 10,
) -> TableFacts:
    """Read the facts of a version: the one given, the one current at a time (ms since the epoch), or the latest.

    Starts no Spark. Raises every error of loading a version but UnsupportedProtocolError.
    """
    table = TableLog.for_path(path, storage_options)
    if timestamp_ms is not None:
        log = table.at(timestamp=timestamp_ms)
    else:
        log = table.latest() if version is None else table.at(version)
    segment, manager = log.segment, table.history
    history = tuple(manager.get_history(limit=commits, end=segment.version))
    return TableFacts(
        path=table.table_path,
        segment=segment,
        timestamp_ms=history[0].timestamp if history else segment.last_commit_timestamp,
        protocol=log.protocol,
        metadata=log.metadata,
        earliest=manager.earliest_version(),
        latest=manager.latest_version(),
        history=history,
    )


def count(facts: TableFacts, storage_options: Mapping[str, Any], log: Path) -> SnapshotState:
    """Replay the version on a Spark session of this process; what Spark prints goes to `log`.

    Raises UnsupportedProtocolError, JavaError where Spark cannot start, and the errors of a damaged log.
    """
    check_java()
    with output_to(log):
        spark = SparkSession.builder.config(map={**session_config(SparkSettings())}).getOrCreate()
        delta_log = DeltaLog.for_table(spark, facts.path, storage_options=storage_options or None)
        return delta_log.get_snapshot_at(version=facts.segment.version).computed_state


def show_facts(console: Console, facts: TableFacts) -> None:
    """Print what needs no replay."""
    name = f"  {facts.metadata.name}" if facts.metadata.name else ""
    console.print(Text.assemble((facts.path, "bold"), (name, "cyan")))
    if facts.metadata.description:
        console.print(Text(facts.metadata.description, style="italic"))
    console.print(_pairs(_table_rows(facts)))
    console.print(_schema(facts.metadata))
    console.print(_history(facts.history))


def show_state(console: Console, state: SnapshotState) -> None:
    """Print what the replay gave."""
    rows: list[tuple[str, RenderableType]] = [
        ("files", f"{state.num_of_files:,} of {bytes_text(state.size_in_bytes)}"),
        ("records", "unknown (a file has no statistics)" if state.num_records is None else f"{state.num_records:,}"),
        ("tombstones", f"{state.num_of_removes:,}"),
    ]
    if state.num_deletion_vectors:
        rows.append(("deletion vectors", f"{state.num_deletion_vectors:,} deleting {state.num_deleted_records:,} rows"))
    rows += [(f"transaction {txn.app_id}", f"{txn.version}") for txn in state.set_transactions]
    rows += [(f"domain {domain.domain}", domain.configuration) for domain in state.domain_metadata]
    console.print(_pairs(rows))


def time_text(timestamp_ms: int) -> str:
    """A timestamp in UTC, to the second; the bare number where a log's clock was beyond any calendar."""
    try:
        return f"{datetime.fromtimestamp(timestamp_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def _pairs(rows: list[tuple[str, RenderableType]]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", min_width=14)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def _table_rows(facts: TableFacts) -> list[tuple[str, RenderableType]]:
    protocol, metadata = facts.protocol, facts.metadata
    rows: list[tuple[str, RenderableType]] = [
        ("version", f"{facts.segment.version}, committed {time_text(facts.timestamp_ms)}"),
        ("in the log", f"versions {facts.earliest} to {facts.latest}"),
        ("table id", metadata.id),
        ("protocol", f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"),
    ]
    if protocol.reader_features:
        rows.append(("reader features", ", ".join(protocol.reader_features)))
    if protocol.writer_features:
        rows.append(("writer features", ", ".join(protocol.writer_features)))
    if metadata.partition_columns:
        rows.append(("partitioned by", ", ".join(metadata.partition_columns)))
    if metadata.configuration:
        properties = (f"{name} = {value}" for name, value in sorted(metadata.configuration.items()))
        rows.append(("properties", "\n".join(properties)))
    rows += _segment_rows(facts.segment)
    return rows


def _segment_rows(segment: LogSegment) -> list[tuple[str, RenderableType]]:
    checkpoint = segment.checkpoint_provider
    commits = len(segment.deltas)
    if checkpoint.is_empty:
        base = "none: read from the first commit on"
        lag = f"{commits:,} commits, all of them"
    else:
        size = sum(file.size for file in checkpoint.files)
        parts = f"{len(checkpoint.files)} files, " if len(checkpoint.files) > 1 else ""
        base = f"version {checkpoint.version}, {checkpoint.kind} {checkpoint.format}, {parts}{bytes_text(size)}"
        lag = f"{commits:,} commits, {bytes_text(sum(file.size for file in segment.deltas))}"
    rows: list[tuple[str, RenderableType]] = [("checkpoint", base), ("commits since", lag)]
    if segment.compactions:
        rows.append(("compactions", f"{len(segment.compactions):,}"))
    rows.append(("checksum file", segment.checksum_file.name if segment.checksum_file else "none"))
    return rows


def _schema(metadata: Metadata) -> RenderableType:
    table = Table("column", "type", "nullable", title="schema", title_justify="left", box=None, header_style="dim")
    fields = json.loads(metadata.schema_string)["fields"] if metadata.schema_string else []
    for field in fields:
        partition = " (partition)" if field["name"] in metadata.partition_columns else ""
        table.add_row(field["name"] + partition, _type_text(field["type"]), "yes" if field["nullable"] else "no")
    return table


def _type_text(data_type: Any) -> str:
    if not isinstance(data_type, dict):
        return str(data_type)
    match data_type["type"]:
        case "struct":
            return f"struct<{', '.join(f['name'] + ': ' + _type_text(f['type']) for f in data_type['fields'])}>"
        case "array":
            return f"array<{_type_text(data_type['elementType'])}>"
        case "map":
            return f"map<{_type_text(data_type['keyType'])}, {_type_text(data_type['valueType'])}>"
        case other:
            return _type_text(other)


def _history(history: tuple[DeltaHistory, ...]) -> RenderableType:
    table = Table("version", "committed (UTC)", "operation", "by", box=None, header_style="dim", expand=True)
    table.add_column("parameters", no_wrap=True, ratio=1)
    for entry in history:
        table.add_row(
            str(entry.version),
            time_text(entry.timestamp).removesuffix(" UTC"),
            entry.operation or "unknown",
            entry.user_name or entry.engine_info or "",
            _parameters_text(entry.operation_parameters or {}),
        )
    title = Text(f"last {len(history)} commits", style="italic")
    return Group(title, table)


def _parameters_text(parameters: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(parameters.items()) if value not in (None, "", "[]"))
