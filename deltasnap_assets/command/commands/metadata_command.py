"""`deltasnap table`: the rows of a metadata table."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

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
from deltasnap_assets.command.rows.row_options import FormatOption, LimitOption, OutOption, row_destination

MetadataTable = Literal[
    "files",
    "history",
    "properties",
    "partitions",
    "column_stats",
    "column_trends",
    "tombstones",
    "entries",
    "versions",
    "log_files",
    "optimize_candidates",
    "vacuum_candidates",
    "file_problems",
    "storage_files",
]
"""The names of the members of `deltasnap_core.Table`."""
_NAMES = ", ".join(get_args(MetadataTable))


def table(
    path: TablePath,
    name: Annotated[MetadataTable, typer.Argument(metavar="NAME", help=f"The metadata table: {_NAMES}.")],
    version: AtVersion = None,
    timestamp: AtTime = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="A condition on the columns of the metadata table. Needs Spark.")
    ] = None,
    columns: Annotated[str | None, typer.Option(metavar="NAMES", help="Columns, separated by commas.")] = None,
    limit: LimitOption = None,
    form: FormatOption = None,
    out: OutOption = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
) -> None:
    """Show a metadata table of a version: its files, history, properties, partitions and more.

    `history`, `properties`, `versions` and `log_files` need no Spark; nor do `files` and `column_trends` of a version
    with up to 50,000 file actions.
    """
    timestamp_ms = time_of_version(version, timestamp)
    path, options = table_at(path, option, catalog)
    destination = row_destination(form, out, limit)
    names = None if columns is None else column_names(columns)
    from deltasnap_assets.command.views.metadata_view import write_metadata_table
    from deltasnap_assets.command.views.scan_view import ScanRequest

    request = ScanRequest(version=version, timestamp_ms=timestamp_ms, where=where, columns=names)
    write_metadata_table(path, options, name, request, destination)
