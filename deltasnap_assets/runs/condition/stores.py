"""The store of a configuration, for operations without Spark. Does not load Dagster."""

from __future__ import annotations

from deltasnap_assets.settings.config import Settings
from deltasnap_core import SnapshotStore


def store_of(settings: Settings) -> SnapshotStore:
    """Return the configured store, without a Spark session."""
    return SnapshotStore.open(None, settings.storage, settings.storage_options)
