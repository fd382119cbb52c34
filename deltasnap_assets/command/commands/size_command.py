"""`deltasnap size`: the storage bill of tables."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from deltasnap_assets.command.arguments import InCatalog, StorageOptions, storage_options
from deltasnap_assets.command.completion import table_names
from deltasnap_assets.command.output import AsJson, Form, chosen_format

Grouping = Literal["partition", "age", "writer"]


def size(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET",
            help="Names of tables, folders or URLs; * and ? match. Default: all configured tables.",
            autocompletion=table_names,
        ),
    ] = None,
    listing: Annotated[
        bool, typer.Option("--listing/--no-listing", help="Whether to list the folders, which finds orphans.")
    ] = True,
    by: Annotated[
        Grouping | None,
        typer.Option(metavar="GROUPS", help="Group the files: by partition, age, or writer (operation and job)."),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(metavar="MONEY", min=0, help="The price of a GB (10^9 bytes) for a month, as 0.023."),
    ] = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show what the storage of tables is used for: live files, time travel, what VACUUM may free, orphans.

    Each file below the folder of a table has one class, and the classes add up to the folder. So do the groups of
    --by. Reads every commit. Needs Spark. Exits with 1 if a table cannot be read.
    """
    if by is not None and not listing:
        raise typer.BadParameter("Groups need the listing.", param_hint="--by")
    form, options = chosen_format(form, as_json), storage_options(option)
    from deltasnap_assets.command.targets import configured_targets, targets_of
    from deltasnap_assets.command.views.size_view import show_bills

    found = targets_of(targets, options, catalog) if targets else configured_targets()
    show_bills(found, form, by, price, list_files=listing)
