"""`deltasnap bisect`: the version that broke an expectation."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.arguments import InCatalog, StorageOptions, TablePath, column_names, table_at
from deltasnap_assets.command.output import AsJson, Form, chosen_format
from deltasnap_assets.command.rows.row_options import LimitOption


def bisect(
    path: TablePath,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="A condition on rows. By default, no row is expected to match.")
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="none, or `count <= 10` with =, !=, <, <=, > or >=: the number of rows."),
    ] = None,
    unique: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Columns whose values no two rows are expected to share. Reads all rows."),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="PRESENT", help="A data file that is expected to be there, as in the log.")
    ] = None,
    good: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="A version that holds. Default: the earliest that can be judged."),
    ] = None,
    bad: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="A version that fails. Default: the latest.")
    ] = None,
    first: Annotated[
        bool, typer.Option("--first", help="Judge every version in order: then it is exactly the first that fails.")
    ] = False,
    limit: LimitOption = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Find the version that broke an expectation, as git bisect does. Needs Spark to read the data files.

    Shows the commit, the files and the rows. Reads only data files that differ between versions and may have matching
    rows. Of a configured table, versions that only the store still has are searched too. Exits with 1 if there is
    nothing to find: the bad version holds, or the good one already fails.
    """
    form = chosen_format(form, as_json)
    location, options = table_at(path, option, catalog)
    columns = () if unique is None else column_names(unique, "--unique")
    from deltasnap_assets.command.table_on_spark import Place
    from deltasnap_assets.command.views.bisect_view import show_bisection

    place = Place(text=path, catalog=catalog, path=location, options=options)
    wanted = {"where": where, "expect": expect, "unique": columns, "file": file, "good": good, "bad": bad}
    if not show_bisection(place, {**wanted, "first": first}, form, limit):
        raise typer.Exit(1)
