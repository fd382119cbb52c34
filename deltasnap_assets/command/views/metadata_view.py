"""`deltasnap table`: reads a metadata table of a version, and writes its rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import typer

from deltasnap_assets.command.rows.row_options import RowDestination
from deltasnap_assets.command.rows.row_output import cut_rows, valid_condition, write_collected
from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.terminal import working
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_assets.command.views.scan_view import ScanRequest, version_of
from deltasnap_core import Table
from deltasnap_core.support import filtered_rows


def write_metadata_table(
    path: str, storage_options: Mapping[str, Any], name: str, request: ScanRequest, destination: RowDestination
) -> None:
    """Write the rows of a metadata table. name: of a member of `Table`.

    Errors: typer.BadParameter for an invalid condition or column; JavaError; FaultyTableError if a fault of the log is
    the cause; the errors of finding the version, of the metadata table, and of `write_rows`.
    """
    versions = () if request.version is None else (request.version,)
    with explaining(path, storage_options, *versions):
        version = version_of(path, storage_options, request)
        with working("Reading"), spark_aside(path), valid_condition(request.where):
            log = delta_log_of(path, storage_options)
            table = Table(log=log, snapshot=log.get_snapshot_at(version))
            rows, is_cut = _collected(table, name, request, destination.limit)
    write_collected(rows, destination, is_cut=is_cut)


def _collected(table: Table, name: str, request: ScanRequest, limit: int | None) -> tuple[pa.Table, bool]:
    one_more = None if limit is None else limit + 1
    if name == "history" and request.where is None:
        rows = table.history(one_more)  # reads only these commits
    else:
        rows = getattr(table, name)()
    if request.where is not None:
        with valid_condition(request.where):
            found = filtered_rows(table.snapshot.scanned_table(), rows.to_spark(), request.where)
        rows = replace(rows, source=found)
    if request.columns is not None:
        try:
            rows = rows.select(*request.columns)
        except ValueError as error:
            raise typer.BadParameter(f"{error}.", param_hint="--columns") from error
    return cut_rows((rows if one_more is None else rows.limit(one_more)).to_arrow(), limit)
