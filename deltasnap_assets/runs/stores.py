"""The logs and the store of a configuration, for operations without Spark. Does not load Dagster."""

from __future__ import annotations

from typing import Any

from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.settings.discovery import DiscoveryError, no_longer_found
from deltasnap_core import SnapshotStore, TableLevel, TableLog, TableStatus, logger_of

_log = logger_of(__name__)


def log_of(table: TableSettings) -> TableLog:
    """Return the log of a configured table."""
    return TableLog.for_path(table.path, table.storage_options)


def store_of(settings: Settings) -> SnapshotStore:
    """Return the configured store, without a Spark session."""
    return SnapshotStore.open(None, settings.storage, settings.storage_options)


def fleet_of(settings: Settings, *, keep: bool = False) -> list[dict[str, Any]]:
    """Return the rows of all followed tables and of lost ones, see `SnapshotStore.fleet`. Errors: StorageError."""
    lost = {name: status for name, (_, status) in lost_tables(settings).items()}
    names = [*(table.name for table in settings.tables), *lost]
    rows: list[dict[str, Any]] = store_of(settings).fleet(names, keep=keep, conditions=lost).to_pylist()
    return rows


def lost_tables(settings: Settings) -> dict[str, tuple[str, TableStatus]]:
    """Return the path and the condition of each table that `discover` found earlier but finds no longer, by name.

    No asset is left that could report it. The store is read, no log. Errors: StorageError.
    """
    if not settings.discover:
        return {}
    store, followed = store_of(settings), {table.name for table in settings.tables}
    polls = {name: store.polls.read(name) for name in store.table_names() if name not in followed}
    stored = {name: poll.path for name, poll in polls.items() if poll is not None and poll.path}
    try:
        lost = no_longer_found(settings, stored)
    except DiscoveryError as error:  # then nobody knows whether they are lost
        _log.warning("%s", error)
        return {}
    return {name: (stored[name], _lost_status(stored[name])) for name in lost}


def _lost_status(path: str) -> TableStatus:
    return TableStatus(
        level=TableLevel.WARNED,
        reason=f"This table is in the store, but {path} is no Delta table any more and is not followed.",
        advice="Restore its log. If the table was dropped, delete its folder from the store.",
    )
