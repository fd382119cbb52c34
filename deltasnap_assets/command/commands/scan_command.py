"""`deltasnap scan`: the rows of a version."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.arguments import (
    AtTime,
    AtVersion,
    InCatalog,
    StorageOptions,
    TablePath,
    column_names,
    table_at,
    time_of_version,
)
from deltasnap_assets.command.rows.row_options import (
    FormatOption,
    LimitOption,
    OutOption,
    row_destination,
)


def scan(
    path: TablePath,
    version: AtVersion = None,
    timestamp: AtTime = None,
    where: Annotated[str | None, typer.Option(metavar="SQL", help="A condition on the table's columns.")] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns, separated by commas; fields as address.city.")
    ] = None,
    limit: LimitOption = None,
    form: FormatOption = None,
    out: OutOption = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Show on stderr which files are read, which are skipped, and why. With --format json, no rows are "
            "read, and the output is one JSON object.",
        ),
    ] = False,
    min_skipped: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            min=0,
            max=100,
            help="With --explain: read no rows; exit with 1 if fewer files are skipped.",
        ),
    ] = None,
    assert_statistics: Annotated[
        bool,
        typer.Option(
            "--assert-statistics",
            help="With --explain: read no rows; exit with 1 if a file lacks statistics that a condition needs.",
        ),
    ] = False,
    option: StorageOptions = None,
    catalog: InCatalog = None,
) -> None:
    """Show the rows of a version, in any order. Needs Spark to read the data files.

    Rows go to stdout, all other output to stderr. CSV, JSON and Parquet have exact values. All rows of the output are
    held in memory.
    """
    timestamp_ms = time_of_version(version, timestamp)
    is_gate = min_skipped is not None or assert_statistics
    if is_gate and not explain:
        raise typer.BadParameter("Give --explain too.", param_hint="--min-skipped, --assert-statistics")
    path, options = table_at(path, option, catalog)
    destination = row_destination(form, out, limit)
    names = None if columns is None else column_names(columns)
    from deltasnap_assets.command.views.scan_view import ScanRequest, explain_scan, scan_rows

    request = ScanRequest(
        version=version,
        timestamp_ms=timestamp_ms,
        where=where,
        columns=names,
        explain=explain,
        min_skipped_percent=min_skipped or 0,
        statistics=assert_statistics,
    )
    if is_gate or (explain and destination.form == "json"):
        explain_scan(path, options, request, destination)
    else:
        scan_rows(path, options, request, destination)
