"""What a command reads: a configured table by its name, a folder, a URL, or the tables that a pattern matches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltasnap_assets.settings.catalogs import UnityCatalogSettings, is_table_name
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.discovery import DiscoveryError, matching, with_discovered
from deltasnap_assets.settings.loading import find_config, read_settings
from deltasnap_assets.settings.located import needs_session, use_session
from deltasnap_assets.settings.table_settings import TableSettings, is_dagster_name
from deltasnap_core.support import LOG_FOLDER, is_url

_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table to read, or why there is none. name: a configured name, otherwise a path or URL."""

    name: str
    table: TableSettings | None = None
    problem: str | None = None


def targets_of(text: str, options: Mapping[str, Any]) -> Iterator[Target]:
    """Yield the tables that an argument names: one, or those that a pattern matches.

    A configured name wins over a folder: `./events` is always the folder. options: for the storage of each table.
    Errors: those of the configuration, if the text may be a name in it.
    """
    if (table := configured(text)) is not None:
        together = {**table.storage_options, **options}
        yield Target(name=text, table=table.model_copy(update={"storage_options": together}))
        return
    try:
        paths = _paths(text, options) if is_pattern(text) else [text]
    except DiscoveryError as error:
        yield Target(name=text, problem=str(error))
        return
    for path in paths:
        yield Target(name=path, table=TableSettings(name=_name_of(path), path=path, storage_options=dict(options)))
    if not paths:
        yield Target(name=text, problem=f"The pattern {text} matches no Delta table. Correct the pattern.")


def is_pattern(place: str) -> bool:
    """Return whether a place may match several folders. The path of an existing folder is none."""
    if _PATTERN.search(place) is None:
        return False
    return is_url(place) or not os.path.exists(Path(place).expanduser())  # noqa: PTH110  # `Path.exists` raises PermissionError


def configured(text: str) -> TableSettings | None:
    """Return the table that has this name in the configuration file or in a catalog; None: there is none.

    Errors: ConfigError.
    """
    if not (is_dagster_name(text) or is_table_name(text)):
        return None
    file = find_config(os.environ, Path.cwd())
    if is_table_name(text):
        return _in_catalog(text, None if file is None else read_settings(file))
    if file is None:
        return None
    settings = read_settings(file)
    found = [table for table in settings.tables if table.name == text]
    if not found and settings.discover:
        found = [table for table in with_discovered(settings, lambda _: None).tables if table.name == text]
    return _with_session(found[0], settings) if found else None


def _in_catalog(text: str, settings: Settings | None) -> TableSettings | None:
    """Return the table with a name in a configured catalog, or in that of `DATABRICKS_HOST` if there is no such folder.

    None: no catalog has the first part of the name as its key. Then the text is a path.
    """
    catalogs = {} if settings is None else settings.catalogs
    for table in () if settings is None else settings.tables:
        if table.table == text:
            return _with_session(table, settings)
    key, host = text.partition(".")[0], os.environ.get("DATABRICKS_HOST")
    if key not in catalogs and host and text.count(".") == 2 and not Path(text).exists():
        values = {"type": "unity", "host": host, "token": os.environ.get("DATABRICKS_TOKEN")}
        catalogs = {key: UnityCatalogSettings.model_validate(values)}
    if key not in catalogs:
        return None
    table = TableSettings(name=_name_of(text), table=text)
    table.in_catalog(catalogs)
    return _with_session(table, settings)


def _with_session(table: TableSettings, settings: Settings | None) -> TableSettings:
    if settings is not None and needs_session(table):
        from deltasnap_assets.command.table_on_spark import sessions_of  # noqa: PLC0415  # slow to load

        use_session([table], sessions_of(settings.spark))
    return table


def _paths(pattern: str, options: Mapping[str, Any]) -> list[str]:
    found = matching(f"{pattern.rstrip('/')}/{LOG_FOLDER}", options)
    return [each.rstrip("/").removesuffix(f"/{LOG_FOLDER}") for each in found]


def _name_of(path: str) -> str:
    return re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2], flags=re.ASCII) or "table"
