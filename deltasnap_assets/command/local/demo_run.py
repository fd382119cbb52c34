"""`deltasnap demo`: writes the demo table, materializes each of its versions, and prints the result."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from deltasnap_assets.command.terminal import Verbosity
from deltasnap_assets.command.views.refresh_view import refresh_tables
from deltasnap_assets.command.views.version_table import operation_text, version_table
from deltasnap_assets.demo.demo_table import FIRST_LIFE_VERSIONS, NEWS_VERSIONS, grow, version_count
from deltasnap_assets.settings.config import Settings, SparkSettings
from deltasnap_assets.settings.loading import CONFIG_FILE, DEMO_FOLDER, demo_settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import SnapshotStore, TableLog

_CONFIG = """\
# Written by `deltasnap demo`. `deltasnap ui` uses it if there is no other configuration.
storage: {storage}
tables:
  - {{name: {table.name}, path: {path}, poll_seconds: {table.poll_seconds}}}
"""
NEXT_STEPS = """\
[bold]Next steps[/bold]
  {command} ui             browse assets, plots and checks, and follow new commits
  {command} demo           add a few commits and refresh only those
  {command} init PATH...   generate a configuration for your own tables
  {command} inspect {path}"""


def run_demo(folder: Path, spark: SparkSettings) -> bool:
    """Write or continue the demo table below `folder`, refresh it, print its versions. Return False on failure."""
    settings = demo_settings(folder).model_copy(update={"spark": spark})
    table = settings.tables[0]
    console = Console()
    before = version_count(Path(table.path))
    wanted = FIRST_LIFE_VERSIONS if before < FIRST_LIFE_VERSIONS else before + NEWS_VERSIONS
    what = f"Writing versions {before} to {wanted - 1}"
    for _ in track(
        grow(Path(table.path), wanted), what, total=wanted - before, console=console, disable=Verbosity.is_quiet()
    ):
        pass
    config = folder / DEMO_FOLDER / CONFIG_FILE
    if not config.exists():
        storage, path = (os.path.relpath(each, config.parent) for each in (settings.storage, table.path))
        config.write_text(_CONFIG.format(table=table, storage=storage, path=path), encoding="utf-8")
    refreshed = refresh_tables(settings, [table.name])[table.name]
    if refreshed.error is not None:
        return False
    show_versions(console, settings, table, refreshed.versions)
    command = Path(sys.argv[0]) if shutil.which("deltasnap") is None else Path("deltasnap")
    console.print(
        NEXT_STEPS.format(command=command, path=Path(table.path).relative_to(folder)), highlight=False, soft_wrap=True
    )
    return True


def show_versions(console: Console, settings: Settings, table: TableSettings, versions: Sequence[int]) -> None:
    """Print stored versions, ascending; nothing if there are none."""
    if not versions:
        return
    history = TableLog.for_path(table.path).history.get_history(start=versions[0], end=versions[-1])
    operations = {commit.version: operation_text(commit) for commit in history}
    console.print(version_table(SnapshotStore.open(None, settings.storage), table.name, versions, operations))
