"""Checks the location of a store: it must not be inside the folder of a table, or contain one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.located import located
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core import DeltaSnapError
from deltasnap_core.support import redacted, to_url

_LOCAL = "file://"
_ENDPOINT = ("endpoint_url", "account_name", "host", "port")


def check_store_place(settings: Settings) -> None:
    """Raise an error if the store is inside the folder of a followed table, or contains it. See `check_located`."""
    tables = ((table.path, table.storage_options) for table in settings.tables if table.path)
    check_place(settings.storage, settings.storage_options, tables)


def check_located(settings: Settings, table: TableSettings) -> None:
    """Raise that error for a table of a catalog: where it is was not known when the settings were checked.

    Errors: also CatalogError.
    """
    if table.catalog_settings is not None:
        found = located(table)
        check_place(settings.storage, settings.storage_options, [(found.path, found.storage_options)])


def check_place(store: str, store_options: Mapping[str, Any], tables: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise an error if a store is inside the folder of a table, or contains it. Reads no remote storage.

    Each would delete files of the other.
    tables: path or URL, and storage options. Different servers may have buckets with the same name.
    """
    roots, endpoint = _folders(store), _endpoint(store_options)
    for path, options in tables:
        if to_url(path).startswith(_LOCAL) or _endpoint(options) == endpoint:
            for root, folder in zip(roots, _folders(path), strict=True):
                if root.startswith(folder) or folder.startswith(root):
                    raise _misplaced(redacted(store), redacted(path), is_table_inside=not root.startswith(folder))


def _misplaced(store: str, table: str, *, is_table_inside: bool) -> DeltaSnapError:
    problem = (
        f"the table {table} is in the folder of the store {store}: pruning could delete the table's"
        if is_table_inside
        else f"the store {store} is in the folder of the table {table}: VACUUM would delete the store's"
    )
    return DeltaSnapError(f"storage: {problem} files. Set `storage` to a folder outside the tables.")


def _folders(path: str) -> tuple[str, str]:
    """Return the URL of a folder with a slash at its end, as written, and with the links of a local path resolved."""
    url = to_url(path)
    real = _LOCAL + os.path.realpath(url.removeprefix(_LOCAL)) if url.startswith(_LOCAL) else url
    return f"{url.rstrip('/')}/", f"{real.rstrip('/')}/"


def _endpoint(options: Mapping[str, Any]) -> list[Any]:
    client = options.get("client_kwargs")
    every = {**options, **(client if isinstance(client, Mapping) else {})}
    return [every.get(name) for name in _ENDPOINT]
