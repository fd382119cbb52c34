"""`deltasnap scan`: reads the rows of a version and writes them; explains which files are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console

from deltasnap_assets.command.rows.row_options import RowDestination
from deltasnap_assets.command.rows.row_output import collect_scan, valid_condition, write_collected
from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.terminal import print_line, shown
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.quantities import bytes_text
from deltasnap_core import Scan, ScanReport, Snapshot, TableLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """The rows to read. version, timestamp_ms: at most one; None: the latest version.

    where, columns: as in `Snapshot.scan`. explain: whether to print the scan report.
    """

    version: int | None = None
    timestamp_ms: int | None = None
    where: str | None
    columns: tuple[str, ...] | None
    explain: bool = False


def scan_rows(path: str, storage_options: Mapping[str, Any], request: ScanRequest, destination: RowDestination) -> None:
    """Write the rows of a version.

    Errors: typer.BadParameter for an invalid condition or column; JavaError; FaultyTableError if a fault of the log is
    the cause; the errors of finding the version, of a scan, and of `write_rows`.
    """
    versions = () if request.version is None else (request.version,)
    with explaining(path, storage_options, *versions):
        version = _version(path, storage_options, request)
        with Console(stderr=True).status("Reading"), spark_aside(path), valid_condition(request.where):
            planned = _planned(delta_log_of(path, storage_options).get_snapshot_at(version), request)
            report = planned.report if request.explain else None
            rows = collect_scan(planned, destination.limit)
    if report is not None:
        for line in _report_lines(report, version):
            print_line(Console(stderr=True), shown(line))
    write_collected(rows, destination)


def _version(path: str, storage_options: Mapping[str, Any], request: ScanRequest) -> int:
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
