"""`deltasnap vacuum --dry-run`: what VACUUM would delete."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.exceptions import TyperException

from deltasnap_assets.command.arguments import StorageOptions, TablePath, storage_options
from deltasnap_assets.quantities import HOUR_MS


class NeverDeletesError(TyperException):
    """VACUUM was requested without `--dry-run`."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__("deltasnap never deletes files. Add --dry-run to see what VACUUM would delete.")


def vacuum(
    path: TablePath,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Required, because deltasnap never deletes files. Run VACUUM with a writer."),
    ] = False,
    retain: Annotated[
        float | None,
        typer.Option(
            metavar="HOURS", min=0, max=1_000_000, help="The retention. Default: delta.deletedFileRetentionDuration."
        ),
    ] = None,
    option: StorageOptions = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what VACUUM would delete: files and bytes by folder and age, and the versions that would lose files.

    Lists the folder of the table and reads every commit. Needs Spark. Deletes nothing.
    """
    if not dry_run:
        raise NeverDeletesError
    options = storage_options(option)
    retention_ms = None if retain is None else int(retain * HOUR_MS)
    from deltasnap_assets.command.views.vacuum_view import show_vacuum

    show_vacuum(path, options, retention_ms=retention_ms, as_json=as_json)
