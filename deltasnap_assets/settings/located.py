"""Finds the table of a catalog: the only place where a name becomes a path."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from deltasnap_assets.settings.catalogs import SparkCatalogSettings
from deltasnap_assets.settings.table_settings import DiscoverSettings, TableSettings
from deltasnap_core.errors import CatalogError
from deltasnap_core.support import LastPoll, SparkProvider, redacted, with_own_options


def located(table: TableSettings) -> TableSettings:
    """Return the settings of a table with its path, and with the storage options of its catalog, if it is in one.

    Catalogs are asked every few minutes. Errors: CatalogError.
    """
    if (catalog := table.catalog_settings) is None:
        return table
    try:
        found = catalog.catalog.table(table.name_in_catalog)
    except CatalogError as error:
        raise CatalogError(table=table.place, reason=error.reason, is_transient=error.is_transient) from error
    options = with_own_options(found.storage_options, table.storage_options)
    return table.model_copy(update={"path": found.location, "storage_options": options})


def use_session(tables: Iterable[TableSettings | DiscoverSettings], sessions: SparkProvider) -> None:
    """Look up tables and patterns of the session's catalog in this session, from now on."""
    for table in tables:
        if isinstance(catalog := table.catalog_settings, SparkCatalogSettings):
            catalog.use(sessions)


def needs_session(table: TableSettings | DiscoverSettings) -> bool:
    """Return whether a table or pattern is in the catalog of the Spark session."""
    return isinstance(table.catalog_settings, SparkCatalogSettings)


def recall(table: TableSettings, poll: LastPoll | None) -> None:
    """Use the location of a table that a run has recorded, if there is no session to look it up."""
    if isinstance(catalog := table.catalog_settings, SparkCatalogSettings) and poll is not None and poll.location:
        catalog.recall(table.name_in_catalog, poll.location)


def location_to_record(table: TableSettings, known: str | None) -> str | None:
    """Return where a table of the session's catalog is, without credentials; None: of another table. known: earlier."""
    if not needs_session(table):
        return None
    with suppress(CatalogError):
        return redacted(located(table).path)
    return known
