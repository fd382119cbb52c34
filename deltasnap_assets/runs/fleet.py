"""The tables of a fleet: the followed ones, and those that `discover` no longer finds or cannot follow."""

from __future__ import annotations

from typing import Any

from deltasnap_assets.runs.stores import store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.discovery import DiscoveryError, no_longer_found
from deltasnap_assets.settings.table_settings import TABLE_ASSET, default_asset, is_dagster_name
from deltasnap_core import Problem, ProblemKind, Where
from deltasnap_core.support import (
    TableStatus,
    logger_of,
    redacted,
)

_log = logger_of(__name__)


def fleet_of(settings: Settings, *, keep: bool = False) -> list[dict[str, Any]]:
    """Return the rows of followed and of unfollowed tables, see `SnapshotStore.fleet`. Errors: StorageError."""
    others = {name: TableStatus.of(problem) for name, problem in unfollowed_tables(settings).items()}
    paths = {table.name: table.place for table in settings.tables}
    names = [*paths, *(name for name in others if is_dagster_name(name))]
    rows: list[dict[str, Any]] = store_of(settings).fleet(names, keep=keep, conditions=others, paths=paths).to_pylist()
    return rows


def asset_of(settings: Settings, table_name: str) -> str | None:
    """Return the key of the asset of a table in the fleet; None: no asset can have its name."""
    found = (table.key_of(TABLE_ASSET) for table in settings.tables if table.name == table_name)
    return next(found, default_asset(table_name))


def unfollowed_tables(settings: Settings) -> dict[str, Problem]:
    """Return why tables are not followed: lost tables by name, those that have no name by path. `where.file`: the path.

    The store is read, and perhaps the folders of patterns, but no log. Errors: StorageError.
    """
    if not settings.discover:
        return {}
    return {redacted(path): problem for path, problem in settings.unfollowed.items()} | _lost_tables(settings)


def _lost_tables(settings: Settings) -> dict[str, Problem]:
    """Return the problems of stored tables whose log or folder is gone."""
    polls, followed = store_of(settings).polls, {table.name for table in settings.tables}
    found = {name: polls.read(name) for name in polls.table_names() if name not in followed}
    stored = {name: poll.path for name, poll in found.items() if poll is not None and poll.path}
    try:
        lost = no_longer_found(settings, stored)
    except DiscoveryError as error:  # then it is unknown whether they are lost
        _log.warning("%s", error)
        return {}
    return {name: Problem.of(ProblemKind.LOST_TABLE, Where.of(stored[name])) for name in lost}
