"""`deltasnap verify`: files of a version that are missing in storage or have the wrong size."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.arguments import StorageOptions, TablePath, storage_options


def verify(
    path: TablePath,
    version: Annotated[int | None, typer.Option(metavar="N", min=0, help="The version. Default: the latest.")] = None,
    option: StorageOptions = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show data files and deletion vectors that are missing in storage, and files with another size than in the log.

    Lists the folder of the table, and opens no data file. Needs Spark.
    """
    options = storage_options(option)
    from deltasnap_assets.command.views.verify_view import show_file_problems

    show_file_problems(path, options, version, as_json=as_json)
