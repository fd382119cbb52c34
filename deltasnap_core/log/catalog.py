"""The interface to catalogs, which know tables by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from deltasnap_core.errors import CatalogError
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits, CatalogOptions
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.temporary_options import with_own_options
from deltasnap_core.storage.urls import to_url

DELTA = "delta"
_SCHEMES = ("file", "s3", "s3a", "s3n", "gs", "abfs", "abfss", "az", "adl", "wasb", "wasbs", "hdfs", "memory")
_LOCATION = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):/+[^/\s][^\x00-\x1f\x7f]*")
_MAX_SHOWN = 200


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A Delta table as its catalog describes it. Catalogs are untrusted: see `of`.

    name:            in the catalog.
    location:        URL of its folder.
    storage_options: to read it with fsspec: temporary credentials, if the catalog has any; otherwise empty. Of a table
                     that the catalog manages, CatalogOptions.
    comment, owner:  None: not set.
    format:          always `delta`.
    commits:         the ratified commits of a table that the catalog manages; otherwise `NO_CATALOG`.
    """

    name: str
    location: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    comment: str | None = None
    owner: str | None = None
    format: str = DELTA
    commits: CatalogCommits = NO_CATALOG

    @classmethod
    def of(cls, name: str, location: object, *, comment: object = None, owner: object = None) -> CatalogTable:
        """Return a Delta table from a catalog's answer.

        Errors: CatalogError if a catalog may not name the location: only folders of known storages are read.
        """
        if not isinstance(location, str) or not location:
            raise CatalogError(table=name, reason="the catalog has no location for it")
        match = _LOCATION.fullmatch(location)
        if match is None or match["scheme"].lower() not in _SCHEMES or "::" in location or ".." in location.split("/"):
            raise CatalogError(
                table=name,
                reason=f"the catalog gives the location {location[:_MAX_SHOWN]!r}. Expected a folder in a storage such "
                "as s3://, abfss://, gs:// or file:/",
            )
        return cls(name=name, location=to_url(location), comment=_text(comment), owner=_text(owner))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


class Catalog(Protocol):
    """Knows tables by name. Threads may share it.

    All methods raise CatalogError if the catalog cannot be reached or refuses, and for a name that it cannot have.
    """

    def table(self, name: str) -> CatalogTable:
        """Return a table. Errors: CatalogError also if there is no such table, or it is no Delta table."""
        ...

    def tables(self, pattern: str) -> list[str]:
        """Return the names of the Delta tables that match, ascending. pattern: a name with `*`, `?` or `[...]`."""
        ...


def located(catalog: Catalog, name: str, own: Mapping[str, Any] | None = None) -> CatalogTable:
    """Return a table, whose options ask for ratified commits. own: options that replace those of the catalog.

    Errors: CatalogError.
    """
    table = catalog.table(name)
    options = with_own_options(table.storage_options, own or {})
    if table.commits.is_known and not isinstance(options, CatalogOptions):
        options = CatalogOptions(options, lambda: catalog.table(name).commits)
    return replace(table, storage_options=options)


def name_parts(name: str, expected: str) -> list[str]:
    """Return the parts of a name or pattern. expected: an example. Errors: CatalogError for another number of parts."""
    found = name.split(".")
    if len(found) != expected.count(".") + 1 or not all(found):
        raise CatalogError(table=name, reason=f"expected a name such as {expected}")
    return found


def not_delta(name: str, what: object) -> CatalogError:
    """Return the error for a table of another kind. what: `a view`, or the name of its format."""
    return CatalogError(table=name, reason=f"it is not a Delta table, but {str(what)[:_MAX_SHOWN]}")
