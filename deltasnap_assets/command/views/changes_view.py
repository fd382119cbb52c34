"""`deltasnap changes`: reads the rows that versions changed, and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import typer
from pyspark.sql import DataFrame

from deltasnap_assets.command.rows.row_options import RowDestination
from deltasnap_assets.command.rows.row_output import collect_rows, valid_condition, write_collected
from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
from deltasnap_assets.command.terminal import working
from deltasnap_assets.command.views.condition_view import explaining
from deltasnap_core import DeltaLog, TableLog
from deltasnap_core.support import RowChangeOptions


def write_changed_rows(
    path: str,
    storage_options: Mapping[str, Any],
    versions: tuple[int, int],
    destination: RowDestination,
    **wanted: Unpack[RowChangeOptions],
) -> None:
    """Write the rows that versions changed, in the order of the versions. versions: the first and the last.

    Errors: typer.BadParameter for an invalid condition or column; JavaError; FaultyTableError if a fault of the log is
    the cause; the errors of DeltaLog.row_changes and of `write_rows`.
    """
    where = wanted.get("where")
    with explaining(path, storage_options, *versions):
        TableLog.for_path(path, storage_options).at(version=versions[1])  # a wrong version does not start Spark
        with working("Reading"), spark_aside(path), valid_condition(where):
            rows, is_cut = collect_rows(
                _changes(delta_log_of(path, storage_options), versions, wanted), destination.limit
            )
    write_collected(rows, destination, is_cut=is_cut)


def _changes(log: DeltaLog, versions: tuple[int, int], wanted: RowChangeOptions) -> DataFrame:
    try:
        with valid_condition(wanted.get("where")):
            found = log.row_changes(*versions, **wanted)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--key or --columns") from error
    return found.orderBy("_commit_version")
