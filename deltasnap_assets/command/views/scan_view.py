"""`deltasnap scan`: reads the rows of a version and writes them; explains which files are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console

from deltasnap_assets.command.output import json_text
from deltasnap_assets.command.rows.row_options import RowDestination
from deltasnap_assets.command.rows.row_output import collect_scan, valid_condition, write_collected
from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.terminal import print_line, print_problem, shown, working
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.quantities import bytes_text
from deltasnap_core import Scan, ScanReport, Snapshot, TableLog
from deltasnap_core.support import ConditionReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The rows to read. version, timestamp_ms: at most one; None: the latest version.

    where, columns: as in `Snapshot.scan`. explain: whether to print the scan report. min_skipped_percent, statistics:
    what it must show: the files skipped, and whether every file has the statistics that the conditions need.
    """

    version: int | None = None
    timestamp_ms: int | None = None
    where: str | None
    columns: tuple[str, ...] | None
    explain: bool = False
    min_skipped_percent: float = 0
    statistics: bool = False


def explain_scan(
    path: str, storage_options: Mapping[str, Any], request: ScanRequest, destination: RowDestination
) -> None:
    """Write which files a scan would read, and exit with 1 if that is not as expected. Errors: as `scan_rows`."""
    with _planning(path, storage_options, request) as (planned, version):
        report, conditions = planned.report, planned.conditions()
    failures = list(_failures(report, conditions, request))
    if destination.form == "json":
        text = json_text(_report_json(report, conditions, version=version, passed=not failures))
        if destination.out is None:
            typer.echo(text)
        else:
            destination.out.write_text(f"{text}\n", encoding="utf-8")
    else:
        _print_report(report, version)
    for failure in failures:
        print_problem(Console(stderr=True), "error", failure)
    if failures:
        raise typer.Exit(1)


def scan_rows(path: str, storage_options: Mapping[str, Any], request: ScanRequest, destination: RowDestination) -> None:
    """Write the rows of a version.

    Errors: typer.BadParameter for an invalid condition or column; JavaError; FaultyTableError if a fault of the log is
    the cause; the errors of finding the version, of a scan, and of `write_rows`.
    """
    with _planning(path, storage_options, request) as (planned, version):
        report = planned.report if request.explain else None
        rows, is_cut = collect_scan(planned, destination.limit)
    if report is not None:
        _print_report(report, version)
    write_collected(rows, destination, is_cut=is_cut)


@contextmanager
def _planning(path: str, storage_options: Mapping[str, Any], request: ScanRequest) -> Iterator[tuple[Scan, int]]:
    """Yield the scan, and its version. Convert the errors of using it."""
    versions = () if request.version is None else (request.version,)
    with explaining(path, storage_options, *versions):
        version = version_of(path, storage_options, request)
        with working("Reading"), spark_aside(path), valid_condition(request.where):
            yield _planned(delta_log_of(path, storage_options).get_snapshot_at(version), request), version


def version_of(path: str, storage_options: Mapping[str, Any], request: ScanRequest) -> int:
    """Return the version to read. Does not start Spark."""
    table = TableLog.for_path(path, storage_options)
    if request.timestamp_ms is not None:
        return table.at(timestamp=request.timestamp_ms).version
    return table.latest().version if request.version is None else request.version


def _planned(snapshot: Snapshot, request: ScanRequest) -> Scan:
    try:
        with valid_condition(request.where):
            return snapshot.scan(request.where, request.columns)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--columns") from error


def _skipped_percent(report: ScanReport) -> float:
    """Return the percentage of the files that are skipped; 100 without files."""
    return 100 * (report.files - report.files_after_statistics) / report.files if report.files else 100.0


def _failures(report: ScanReport, conditions: Sequence[ConditionReport], expected: ScanRequest) -> Iterator[str]:
    """Yield what is not as expected, as sentences."""
    skipped = _skipped_percent(report)
    if skipped < expected.min_skipped_percent:
        yield f"Expected at least {expected.min_skipped_percent:g} % of the files to be skipped, found {skipped:.3g} %."
    for condition in conditions:
        if expected.statistics and condition.undecided:
            files = f"{condition.undecided:,} of {condition.files:,} files"
            yield f"{files} have no statistics that decide the condition {condition.text}."


def _report_json(
    report: ScanReport, conditions: Sequence[ConditionReport], *, version: int, passed: bool
) -> dict[str, Any]:
    return {
        "version": version,
        "files_total": report.files,
        "files_after_partitions": report.files_after_partitions,
        "files_read": report.files_after_statistics,
        "bytes_total": report.bytes_in_files,
        "bytes_after_partitions": report.bytes_after_partitions,
        "bytes_read": report.bytes_after_statistics,
        "skipped_percent": round(_skipped_percent(report), 3),
        "passed": passed,
        "conditions": [
            {
                "condition": condition.text,
                "files_skipped": condition.skipped or 0,
                "files_without_statistics": condition.undecided,
                "reason": condition.reason,
            }
            for condition in conditions
        ],
    }


def _print_report(report: ScanReport, version: int) -> None:
    for line in _report_lines(report, version):
        print_line(Console(stderr=True), shown(line))


def _report_lines(report: ScanReport, version: int) -> Iterator[str]:
    """Yield the scan report as text. With a limit, fewer files may be read."""
    yield (
        f"Version {version}: {report.files_after_statistics:,} of {report.files:,} files may contain the rows, "
        f"{bytes_text(report.bytes_after_statistics)} of {bytes_text(report.bytes_in_files)}."
    )
    by_partitions = report.files - report.files_after_partitions
    by_statistics = report.files_after_partitions - report.files_after_statistics
    if report.used:
        yield f"Skipped by partition values: {by_partitions:,} files. Skipped by statistics: {by_statistics:,} files."
    for text in report.used:
        yield f"Selects files: {text}"
    for text in report.unused:
        yield f"Selects rows only: {text}"
