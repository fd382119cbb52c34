"""`deltasnap changes`: reads the rows that versions changed, and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer
from pyspark.sql import DataFrame

from deltasnap_assets.command.rows.row_options import RowDestination
from deltasnap_assets.command.rows.row_output import collect_rows, valid_condition, write_collected
from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.terminal import working
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_core import DeltaLog, TableLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesRequest:
    """The changes to read. The fields are the arguments of DeltaLog.row_changes."""

    first: int
    last: int
    key: tuple[str, ...] | None = None
    net: bool = False
    where: str | None = None
    columns: tuple[str, ...] | None = None


def write_changed_rows(
    path: str, storage_options: Mapping[str, Any], request: ChangesRequest, destination: RowDestination
) -> None:
    """Write the rows that versions changed, in the order of the versions.

    Errors: typer.BadParameter for an invalid condition or column; JavaError; FaultyTableError if a fault of the log is
    the cause; the errors of DeltaLog.row_changes and of `write_rows`.
    """
    with explaining(path, storage_options, request.first, request.last):
        TableLog.for_path(path, storage_options).at(version=request.last)  # a wrong version does not start Spark
        with working("Reading"), spark_aside(path), valid_condition(request.where):
            rows = collect_rows(_changes(delta_log_of(path, storage_options), request), destination.limit)
    write_collected(rows, destination)


def _changes(log: DeltaLog, request: ChangesRequest) -> DataFrame:
    try:
        with valid_condition(request.where):
            found = log.row_changes(
                request.first,
                request.last,
                key=request.key,
                net=request.net,
                where=request.where,
                columns=request.columns,
            )
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--key or --columns") from error
    return found.orderBy("_commit_version")
