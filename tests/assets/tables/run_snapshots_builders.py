"""Builders for the tests of run snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from deltasnap_assets.settings.config import Settings, SparkSettings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core.replay.sessions import provider_of
from deltasnap_core.snapshot.delta_log import DeltaLog


def settings_of(folder: Path, use: Literal["auto", "always"] = "auto") -> Settings:
    table = TableSettings(name="events", path=str(folder / "events"))
    return Settings(storage=str(folder / "store"), tables=(table,), spark=SparkSettings(use=use))


def run_of(
    spark: Any, folder: Path, use: Literal["auto", "always"] = "auto", *, queries_ahead: bool = False
) -> tuple[RunSnapshots, TableSettings]:
    DeltaLog.clear_cache()
    settings = settings_of(folder, use)
    return RunSnapshots(settings, provider_of(spark), queries_ahead=queries_ahead), settings.tables[0]


def refresh(snapshots: RunSnapshots, table: TableSettings, versions: Sequence[int]) -> None:
    """The requests of the five assets and the checks of a run."""
    messages: list[str] = []

    def progress(what: str, done: int, total: int) -> None:
        messages.append(what)

    assert list(snapshots.log_segments(table, versions)) == list(versions)
    manifests = snapshots.ensure_stored(table, versions, progress)
    assert [manifest.commit is not None for manifest in manifests.values()] == [True] * len(versions)
    for _ in range(3):
        assert list(snapshots.ensure_stored(table, versions, progress)) == list(versions)
    assert snapshots.stored_versions(table)[-1] == versions[-1]
    assert snapshots.versions.manifests(table.name, versions) == manifests
    assert list(snapshots.versions.states(table.name, versions)) == list(versions)
