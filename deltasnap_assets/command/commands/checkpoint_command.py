"""`deltasnap checkpoint`: writes a checkpoint into the log of a table."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from deltasnap_assets.command.arguments import StorageOptions, TablePath, storage_options
from deltasnap_assets.quantities import counted


def checkpoint(
    path: TablePath,
    version: Annotated[int | None, typer.Option(metavar="N", min=0, help="The version. Default: the latest.")] = None,
    option: StorageOptions = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write a checkpoint into the log of a table, so that readers can skip earlier commits. Deletes nothing.

    The checkpoint is read back and compared with the version before it is published. If the version already has a
    checkpoint, nothing is written. Tables with unknown writer features are rejected.
    """
    from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
    from deltasnap_assets.command.views.condition_view import explaining

    options = storage_options(option)
    with explaining(path, options, *(() if version is None else (version,))), spark_aside(path):
        written = delta_log_of(path, options).checkpoint(version)
    if as_json:
        typer.echo(json.dumps(written.to_json()))
        return
    name = written.files[0].name
    if not written.is_new:
        typer.echo(f"Version {written.version} already has a checkpoint: {name}. Nothing was written.")
        return
    others = len(written.files) - 1
    with_sidecars = f" and {counted(others, 'sidecar')}" if others else ""
    actions, files = written.num_of_actions or 0, written.num_of_add_files or 0
    contents = f"{counted(actions, 'action')}, {counted(files, 'file')}"
    typer.echo(f"Wrote {name}{with_sidecars}: {contents}, {written.size_in_bytes:,} bytes.")
    if not written.is_hint_written:
        typer.echo(
            "_last_checkpoint was not changed: the log has a newer checkpoint, or the storage rejected the file."
        )
