"""The output of `deltasnap vacuum --dry-run`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from deltasnap_assets.command.output import OutputFormat, print_rows
from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.terminal import output_console, print_line, print_problem, shown, working
from deltasnap_assets.command.views.condition_view import explaining, print_condition
from deltasnap_assets.quantities import HOUR_MS, bytes_text, counted
from deltasnap_core import (
    Snapshot,
    TableCondition,
    TableLog,
    VacuumSummary,
    VersionRanges,
)
from deltasnap_core.support import (
    AGES_DAYS,
    CommitFindings,
    VacuumGroup,
    contiguous_runs,
    deleted_file_retention_ms,
)

_MAX_ROWS = 50
_AGES: dict[int | None, str] = {first: f"{first} to {then} days" for first, then in pairwise(AGES_DAYS)}
_AGES[None] = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What VACUUM would delete from a table, at its latest version.

    loadable: the versions that can be loaded now, ascending.
    table_retention_ms: the retention by the table's property.
    """

    path: str
    version: int
    loadable: Sequence[int]
    table_retention_ms: int
    summary: VacuumSummary

    @property
    def first_readable_version(self) -> int | None:
        """The version to which time travel would shrink; None: it would not shrink."""
        if not self.summary.takes_from_versions:
            return None
        # A commit that is missing may have removed any of the files. Versions before it are loaded from a checkpoint.
        *_, (unbroken, _) = contiguous_runs(self.loadable)
        found = max(unbroken, self.summary.first_readable_version or 0)
        return found if found > self.loadable[0] else None

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values: bytes, ms, versions; null: unknown or none."""
        summary = self.summary
        return {
            "path": self.path,
            "version": self.version,
            "retention_ms": summary.retention_ms,
            "files": summary.num_files,
            "bytes": summary.size_in_bytes,
            "earliest_version": self.loadable[0],
            "first_readable_version": self.first_readable_version,
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the groups of files: those to delete (`is_deleted`), then those that other versions protect."""
        groups = [(group, True) for group in self.summary.deleted] + [
            (group, False) for group in self.summary.protected
        ]
        return [{"is_deleted": is_deleted, **_json(group)} for group, is_deleted in groups]


def show_vacuum(path: str, storage_options: Mapping[str, Any], *, retention_ms: int | None, form: OutputFormat) -> None:
    """Print the faults of the table, on stderr, then what VACUUM would delete. retention_ms: None: that of the table.

    Errors: JavaError; FaultyTableError if a fault of the log is the cause; errors of loading and listing the table.
    """
    with explaining(path, storage_options):
        table = TableLog.for_path(path, storage_options)
        version = table.latest().version
        with working("Listing"), spark_aside(path):
            snapshot = delta_log_of(path, storage_options).get_snapshot_at(version)
            summary = snapshot.tables.vacuum_summary(retention_ms=retention_ms)
        report = _report(path, table, snapshot, summary)
    print_condition(_condition(table))
    if form != "table":
        print_rows(form, report.rows(), **report.to_json())
    else:
        _print(output_console(), report)
    if summary.retention_ms < report.table_retention_ms:
        text = (
            f"A retention of {_hours(summary.retention_ms)} is shorter than that of the table, "
            f"{_hours(report.table_retention_ms)}: VACUUM could delete files that running queries and writers need."
        )
        print_problem(Console(stderr=True), "warning", text)


def _condition(table: TableLog) -> TableCondition:
    """Return the condition of a log of which every commit was just read: reads no commit and no page again."""
    listing = table.list()
    known = CommitFindings(sound=VersionRanges.of(listing.commits))
    return table.condition(listing, first=0, read_pages=False, known=known)


def _report(path: str, table: TableLog, snapshot: Snapshot, summary: VacuumSummary) -> VacuumReport:
    return VacuumReport(
        path=path,
        version=snapshot.version,
        loadable=table.history.reconstructable_versions(),
        table_retention_ms=deleted_file_retention_ms(snapshot.metadata.configuration),
        summary=summary,
    )


def _print(console: Console, report: VacuumReport) -> None:
    summary = report.summary
    sentence = f"VACUUM would delete {_files_text(summary.deleted)} (retention {_hours(summary.retention_ms)})."
    print_line(console, shown(sentence))
    if summary.deleted:
        console.print(_table(summary.deleted))
    for line in _notes(report):
        print_line(console, shown(line))


def _notes(report: VacuumReport) -> Iterator[str]:
    summary = report.summary
    kept: Counter[str] = Counter()
    for group in summary.protected:
        kept[group.reason] += group.num_files
    for reason, files in kept.most_common():
        yield f"Kept: {counted(files, 'file')} ({reason})."
    version = report.first_readable_version
    if version is not None:
        now = report.loadable[0]
        yield f"Time travel would reach back to version {version}; now the log reaches back to version {now}."
    elif summary.deleted:
        yield "Time travel would lose no version."


def _table(groups: tuple[VacuumGroup, ...]) -> Table:
    table = Table(Column("folder", overflow="fold"), "age", "reason", box=None, header_style="dim")
    table.add_column("files", justify="right")
    table.add_column("size", justify="right")
    for group in groups[:_MAX_ROWS]:
        age, reason = age_text(group.age_days), shown(group.reason)
        table.add_row(shown(group.folder or "."), age, reason, f"{group.num_files:,}", _size_text((group,)))
    if len(groups) > _MAX_ROWS:
        rest = groups[_MAX_ROWS:]
        files = sum(group.num_files for group in rest)
        table.add_row(f"and {len(rest):,} more", "", "", f"{files:,}", _size_text(rest))
    return table


def age_text(age_days: int | None) -> str:
    """Return one of AGES_DAYS as text; None: unknown."""
    return _AGES.get(age_days, f"over {age_days} days")


def _files_text(groups: tuple[VacuumGroup, ...]) -> str:
    files = sum(group.num_files for group in groups)
    return f"{files:,} {'file' if files == 1 else 'files'} of {_size_text(groups)}" if files else "nothing"


def _size_text(groups: tuple[VacuumGroup, ...]) -> str:
    unknown = sum(group.num_without_size for group in groups)
    return bytes_text(sum(group.size_in_bytes for group in groups)) + (f" and {unknown:,} unknown" if unknown else "")


def _hours(ms: int) -> str:
    return f"{ms / HOUR_MS:g} hours"


def _json(group: VacuumGroup) -> dict[str, Any]:
    names = {
        "num_files": "files",
        "size_in_bytes": "bytes",
        "num_without_size": "files_without_size",
    }
    return {names.get(name, name): value for name, value in asdict(group).items()}
