"""The AWS Glue Data Catalog. Needs the extra `glue`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any

from deltasnap_core.distribution import how_to_install
from deltasnap_core.errors import CatalogError
from deltasnap_core.log.catalog import DELTA, CatalogTable, name_parts, not_delta
from deltasnap_core.once import once
from deltasnap_core.redaction import hide_secrets, learn_options, safe_repr

_EXAMPLE = "database.table"
_MANIFESTS = "/_symlink_format_manifest"
"""The folder in a Delta table with the manifests of GENERATE. A table with symlink format is registered there."""
_MARKS = ("spark.sql.sources.provider", "table_type", "classification")
"""The parameters that Spark, Athena and the crawler set to `delta`."""
_TRANSIENT = ("Throttl", "TooManyRequests", "RequestLimitExceeded", "ServiceUnavailable", "Internal", "Timeout")


@safe_repr
class GlueCatalog:
    """Databases and tables of Glue. Names are `database.table`. It gives no credentials for the storage."""

    def __init__(self, *, catalog_id: str | None = None, profile_name: str | None = None, **options: Any) -> None:
        """Create a catalog; it is not reached yet.

        catalog_id: the account of the catalog; None: that of the credentials.
        options:    of boto3's client: `region_name`, `endpoint_url`, `aws_access_key_id` and so on.
        """
        self._catalog_id = catalog_id
        self._profile = profile_name
        self._options = options
        learn_options(options)

    def __repr__(self) -> str:
        return f"GlueCatalog(region={self._options.get('region_name')!r})"

    def table(self, name: str) -> CatalogTable:
        """See Catalog. A link to a table of another catalog is followed."""
        database, table = name_parts(name, _EXAMPLE)
        with _errors(name):
            found = self._client.get_table(**self._catalog, DatabaseName=database, Name=table)["Table"]
            if isinstance(target := found.get("TargetTable"), dict):
                place = {key: target[key] for key in ("CatalogId", "DatabaseName") if key in target}
                found = self._client.get_table(**place, Name=target.get("Name"))["Table"]
        if not is_delta(found):
            raise not_delta(name, _kind(found))
        return CatalogTable.of(name, _location(found), comment=found.get("Description"), owner=found.get("Owner"))

    def tables(self, pattern: str) -> list[str]:
        """See Catalog. Links are left out."""
        database, table = name_parts(pattern, _EXAMPLE)
        with _errors(pattern):
            databases = [each["Name"] for each in self._pages("get_databases", "DatabaseList")]
            return sorted(
                f"{each}.{found['Name']}"
                for each in databases
                if fnmatchcase(each, database)
                for found in self._pages("get_tables", "TableList", DatabaseName=each)
                if fnmatchcase(found["Name"], table) and is_delta(found)
            )

    def _pages(self, operation: str, key: str, **arguments: Any) -> Iterator[dict[str, Any]]:
        for page in self._client.get_paginator(operation).paginate(**self._catalog, **arguments):
            yield from page[key]

    @property
    def _catalog(self) -> dict[str, str]:
        return {} if self._catalog_id is None else {"CatalogId": self._catalog_id}

    @once
    def _client(self) -> Any:
        config = import_module("botocore.config").Config(
            connect_timeout=5, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 3}
        )
        session = import_module("boto3").Session(profile_name=self._profile)
        return session.client("glue", **{"config": config, **self._options})


def is_delta(table: Mapping[str, Any]) -> bool:
    """Return whether a table of Glue is registered as a Delta table, or with the manifests of one."""
    parameters = table.get("Parameters") or {}
    if any(str(parameters.get(mark, "")).lower() == DELTA for mark in _MARKS):
        return True
    return _MANIFESTS in f"{_descriptor(table).get('Location')}"


def _location(table: Mapping[str, Any]) -> str | None:
    """Return the folder of a Delta table: Spark registers it as a parameter, and a placeholder as the location."""
    descriptor = _descriptor(table)
    parameters = (descriptor.get("SerdeInfo") or {}).get("Parameters") or {}
    location = str(parameters.get("path") or descriptor.get("Location") or "")
    return location.partition(_MANIFESTS)[0] or None


def _descriptor(table: Mapping[str, Any]) -> Mapping[str, Any]:
    return table.get("StorageDescriptor") or {}


def _kind(table: Mapping[str, Any]) -> str:
    if "VIEW" in str(table.get("TableType")):
        return "a view"
    parameters = table.get("Parameters") or {}
    found = next((str(parameters[mark]) for mark in _MARKS if parameters.get(mark)), None)
    return "a table of unknown format" if found is None else f"a table of the format {found.lower()}"


@contextmanager
def _errors(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        reason = f"boto3 cannot be imported: {how_to_install('glue')}"
        raise CatalogError(table=name, reason=reason) from error
    except Exception as error:  # noqa: BLE001  # botocore is optional, and makes classes of errors at run time
        answer = getattr(error, "response", None)
        details = answer.get("Error", {}) if isinstance(answer, dict) else {}
        code, message = str(details.get("Code", "")), str(details.get("Message") or error)
        if code == "EntityNotFoundException":
            reason = f"Glue has no such table ({message.rstrip('.')})"
        else:
            reason = f"Glue answered {code}: {message}" if code else f"Glue cannot be reached: {message}"
        names = [code, *(kind.__name__ for kind in type(error).__mro__)]
        is_transient = any(part in each for each in names for part in _TRANSIENT) or "ConnectionError" in names
        raise CatalogError(table=name, reason=reason, is_transient=is_transient) from hide_secrets(error)
