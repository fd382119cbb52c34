"""The catalogs of a Spark session: Hive's metastore, and every other one that is configured there.

Without a Delta jar, Spark describes no Delta table (DATA_SOURCE_NOT_FOUND). SHOW TABLE EXTENDED needs no data source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from deltasnap_core.errors import CatalogError, one_line
from deltasnap_core.log.catalog import DELTA, CatalogTable, not_delta
from deltasnap_core.redaction import hide_secrets
from deltasnap_core.replay.sessions import SparkProvider, provider_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FIELD = re.compile(r"^(Provider|Location|Type|Comment|Owner): (.*)$", re.MULTILINE)
_MISSING = ("SCHEMA_NOT_FOUND", "TABLE_OR_VIEW_NOT_FOUND", "CATALOG_NOT_FOUND")
_MAX_SHOWN = 300


class SparkCatalog:
    """The catalogs of a session. Names are `database.table` or `catalog.database.table`. It gives no credentials."""

    def __init__(self, spark: SparkSession | SparkProvider) -> None:
        """spark: a session, or a provider of one."""
        self._sessions = provider_of(spark)

    def __repr__(self) -> str:
        return "SparkCatalog()"

    def table(self, name: str) -> CatalogTable:
        """See Catalog."""
        namespace, table = _parts(name)
        found = [row for row in self._rows(name, namespace, table) if row["tableName"].lower() == table.lower()]
        if not found:
            raise CatalogError(table=name, reason="the catalog of the session has no such table")
        fields = _fields(name, found[0]["information"])
        if not _is_delta(fields):
            what = f"a table of the format {fields.get('Provider', 'hive').lower()}"
            raise not_delta(name, "a view" if "VIEW" in fields.get("Type", "") else what)
        return CatalogTable.of(name, fields.get("Location"), comment=fields.get("Comment"), owner=fields.get("Owner"))

    def tables(self, pattern: str) -> list[str]:
        """See Catalog. The last two parts may be patterns."""
        namespace, table = _parts(pattern)
        *catalog, database = namespace
        within = f" IN {_quoted(catalog)}" if catalog else ""
        databases = [row["namespace"] for row in self._query(pattern, f"SHOW NAMESPACES{within}")]
        return sorted(
            ".".join([*catalog, each, row["tableName"]])
            for each in (name.rpartition(".")[2].strip("`") for name in databases)
            if fnmatchcase(each, database)
            for row in self._rows(pattern, [*catalog, each], "*")
            if fnmatchcase(row["tableName"], table) and _is_delta(dict(_FIELD.findall(row["information"])))
        )

    def _rows(self, name: str, namespace: list[str], table: str) -> Iterator[Any]:
        like = re.sub(r"\W", "*", table)  # a pattern of Spark: `*` and `|`; the rows are compared by the caller
        yield from self._query(name, f"SHOW TABLE EXTENDED IN {_quoted(namespace)} LIKE '{like}'")

    def _query(self, name: str, sql: str) -> list[Any]:
        try:
            return self._sessions.session("the names of tables").sql(sql).collect()
        except CatalogError:  # of the provider
            raise
        except Exception as error:  # noqa: BLE001  # PySpark is loaded by the session only, and a catalog has its own
            condition = getattr(error, "getCondition", lambda: None)()
            reason = f"the catalog of the session fails: {one_line(str(error))[:_MAX_SHOWN]}"
            if condition in _MISSING:
                reason = f"the catalog of the session has no such table ({condition})"
            raise CatalogError(table=name, reason=reason) from hide_secrets(error)


def _parts(name: str) -> tuple[list[str], str]:
    parts = name.split(".")
    if len(parts) not in (2, 3) or not all(parts):
        raise CatalogError(table=name, reason="expected a name such as database.table or catalog.database.table")
    return parts[:-1], parts[-1]


def _quoted(parts: list[str]) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def _fields(name: str, information: str) -> dict[str, str]:
    """Return the fields of a description: lines of text, in which a comment may have lines that look like others."""
    found = _FIELD.findall(information)
    if len({field for field, _ in found}) < len(found):
        raise CatalogError(table=name, reason="its description is ambiguous: a comment or property has several lines")
    return dict(found)


def _is_delta(fields: dict[str, str]) -> bool:
    """Return whether fields are of a Delta table. A view has no provider of its own, but its comment may look so."""
    return fields.get("Provider", "").lower() == DELTA and "VIEW" not in fields.get("Type", "")
