"""`deltasnap changes`: the rows that versions changed."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.arguments import InCatalog, StorageOptions, TablePath, column_names, table_at
from deltasnap_assets.command.rows.row_options import FormatOption, LimitOption, OutOption, row_destination


def changes(
    path: TablePath,
    v1: Annotated[int, typer.Argument(metavar="V1", min=0, help="The first version of the range.")],
    v2: Annotated[int, typer.Argument(metavar="V2", min=0, help="The last version of the range.")],
    key: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Key columns, separated by commas; fields as address.city. Pairs deletes and inserts into updates.",
        ),
    ] = None,
    net: Annotated[
        bool, typer.Option("--net", help="Show the net change over the range; with --key, one for each key.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="A SQL condition on the columns, including _change_type and _commit_version."),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Columns, separated by commas; fields as address.city.")
    ] = None,
    limit: LimitOption = None,
    form: FormatOption = None,
    out: OutOption = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
) -> None:
    """Show the rows changed by the versions V1 to V2 (inclusive). Needs Spark to read the data files.

    Each row has _change_type (insert, delete, update_preimage, update_postimage), _commit_version and
    _commit_timestamp, as in Delta's change data feed. Without a feed, the changes are derived from the data files.
    """
    if v1 > v2:
        raise typer.BadParameter(f"Expected the first version before the last, found {v1} and {v2}.")
    path, options = table_at(path, option, catalog)
    destination = row_destination(form, out, limit)
    keys = None if key is None else column_names(key, "--key")
    names = None if columns is None else column_names(columns)
    from deltasnap_assets.command.views.changes_view import write_changed_rows

    write_changed_rows(path, options, (v1, v2), destination, key=keys, net=net, where=where, columns=names)
