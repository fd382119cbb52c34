"""`deltasnap demo`: the demo table written, each of its versions materialized, and what was found shown."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import track

from deltasnap_assets.config import Settings, TableSettings, demo_settings
from deltasnap_assets.demo import FIRST_LIFE_VERSIONS, NEWS_VERSIONS, grow, version_count
from deltasnap_assets.terminal_run import refresh_tables
from deltasnap_assets.version_table import version_table
from deltasnap_core.log.delta_history_manager import DeltaHistoryManager
from deltasnap_core.protocol.file_names import LOG_FOLDER
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.urls import join_url, to_url
from deltasnap_core.store.snapshot_store import SnapshotStore

NEXT_STEPS = """\
[bold]What to do next[/bold]
  deltasnap ui                       the assets, their checks and plots in Dagster, new commits as they arrive
  deltasnap demo                     a few more commits, and only those refreshed
  deltasnap inspect {path}   this table, or any other
  deltasnap.yaml                     your own tables: see README.md, Your own tables"""


def run_demo(folder: Path) -> bool:
    """Write or continue the demo table below `folder`, refresh it, show its versions; False where that failed."""
    settings = demo_settings(folder)
    table = settings.tables[0]
    console = Console()
    before = version_count(Path(table.path))
    wanted = FIRST_LIFE_VERSIONS if before < FIRST_LIFE_VERSIONS else before + NEWS_VERSIONS
    what = f"Writing versions {before} to {wanted - 1}"
    for _ in track(grow(Path(table.path), wanted), what, total=wanted - before, console=console):
        pass
    if not refresh_tables(settings, [table.name]):
        return False
    show_versions(console, settings, table, first=before if before >= FIRST_LIFE_VERSIONS else 0)
    console.print(NEXT_STEPS.format(path=Path(table.path).relative_to(folder)), highlight=False)
    return True


def show_versions(console: Console, settings: Settings, table: TableSettings, *, first: int) -> None:
    """Print what is stored of the versions from `first` on."""
    store = SnapshotStore.open(None, settings.storage)
    manager = DeltaHistoryManager(FsspecLogStore(), join_url(to_url(table.path), LOG_FOLDER))
    history = manager.get_history(start=first)
    versions = [version for version in store.versions(table.name) if version >= first]
    console.print(version_table(store, table.name, versions, {entry.version: entry.operation for entry in history}))
