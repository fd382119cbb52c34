"""Commands about one table that may start Spark. Each has `--json`."""

from __future__ import annotations

from typing import Annotated

import typer

from deltasnap_assets.command.arguments import (
    AtTime,
    AtVersion,
    InCatalog,
    StorageOptions,
    TablePath,
    table_at,
    time_of_version,
)
from deltasnap_assets.command.endings import fail
from deltasnap_assets.command.output import AsJson, Form, chosen_format, print_json
from deltasnap_assets.quantities import HOUR_MS, counted


def inspect_table(
    path: TablePath,
    version: AtVersion = None,
    timestamp: AtTime = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
    commits: Annotated[int, typer.Option(metavar="N", min=1, help="The number of commits to show.")] = 10,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show a Delta table: protocol, schema, counts, log segment, checkpoint lag, history. Needs no configuration.

    Faults of the table come first, on stderr. If the latest version cannot be read, shows the newest readable one.
    Exits with 1 unless the requested version is shown completely.
    """
    timestamp_ms = time_of_version(version, timestamp)
    is_json = chosen_format(form, as_json, has_rows=False) == "json"
    path, options = table_at(path, option, catalog)
    from deltasnap_assets.command.views.inspect_view import inspect
    from deltasnap_assets.command.views.inspection import Wanted

    wanted = Wanted(version=version, timestamp_ms=timestamp_ms, commits=commits)
    if not inspect(path, options, wanted, as_json=is_json):
        raise typer.Exit(1)


def checkpoint(
    path: TablePath,
    version: AtVersion = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Write a checkpoint into the log of a table, so that readers can skip earlier commits. Deletes nothing.

    The checkpoint is read back and compared with the version before it is published. If the version already has a
    checkpoint, nothing is written. Tables with unknown writer features are rejected.
    """
    from deltasnap_assets.command.table_on_spark import delta_log_of, spark_aside
    from deltasnap_assets.command.views.condition_view import explaining

    form = chosen_format(form, as_json, has_rows=False)
    path, options = table_at(path, option, catalog)
    with explaining(path, options, *(() if version is None else (version,))), spark_aside(path):
        written = delta_log_of(path, options).checkpoint(version)
    if form == "json":
        print_json(written.to_json())
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
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show what VACUUM would delete: files and bytes by folder and age, and the versions that would lose files.

    Lists the folder of the table and reads every commit. Needs Spark. Deletes nothing.
    """
    if not dry_run:
        fail("deltasnap never deletes files. Add --dry-run to see what VACUUM would delete.", code=2)
    form = chosen_format(form, as_json)
    path, options = table_at(path, option, catalog)
    retention_ms = None if retain is None else int(retain * HOUR_MS)
    from deltasnap_assets.command.views.vacuum_view import show_vacuum

    show_vacuum(path, options, retention_ms=retention_ms, form=form)


def verify(
    path: TablePath,
    version: AtVersion = None,
    option: StorageOptions = None,
    catalog: InCatalog = None,
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show data files and deletion vectors that are missing in storage, and files with another size than in the log.

    Lists the folder of the table, and opens no data file. Needs Spark.
    """
    form = chosen_format(form, as_json)
    path, options = table_at(path, option, catalog)
    from deltasnap_assets.command.views.verify_view import show_file_problems

    show_file_problems(path, options, version, form)
