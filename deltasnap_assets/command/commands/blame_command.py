"""`deltasnap blame`: the history of one row."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.arguments import InCatalog, StorageOptions, TablePath, table_at
from deltasnap_assets.command.output import AsJson, Form, chosen_format


def blame(
    path: TablePath,
    key: Annotated[
        list[str],
        typer.Option(metavar="NAME=VALUE", help="A column of the key and its value, as id=7. Repeatable."),
    ],
    first: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="The first version to read. Default: the earliest that can be judged."),
    ] = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show the history of one row: who inserted, updated and deleted it, with the old and the new values.

    Needs Spark to read the data files; those that cannot have the key are skipped. Of a configured table, versions that
    only the store still has are read too. Exits with 1 if no version has such a row.
    """
    form = chosen_format(form, as_json)
    location, options = table_at(path, option, catalog)
    values = dict[str, str]()
    for text in key:
        name, equals, value = text.partition("=")
        if not name or not equals or name in values:
            raise typer.BadParameter(f"Expected NAME=VALUE, each name once, found {text!r}.", param_hint="--key")
        values[name] = value
    from deltasnap_assets.command.table_on_spark import Place
    from deltasnap_assets.command.views.blame_view import show_history

    if not show_history(Place(text=path, catalog=catalog, path=location, options=options), values, first, form):
        raise typer.Exit(1)
