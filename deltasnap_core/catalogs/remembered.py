"""A catalog that is asked seldom: many polls of a table need one request."""

from __future__ import annotations

import time
from collections.abc import Callable

from deltasnap_core.errors import CatalogError
from deltasnap_core.log.catalog import Catalog, CatalogTable

_SECONDS, _SECONDS_OF_ERROR = 300.0, 30.0


class RememberedCatalog:
    """Remembers the tables of a catalog for five minutes, and its errors for half a minute.

    A table that was dropped and created again elsewhere is found after that time. Temporary credentials are still
    replaced before they expire.
    """

    def __init__(self, catalog: Catalog, clock: Callable[[], float] = time.monotonic) -> None:
        """clock: in seconds."""
        self._catalog, self._clock = catalog, clock
        self._found: dict[str, tuple[float, CatalogTable | CatalogError]] = {}

    def remember(self, table: CatalogTable) -> None:
        """Remember a table that is known from elsewhere, as if the catalog had been asked now."""
        self._found[table.name] = self._clock() + _SECONDS, table

    def has(self, name: str) -> bool:
        """Return whether a table is remembered."""
        until, found = self._found.get(name, (0.0, None))
        return isinstance(found, CatalogTable) and self._clock() < until

    def table(self, name: str) -> CatalogTable:
        """See Catalog."""
        until, found = self._found.get(name, (0.0, None))
        if found is None or self._clock() >= until:
            try:
                found = self._catalog.table(name)
            except CatalogError as error:
                found = error
            seconds = _SECONDS_OF_ERROR if isinstance(found, CatalogError) else _SECONDS
            self._found[name] = self._clock() + seconds, found
        if isinstance(found, CatalogError):
            raise found
        return found

    def tables(self, pattern: str) -> list[str]:
        """See Catalog. Never remembered."""
        return self._catalog.tables(pattern)
