"""`deltasnap repair`: makes a damaged log readable again, from the store."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.arguments import InCatalog, StorageOptions, TablePath, table_at
from deltasnap_assets.command.output import AsJson, Form, chosen_format, print_json


def repair(
    path: TablePath,
    write: Annotated[
        bool, typer.Option("--write/--dry-run", help="Whether to write. By default, only shows what would be written.")
    ] = False,
    stored_as: Annotated[
        str | None,
        typer.Option(
            "--stored-as",
            metavar="NAME",
            help="The name of the table in the store. Default: PATH, or the configured table at PATH.",
        ),
    ] = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Make a damaged log readable again, for every reader, from the versions in the store. Deletes nothing.

    Shows what it would write: the checkpoint of the first stored version after the damage, whose commit and all later
    ones are whole. With --write, it writes the checkpoint, reads it back and compares it, and writes _last_checkpoint.
    Versions before it stay unreadable in the log. Exits with 1 if the log cannot be repaired. Writing needs Spark.
    """
    is_json = chosen_format(form, as_json, has_rows=False) == "json"
    place, options = table_at(path, option, catalog)
    from deltasnap_assets.command.views.repair_view import print_repair, repaired, stored_name

    found = repaired(place, options, stored_name(path, place, stored_as), write=write)
    if is_json:
        print_json(found.to_json())
    else:
        print_repair(found)
