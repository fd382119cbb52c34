"""The output of `deltasnap inspect`, in two steps: the facts without a replay, then the results of the replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from deltasnap_assets.command.terminal import shown
from deltasnap_assets.command.views.history import CommitColumn, Entry, commit_table, history_json, read_history
from deltasnap_assets.quantities import bytes_text, counted, iso_time, time_text
from deltasnap_assets.texts import visible
from deltasnap_core import (
    DeltaHistory,
    LogSegment,
    Metadata,
    Protocol,
    SnapshotState,
    TableCondition,
    TableLog,
)
from deltasnap_core.support import check_readable, parse_schema

if TYPE_CHECKING:
    from deltasnap_core import Snapshot  # loads PySpark

_Rows = list[tuple[str, str]]

_MAX_ROWS = 200
_MAX_VALUE_LENGTH = 2000
_MAX_PARAMETERS_LENGTH = 100

_LEAST_WIDTH = 20
_WIDTH_WITH_WRITER = 100
_WIDTH_WITH_PARAMETERS = 60
_WIDTH_WITH_WHOLE_NAMES = 80  # on a narrower terminal, a table with a minimum width would be cut


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedVersion:
    """The facts about a version that need no file actions.

    timestamp_ms: of the version. earliest, latest: the versions that the log has commits for.
    place_of_metadata: the file with the metadata, and its line.
    history: the newest commits up to the version, newest first.
    """

    path: str
    segment: LogSegment
    timestamp_ms: int
    protocol: Protocol
    metadata: Metadata
    place_of_metadata: tuple[str, int | None]
    earliest: int
    latest: int
    history: tuple[Entry, ...]

    def check_readable(self) -> None:
        """Raise UnsupportedProtocolError unless the file actions can be read too."""
        check_readable(self.protocol, path=self.path, version=self.segment.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to inspect: a version, or the one at a time (ms since the epoch); None: the latest; and how many commits."""

    version: int | None = None
    timestamp_ms: int | None = None
    commits: int = 10

    @property
    def is_latest(self) -> bool:
        """Whether neither a version nor a time is requested."""
        return self.version is None and self.timestamp_ms is None


def read_facts(
    path: str, storage_options: Mapping[str, Any], wanted: Wanted, condition: TableCondition | None = None
) -> InspectedVersion:
    """Read the facts about a version.

    condition: of the log; None: examine it here.
    Does not start Spark. Raises every error of loading a version except UnsupportedProtocolError.
    """
    table = TableLog.for_path(path, storage_options)
    log = table.latest() if wanted.is_latest else table.at(wanted.version, timestamp=wanted.timestamp_ms)
    log = log.read()
    segment, manager = log.segment, table.history
    history = read_history(table, wanted.commits, segment.version, condition).entries
    own = [each for each in history if isinstance(each, DeltaHistory) and each.version == segment.version]
    return InspectedVersion(
        path=table.table_path,
        segment=segment,
        timestamp_ms=own[0].timestamp if own else segment.last_commit_timestamp,
        protocol=log.protocol,
        metadata=log.metadata,
        place_of_metadata=log.place_of_metadata,
        earliest=manager.earliest_version(),
        latest=manager.latest_version(),
        history=history,
    )


def show_facts(console: Console, facts: InspectedVersion, note: str | None) -> None:
    """Print the facts. note: on the version shown; None: no note."""
    title = shown(facts.path, style="bold")
    if facts.metadata.name:
        title = Text.assemble(title, "  ", shown(facts.metadata.name, style="cyan"))
    console.print(title)
    if facts.metadata.description:
        console.print(shown(facts.metadata.description, style="italic"))
    console.print(_pairs(_table_rows(facts, note)))
    console.print(_schema(facts.metadata))
    console.print(_history(facts.history, console.width))


def show_state(console: Console, state: SnapshotState, computed_by: str) -> None:
    """Print the results of the replay, and the engine that computed them."""
    rows: _Rows = [
        ("files", f"{state.num_of_files:,} ({bytes_text(state.size_in_bytes)})"),
        ("records", "unknown (a file has no statistics)" if state.num_records is None else f"{state.num_records:,}"),
        ("tombstones", f"{state.num_of_removes:,}"),
        ("computed by", computed_by),
    ]
    if state.num_deletion_vectors:
        deleted = counted(state.num_deleted_records, "deleted row")
        rows.append(("deletion vectors", f"{state.num_deletion_vectors:,} ({deleted})"))
    rows += _most([(f"transaction {txn.app_id}", f"{txn.version}") for txn in state.set_transactions])
    rows += _most([(f"domain {domain.domain}", domain.configuration) for domain in state.domain_metadata])
    console.print(_pairs(rows))


def inspection_json(
    facts: InspectedVersion, snapshot: Snapshot | None, condition: TableCondition, error: str | None
) -> dict[str, Any]:
    """Return the facts about a version as JSON.

    snapshot: None if the replay did not run. condition: of the table. error: why something is missing; None: complete.
    """
    return {
        "path": facts.path,
        "version": facts.segment.version,
        "committed_at": iso_time(facts.timestamp_ms),
        "earliest_version": facts.earliest,
        "latest_version": facts.latest,
        "protocol": facts.protocol.to_json(),
        "metadata": facts.metadata.to_json(),
        "log_segment": facts.segment.to_json(),
        "state": None if snapshot is None else snapshot.computed_state.to_json(),
        "computed_by": None if snapshot is None else snapshot.computed_by,
        "history": history_json(facts.history),
        "condition": condition.to_json(),
        "error": error,
    }


def _most(rows: _Rows) -> _Rows:
    """Return the first of many rows, and the number of rows left out."""
    left_out = len(rows) - _MAX_ROWS
    return rows if left_out <= 0 else [*rows[:_MAX_ROWS], ("...", f"and {left_out:,} more")]


def _pairs(rows: _Rows) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", min_width=14)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(shown(name), shown(value, _MAX_VALUE_LENGTH))
    return grid


def _table_rows(facts: InspectedVersion, note: str | None) -> _Rows:
    protocol, metadata = facts.protocol, facts.metadata
    rows: _Rows = [
        ("version", f"{facts.segment.version}, committed {time_text(facts.timestamp_ms)}{f', {note}' if note else ''}"),
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
        properties = _most([("", f"{name} = {value}") for name, value in sorted(metadata.configuration.items())])
        rows += [("properties" if index == 0 else "", text) for index, (_, text) in enumerate(properties)]
    rows += _segment_rows(facts.segment)
    return rows


def _segment_rows(segment: LogSegment) -> _Rows:
    checkpoint = segment.checkpoint_provider
    commits = len(segment.deltas)
    size_of_commits = bytes_text(sum(file.size for file in segment.deltas))
    rows: _Rows
    if checkpoint.is_empty:
        rows = [("checkpoint", "none"), ("commits read", f"{commits:,} (all), {size_of_commits}")]
    else:
        size = sum(file.size for file in checkpoint.files)
        parts = f"{len(checkpoint.files)} files, " if len(checkpoint.files) > 1 else ""
        base = f"version {checkpoint.version}, {checkpoint.kind} {checkpoint.format}, {parts}{bytes_text(size)}"
        rows = [("checkpoint", base), ("commits since", f"{commits:,}, {size_of_commits}")]
    if segment.compactions:
        rows.append(("compactions", f"{len(segment.compactions):,}"))
    rows.append(("checksum file", segment.checksum_file.name if segment.checksum_file else "none"))
    return rows


def _schema(metadata: Metadata) -> RenderableType:
    # Names and types of nested columns are long, and useless when truncated.
    names, kinds = Column("column", overflow="fold"), Column("type", overflow="fold")
    table = Table(names, kinds, "nullable", title="schema", title_justify="left", box=None, header_style="dim")
    try:
        fields = parse_schema(metadata.schema_string).fields
    except (ValueError, RecursionError) as error:
        return Text.assemble(("schema", "italic"), " cannot be read: ", shown(error or type(error).__name__))
    partition_columns = {name.casefold() for name in metadata.partition_columns}
    for field in fields[:_MAX_ROWS]:
        partition = " (partition)" if field.name.casefold() in partition_columns else ""
        kind = shown(field.dataType.simpleString())
        table.add_row(shown(field.name + partition), kind, "yes" if field.nullable else "no")
    if len(fields) > _MAX_ROWS:
        table.add_row("...", f"and {len(fields) - _MAX_ROWS:,} more")
    return table


def _history(history: tuple[Entry, ...], width: int) -> RenderableType:
    # Rich gives the rest of the width to the parameters: it must suffice for a name with a short value.
    most = max(_LEAST_WIDTH, width // 5)
    columns: list[CommitColumn] = [
        (Column("operation", overflow="fold", max_width=most), lambda commit: commit.operation or "unknown")
    ]
    if width >= _WIDTH_WITH_WRITER:
        by = Column("by", overflow="fold", max_width=most)
        columns.append((by, lambda commit: commit.user_name or commit.engine_info or ""))
    if width >= _WIDTH_WITH_PARAMETERS:
        least = _LEAST_WIDTH if width >= _WIDTH_WITH_WHOLE_NAMES else None
        columns.append((Column("parameters", min_width=least, overflow="fold"), _parameters_text))
    title = Text(f"last {counted(len(history), 'commit')}", style="italic")
    return Group(title, commit_table(history, columns))


def _parameters_text(commit: DeltaHistory) -> str:
    parameters = sorted((commit.operation_parameters or {}).items())
    text = ", ".join(f"{name}={value}" for name, value in parameters if value not in (None, "", "[]"))
    return visible(text, _MAX_PARAMETERS_LENGTH)
