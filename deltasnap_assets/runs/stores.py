"""The logs and the store of a configuration, for operations without Spark. Does not load Dagster."""

from __future__ import annotations

from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import SnapshotStore, TableLog


def log_of(table: TableSettings) -> TableLog:
    """Return the log of a configured table."""
    return TableLog.for_path(table.path, table.storage_options)


def store_of(settings: Settings) -> SnapshotStore:
    """Return the configured store, without a Spark session."""
    return SnapshotStore.open(None, settings.storage, settings.storage_options)
