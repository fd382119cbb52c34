"""The page of each asset except its numbers: charts, lists and summaries of one version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import dagster as dg

from deltasnap_assets.checks.check import AnyCheck, Verdict
from deltasnap_assets.checks.check_settings import CheckSettings
from deltasnap_assets.checks.facts import CountedFiles, FileFacts
from deltasnap_assets.checks.registry import PAGE_CHECKS, checks_of
from deltasnap_assets.provenance import made_by, made_how
from deltasnap_assets.quantities import bytes_text, counted, span_text
from deltasnap_assets.runs.condition.fault_texts import fault_entries, fault_lines, plain_text
from deltasnap_assets.runs.planning.names import asset_key
from deltasnap_assets.runs.stores import uri_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.changes import state_changes
from deltasnap_assets.tables.pages.column_schema import MAX_COLUMNS, columns_of, table_schema
from deltasnap_assets.tables.pages.metadata import (
    Entries,
    clustering_metadata,
    markdown_table,
    noting_problems,
    text_value,
    time_value,
)
from deltasnap_assets.tables.pages.pictures import (
    MAX_BARS,
    MAX_CHARACTERS,
    Bar,
    VersionStep,
    file_sizes_picture,
    most_bars_picture,
    versions_picture,
)
from deltasnap_assets.texts import markdown_code, markdown_text, visible
from deltasnap_core import (
    CommitInfo,
    LogSegment,
    Metadata,
    Protocol,
    SnapshotState,
    TableCondition,
)

_MAX_PROPERTIES = 100


@noting_problems
def log_segment_page(segment: LogSegment) -> Entries:
    """Return a summary of the files to read for a version, and the age of its checkpoint."""
    checkpoint, commits = segment.checkpoint_provider, len(segment.deltas)
    size = bytes_text(segment.size_in_bytes)
    if checkpoint.is_empty:
        return {"to_read": text_value(f"{counted(commits, 'commit')}, no checkpoint; {size}")}
    behind = span_text(segment.last_commit_timestamp - max(file.modification_time for file in checkpoint.files))
    age = f"{counted(commits, 'commit')} and {behind}" if commits else "of this version"
    read = f"{counted(len(checkpoint.files), 'file')} of the checkpoint, {counted(commits, 'commit')}; {size}"
    return {"to_read": text_value(read), "checkpoint_age": text_value(age)}


@noting_problems
def changes_page(before: SnapshotState | None, state: SnapshotState) -> Entries:
    """Return the changes of schema, properties, protocol and domains since the version before (None: not known)."""
    if before is None:
        return {}
    changes = state_changes(before, state)
    lines = "\n".join(f"- {markdown_text(change)}" for change in changes)
    return {"changed_besides_files": dg.MetadataValue.md(lines) if changes else dg.MetadataValue.text("nothing")}


@noting_problems
def state_page(state: SnapshotState) -> Entries:
    """Return the contents of a version as text, and a chart of its file sizes."""
    return {"contents": text_value(contents_text(state)), **_file_sizes(state)}


def _file_sizes(state: SnapshotState) -> Entries:
    """Return a chart of the file sizes, unless all files are in one bin: a single bar is useless."""
    if sum(count > 0 for count in state.file_size_histogram.file_counts) < 2:
        return {}
    return {"file_sizes": dg.MetadataValue.md(file_sizes_picture(state.file_size_histogram))}


@noting_problems
def all_files_page(version: int, state: SnapshotState, known: CountedFiles) -> Entries:
    """Return charts of the sizes and partitions of the live files, and the largest and smallest files."""
    entries = {**_file_sizes(state), **_counted_at(version, known)}
    if picture := partitions_picture(known.files):
        entries["bytes_by_partition"] = dg.MetadataValue.md(picture)
    if known.files.largest:
        entries["largest_and_smallest"] = dg.MetadataValue.md(_largest_and_smallest(known.files))
    return entries


def _counted_at(version: int, known: CountedFiles) -> Entries:
    """Return the version that facts about files belong to, unless it is the version of the page."""
    return {} if known.version == version else {"counted_at_version": text_value(f"{known.version}")}


def _largest_and_smallest(facts: FileFacts) -> str:
    """Return as many files as Dagster shows next to the key, at least one of each kind."""
    table = ""
    for most in range(len(facts.largest), 0, -1):
        files = [("largest", *each) for each in facts.largest[:most]]
        files += [("smallest", *each) for each in facts.smallest[:most]]
        rows = ((what, bytes_text(size), markdown_code(path)) for what, path, size in files)
        table = markdown_table(("", "size", "file"), rows)
        if len(table) <= MAX_CHARACTERS:
            break
    return table


def partitions_picture(facts: FileFacts) -> str | None:
    """Return the partitions with the most bytes as bars; None: the table has no partitions."""
    if not any(partition.values for partition in facts.partitions):
        return None
    bars = [
        Bar(
            label=partition.label,
            value=partition.size_in_bytes,
            text=f"{bytes_text(partition.size_in_bytes)}, {counted(partition.num_files, 'file')}",
        )
        for partition in facts.partitions[:MAX_BARS]
    ]
    picture, shown = most_bars_picture("bytes by partition", bars, MAX_CHARACTERS - 50)
    if facts.num_partitions is None:
        return f"{picture}\n\nand many smaller ones"
    more = facts.num_partitions - shown
    return f"{picture}\n\nand {more:,} smaller ones" if more else picture


@noting_problems
def tombstones_page(version: int, known: CountedFiles, *, last_vacuum_ms: int | None) -> Entries:
    """Return the size of the tombstones, when they expire, and what VACUUM would free at least.

    last_vacuum_ms: when VACUUM last ended, according to the log; None: unknown.
    """
    facts = known.tombstones
    unsized = f", except {facts.num_without_size:,} without a size" if facts.num_without_size else ""
    held = f"{counted(facts.num_files, 'file')}, {bytes_text(facts.size_in_bytes)}{unsized}"
    entries: Entries = {"contents": text_value(held), **_counted_at(version, known)}
    if facts.first_expires_ms is not None and facts.last_expires_ms is not None:
        entries["first_expires"] = time_value(facts.first_expires_ms)
        entries["last_expires"] = time_value(facts.last_expires_ms)
    freed = f"at least {counted(facts.num_expired, 'file')}, {bytes_text(facts.expired_bytes)}"
    unknown = "no file expired since the last commit; `deltasnap vacuum PATH --dry-run` lists earlier ones"
    entries["vacuum_would_free_now"] = text_value(freed if facts.num_expired else unknown)
    if last_vacuum_ms is not None:
        entries["last_vacuum"] = time_value(last_vacuum_ms)
    return entries


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """The facts that the page of a table shows about its current version: `PageFacts`, and more.

    condition: of the log. committed_at_ms: the time of the version (ms since the epoch).
    commit: None: it is missing in the log. steps: the changes of the latest versions.
    others: the verdicts of further checks. compaction: always None, a page does not determine it.
    """

    state: SnapshotState
    segment: LogSegment
    counted: CountedFiles
    condition: TableCondition
    committed_at_ms: int
    commit: CommitInfo | None
    steps: Sequence[VersionStep]
    others: Sequence[tuple[AnyCheck, Verdict]] = ()
    compaction: None = None


def health(shown: ShownVersion, limits: CheckSettings) -> str:
    """Return the health of the table with advice: faults of the log first."""
    verdicts = [*((check, check.judge(shown, limits)) for check in checks_of(limits, PAGE_CHECKS)), *shown.others]
    problems = [(check, verdict) for check, verdict in verdicts if verdict.is_evaluated and not verdict.passed]
    lines = [*fault_lines(shown.condition), *(_problem_line(check, verdict) for check, verdict in problems)]
    if not lines:
        state = shown.state
        mean = bytes_text(state.size_in_bytes // max(state.num_of_files, 1))
        return f"OK: {counted(state.num_of_files, 'file')}, {mean} on average. No maintenance is due."
    return "\n\n".join(lines)


def _problem_line(check: AnyCheck, verdict: Verdict) -> str:
    return f"{plain_text(verdict.description)} {verdict.advice or check.advice}"


@noting_problems
def table_page(table: TableSettings, shown: ShownVersion) -> Entries:
    """Return the page of the current table: health, contents, last writer, charts.

    The numbers come last: they are for plots, and `contents` repeats them as text.
    """
    state, segment, condition = shown.state, shown.segment, shown.condition
    entries: Entries = {"health": dg.MetadataValue.md(health(shown, table.checks))}
    entries |= fault_entries(condition, None, None if condition.is_readable else segment.version)
    entries["contents"] = text_value(contents_text(state))
    if shown.commit is not None:
        entries["last_commit"] = text_value(commit_text(segment.version, shown.commit))
        if details := {**made_by(shown.commit), **made_how(shown.commit)}:
            rows = ((name.replace("_", " "), markdown_text(visible(text))) for name, text in details.items())
            entries["last_commit_by"] = dg.MetadataValue.md(markdown_table(("", ""), rows))
    entries |= {"committed_at": time_value(shown.committed_at_ms), **_charts(shown)}
    if state.metadata is not None:
        entries |= _schema_entries(state.metadata) | _described(state.metadata) | clustering_metadata(state)
    if state.protocol is not None:
        entries["protocol"] = text_value(protocol_text(state.protocol))
    links = {name: dg.MetadataValue.asset(asset_key(table, name)) for name in ("computed_state", "all_files")}
    return {**entries, **links, "dagster/uri": text_value(uri_of(table)), **_numbers(state, segment), **_storage(shown)}


def _charts(shown: ShownVersion) -> Entries:
    entries = _file_sizes(shown.state)
    if partitions := partitions_picture(shown.counted.files):
        entries["bytes_by_partition"] = dg.MetadataValue.md(partitions)
        entries |= _counted_at(shown.segment.version, shown.counted)
    if shown.steps:
        entries["bytes_by_version"] = dg.MetadataValue.md(versions_picture("bytes by version", shown.steps))
        entries["operations"] = dg.MetadataValue.md(_operations(shown.steps))
    return entries


def contents_text(state: SnapshotState) -> str:
    """Return the contents of a version: "1,537 rows in 10 files, 25.9 KiB"."""
    rows = "" if state.num_live_records is None else f"{counted(state.num_live_records, 'row')} in "
    return f"{rows}{counted(state.num_of_files, 'file')}, {bytes_text(state.size_in_bytes)}"


def protocol_text(protocol: Protocol) -> str:
    """Return the protocol requirements of a table for its readers and writers."""
    features = sorted(protocol.features)
    versions = f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
    return f"{versions}: {', '.join(features)}" if features else versions


def commit_text(version: int, commit: CommitInfo) -> str:
    """Return who made a version and how: "version 12: WRITE (append) by ada, delta-rs"."""
    mode = (commit.operation_parameters or {}).get("mode")
    operation = (commit.operation or "unknown") + (f" ({mode.lower()})" if mode else "")
    user = f" by {commit.user_name or commit.user_id}" if commit.user_name or commit.user_id else ""
    engine = f", {commit.engine_info}" if commit.engine_info else ""
    return f"version {version}: {operation}{user}{engine}"


def _numbers(state: SnapshotState, segment: LogSegment) -> Entries:
    """Return the numbers to plot, the most important first. Names are short: Dagster fits the column to the longest."""
    entries: Entries = {}
    if state.num_live_records is not None:
        entries["dagster/row_count"] = dg.MetadataValue.int(state.num_live_records)
    return entries | {
        "num_of_files": dg.MetadataValue.int(state.num_of_files),
        "dagster/size_bytes": dg.MetadataValue.int(state.size_in_bytes),
        "size_per_file": dg.MetadataValue.int(state.size_in_bytes // max(state.num_of_files, 1)),
        "tombstones": dg.MetadataValue.int(state.num_of_removes),
        "checkpoint_lag": dg.MetadataValue.int(len(segment.deltas)),
    }


def _storage(shown: ShownVersion) -> Entries:
    """Return the bytes that only earlier versions read, to plot; empty: they are not known for this version."""
    gone = shown.counted.tombstones
    if shown.counted.version != shown.segment.version or gone.time_travel_bytes is None:
        return {}
    sizes = {"time_travel_bytes": gone.time_travel_bytes, "expired_bytes": gone.expired_bytes}
    return {name: dg.MetadataValue.int(size) for name, size in sizes.items()}


@noting_problems
def _schema_entries(metadata: Metadata) -> Entries:
    """Return the columns twice: Dagster shows its own column view only for materializations."""
    rows = []
    for column in columns_of(metadata)[:MAX_COLUMNS]:
        remarks = filter(None, ("partition column" if column.is_partition else None, column.comment))
        kind = column.type if column.nullable else f"{column.type}, not null"
        rows.append((markdown_code(column.name), markdown_text(kind), markdown_text("; ".join(remarks))))
    schema = markdown_table(("column", "type", ""), rows)
    return {"schema": dg.MetadataValue.md(schema), "dagster/column_schema": table_schema(metadata)}


def _described(metadata: Metadata) -> Entries:
    entries: Entries = {"table_id": text_value(metadata.id)}
    if metadata.partition_columns:
        entries["partitioned_by"] = text_value(", ".join(metadata.partition_columns))
    if metadata.description:
        entries["description"] = text_value(metadata.description)
    if metadata.configuration:
        rows = [(markdown_code(name), markdown_code(value)) for name, value in sorted(metadata.configuration.items())]
        entries["properties"] = dg.MetadataValue.md(markdown_table(("property", "value"), rows[:_MAX_PROPERTIES]))
    return entries


def _operations(steps: Iterable[VersionStep]) -> str:
    """Return the number of each operation, the most frequent first, with the bytes that it added and removed."""
    by_name: dict[str, list[VersionStep]] = {}
    for step in steps:
        by_name.setdefault(step.operation, []).append(step)
    rows = [
        (
            markdown_text(visible(name)),
            f"{len(found):,}",
            bytes_text(sum(step.added for step in found)),
            bytes_text(sum(step.removed for step in found)),
        )
        for name, found in sorted(by_name.items(), key=lambda each: -len(each[1]))
    ]
    return markdown_table(("operation", "versions", "added", "removed"), rows[:MAX_BARS])
