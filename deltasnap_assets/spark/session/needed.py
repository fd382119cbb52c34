"""Predicts from the stored versions of a table whether its next refresh needs Spark."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.located import located
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import (
    DeltaSnapError,
    DeltaTableNotFoundError,
    SnapshotStore,
    TableLog,
)
from deltasnap_core.support import map_concurrently


def reason_for_spark(settings: Settings) -> str | None:
    """Return why the next versions of a table need Spark; None: the driver can probably handle all tables."""
    return next(iter(reasons_for_spark(settings, settings.tables).values()), None)


def reasons_for_spark(settings: Settings, tables: Iterable[TableSettings]) -> dict[str, str]:
    """Return why the next versions of tables need Spark, by name. The driver can probably handle the other tables.

    Costs a listing and a manifest of the store for each table, and a listing of the log if the reason is for Spark. It
    cannot predict a commit too large for the driver. A table that does not exist has no versions to store.
    """
    wanted = list(tables)
    store = SnapshotStore.open(None, settings.storage, settings.storage_options, engine=settings.spark.engine)
    found = zip(wanted, map_concurrently(partial(_reason, store), wanted), strict=True)
    return {table.name: why for table, why in found if why is not None}


def _reason(store: SnapshotStore, table: TableSettings) -> str | None:
    if table.materialize_as == "table":
        why: str | None = f"Spark writes the file lists of table {table.name} (materialize_as: table)"
    else:
        try:
            stored = store.reason_for_spark(table.name)
        except DeltaSnapError as error:
            stored = str(error)
        why = None if stored is None else f"table {table.name}: {stored}"
    return None if why is None or not _exists(table) else why


def _exists(table: TableSettings) -> bool:
    """Return whether a table may exist. Its runs report any other problem of its log."""
    try:
        found = located(table)
        TableLog.for_path(found.path, found.storage_options).latest()
    except DeltaTableNotFoundError:
        return False
    except DeltaSnapError:
        return True
    return True
