"""The logs and the store of a configuration, for operations without Spark. Does not load Dagster."""

from __future__ import annotations

from contextlib import suppress

from deltasnap_assets.quantities import DAY_MS
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.located import located
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import (
    DeltaHistoryManager,
    SnapshotState,
    SnapshotStore,
    TableLog,
)
from deltasnap_core.errors import CatalogError
from deltasnap_core.support import DailyRows, LogListing, properties_in_force, redacted

_DAYS = 29  # the days that `rows_expected` compares


def uri_of(table: TableSettings) -> str:
    """Return the URL of a table without credentials; its name, if its catalog does not know it now."""
    with suppress(CatalogError):
        return redacted(located(table).path)
    return table.place


def log_of(table: TableSettings) -> TableLog:
    """Return the log of a configured table. If its catalog fails, everything that reads the log raises CatalogError."""
    try:
        table = located(table)
    except CatalogError as error:
        return TableLog.unreachable(table.place, error)
    return TableLog.for_path(table.path, table.storage_options)


def history_of(table: TableSettings, listing: LogListing, latest: SnapshotState | None) -> DeltaHistoryManager:
    """Return the history of a listed log.

    latest: the stored state of its latest version; None: not stored. Then commits are read to find the properties.
    """
    if latest is None or latest.metadata is None:
        return log_of(table).history_of(listing)
    configuration = properties_in_force(latest.protocol, latest.metadata)
    return log_of(table).history_of(listing, lambda: configuration)


def daily_rows_of(table: TableSettings, listing: LogListing, latest: SnapshotState | None, now_ms: int) -> DailyRows:
    """Return the rows that commits of the last days added, see `history_of`. It reads commits when it is used."""
    since = now_ms - _DAYS * DAY_MS
    first = next((v for v, commit in listing.commits.items() if commit.modification_time > since), None)
    times = {} if first is None else history_of(table, listing, latest).commit_timestamps(start=max(first - 1, 0))
    return DailyRows(store=log_of(table).store, commits=listing.commits, times_ms=times, now_ms=now_ms)


def store_of(settings: Settings) -> SnapshotStore:
    """Return the configured store, without a Spark session."""
    return SnapshotStore.open(None, settings.storage, settings.storage_options)
