"""`deltasnap table`: the rows of a metadata table."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import typer

from deltasnap_assets.command.arguments import (
    InCatalog,
    StorageOptions,
    TablePath,
    column_names,
    table_at,
    timestamp_argument,
)
from deltasnap_assets.command.rows.row_options import FormatOption, LimitOption, OutOption, row_destination

MetadataTable = Literal[
    "files",
    "history",
    "properties",
    "partitions",
    "column_stats",
    "tombstones",
    "entries",
    "versions",
    "log_files",
    "optimize_candidates",
    "vacuum_candidates",
    "file_problems",
]
"""The names of the members of `deltasnap_core.Table`."""
_NAMES = ", ".join(get_args(MetadataTable))


def table(
    path: TablePath,
    name: Annotated[MetadataTable, typer.Argument(metavar="NAME", help=f"The metadata table: {_NAMES}.")],
    version: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The version to read. Default: the latest.")
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Read the version at this time (ISO 8601; without an offset: local time)."),
    ] = None,
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

    `history`, `properties`, and `files` of a version with up to 50,000 file actions, need no Spark.
    """
    if version is not None and timestamp is not None:
        raise typer.BadParameter("Give --version or --timestamp, not both.")
    path, options = table_at(path, option, catalog)
    destination = row_destination(form, out, limit)
    names = None if columns is None else column_names(columns)
    timestamp_ms = None if timestamp is None else timestamp_argument(timestamp)
    from deltasnap_assets.command.views.metadata_view import write_metadata_table
    from deltasnap_assets.command.views.scan_view import ScanRequest

    request = ScanRequest(version=version, timestamp_ms=timestamp_ms, where=where, columns=names)
    write_metadata_table(path, options, name, request, destination)
