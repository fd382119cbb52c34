"""The tables of a fleet: the followed ones, and those that `discover` found earlier but finds no longer."""

from __future__ import annotations

from typing import Any, NamedTuple

from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.discovery import DiscoveryError, no_longer_found
from deltasnap_core import TableLevel, TableStatus, logger_of

_log = logger_of(__name__)


class LostTable(NamedTuple):
    """A stored table whose log or folder is gone. No asset is left that could report it."""

    path: str

    @property
    def status(self) -> TableStatus:
        """Its condition."""
        return TableStatus(
            level=TableLevel.WARNED,
            reason=f"This table is in the store, but {self.path} is no Delta table any more and is not followed.",
            advice="Restore its log. If the table was dropped, delete its folder from the store.",
        )


def fleet_of(settings: Settings, *, keep: bool = False) -> list[dict[str, Any]]:
    """Return the rows of all followed tables and of lost ones, see `SnapshotStore.fleet`. Errors: StorageError."""
    lost = {name: each.status for name, each in lost_tables(settings).items()}
    names = [*(table.name for table in settings.tables), *lost]
    paths = {table.name: table.path for table in settings.tables}
    rows: list[dict[str, Any]] = store_of(settings).fleet(names, keep=keep, conditions=lost, paths=paths).to_pylist()
    return rows


def lost_tables(settings: Settings) -> dict[str, LostTable]:
    """Return the lost tables by name. The store is read, and perhaps the folders of patterns, but no log.

    Errors: StorageError.
    """
    if not settings.discover:
        return {}
    polls, followed = store_of(settings).polls, {table.name for table in settings.tables}
    found = {name: polls.read(name) for name in polls.table_names() if name not in followed}
    stored = {name: poll.path for name, poll in found.items() if poll is not None and poll.path}
    try:
        return {name: LostTable(stored[name]) for name in no_longer_found(settings, stored)}
    except DiscoveryError as error:  # then nobody knows whether they are lost
        _log.warning("%s", error)
        return {}
