"""Finds the table of a catalog: the only place where a name becomes a path."""

from __future__ import annotations

from deltasnap_assets.settings.config import TableSettings
from deltasnap_core.errors import CatalogError
from deltasnap_core.support import with_own_options


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
