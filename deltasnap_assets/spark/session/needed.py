"""Predicts from the stored versions of a table whether its next refresh needs Spark."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_core import DeltaSnapError, SnapshotStore

_AT_ONCE = 16


def reason_for_spark(settings: Settings, tables: Iterable[TableSettings] | None = None) -> str | None:
    """Return why the next versions of some tables (None: all) need Spark; None: the driver can probably handle them.

    Costs a listing and a manifest of the store for each table. It cannot predict a commit too large for the driver.
    """
    store = SnapshotStore.open(None, settings.storage, settings.storage_options, engine=settings.spark.engine)

    def reason(table: TableSettings) -> str | None:
        if table.materialize_as == "table":
            return f"Spark writes the rows of table {table.name} (materialize_as: table)"
        try:
            why = store.reason_for_spark(table.name)
        except DeltaSnapError as error:
            why = str(error)
        return None if why is None else f"table {table.name}: {why}"

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="deltasnap-store") as pool:
        return next((why for why in pool.map(reason, settings.tables if tables is None else tables) if why), None)
