"""What a command reads: a table of the configuration or of a catalog by its name, a path, or what a pattern matches."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import typer

from deltasnap_assets.command.databricks import HOST, unity_catalog
from deltasnap_assets.settings.catalogs import (
    NOT_A_NAME,
    CatalogSettings,
    GlueCatalogSettings,
    SparkCatalogSettings,
    is_table_name,
)
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.discovery import DiscoveryError, matching, with_discovered
from deltasnap_assets.settings.loading import find_config, read_settings
from deltasnap_assets.settings.table_settings import TableSettings, is_dagster_name
from deltasnap_core.errors import CatalogError
from deltasnap_core.support import LOG_FOLDER, is_url, to_url

_PATTERN = re.compile(r"[*?\[]")
_SEPARATOR = re.compile(r"[/\\.:]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A table to read, or why there is none. name: a configured name, a name in a catalog, a path or a URL."""

    name: str
    table: TableSettings | None = None
    problem: str | None = None

    @property
    def place(self) -> str:
        """What identifies the table: its name in a catalog, its URL; the name of a target without a table."""
        return self.name if self.table is None else self.table.table or to_url(self.table.path)


def targets_of(places: Iterable[str], options: Mapping[str, Any], catalog: str | None = None) -> Iterator[Target]:
    """Yield the tables that arguments name. Each names one, or those that a pattern matches.

    A name of the configuration or of a catalog wins over a folder: `./events` is always the folder.
    options: for the storage of each table. catalog: as in `named`.
    Errors: those of the configuration, if a text may be a name in it; typer.BadParameter.
    """
    for text in places:
        try:
            is_one = not is_pattern(text)
            found = [(text, named(text, catalog) or _at(text))] if is_one else _matched(text, options, catalog)
        except (CatalogError, DiscoveryError) as error:
            yield Target(name=text, problem=str(error))
            continue
        for name, table in found:
            together = {**table.storage_options, **options}
            yield Target(name=name, table=table.model_copy(update={"storage_options": together}))
        if not found:
            yield Target(name=text, problem=f"The pattern {text} matches no Delta table. Correct the pattern.")


def configured_targets() -> Iterator[Target]:
    """Yield the tables of the configuration. Errors: as `settings_with_session`."""
    from deltasnap_assets.command.table_on_spark import settings_with_session  # noqa: PLC0415  # slow to load

    for table in settings_with_session().tables:
        yield Target(name=table.name, table=table)


def is_pattern(place: str) -> bool:
    """Return whether a place may match several folders. The path of an existing folder is none."""
    if _PATTERN.search(place) is None:
        return False
    return is_url(place) or not os.path.exists(Path(place).expanduser())  # noqa: PTH110  # `Path.exists` raises PermissionError


def named(text: str, catalog: str | None = None) -> TableSettings | None:
    """Return the table with a name in the configuration or in a catalog; None: there is none, so the text is a path.

    catalog: `unity` or `glue` of the environment, or a key in `catalogs`, whose names do not begin with the key. None:
    the first part of a name is the key, or a catalog of the Unity Catalog of `DATABRICKS_HOST`.
    Errors: ConfigError; typer.BadParameter for an unknown catalog, or a text that is no name.
    """
    if catalog is not None and not is_table_name(text):
        message = f"With --catalog, expected the name of a table, such as main.silver.events, found {text!r}."
        raise typer.BadParameter(message)
    if catalog is not None or is_table_name(text):
        return next(iter(_in_catalog(text, catalog) or ()), None)
    settings = _settings() if is_dagster_name(text) else None
    return next((table for table in _configured(settings) if table.name == text), None)


def _matched(pattern: str, options: Mapping[str, Any], catalog: str | None) -> list[tuple[str, TableSettings]]:
    """Return name and table of what a pattern matches: names in a catalog, configured names, or else folders."""
    is_name = catalog is not None or is_table_name(pattern, is_pattern=True)
    if is_name and (tables := _in_catalog(pattern, catalog)) is not None:
        return [(str(table.table), table) for table in tables]
    configured = () if _SEPARATOR.search(pattern) else _configured(_settings())
    if matched := [(table.name, table) for table in configured if fnmatchcase(table.name, pattern)]:
        return matched
    logs = matching(f"{pattern.rstrip('/')}/{LOG_FOLDER}", options)
    paths = [each.rstrip("/").removesuffix(f"/{LOG_FOLDER}") for each in logs]
    return [(path, _at(path)) for path in paths]


def _settings() -> Settings | None:
    """Return the configuration, whose catalogs of the Spark session can start it; None: there is no file."""
    if (file := find_config(os.environ, Path.cwd())) is None:
        return None
    settings = read_settings(file)
    if of_session := [each for each in settings.catalogs.values() if isinstance(each, SparkCatalogSettings)]:
        from deltasnap_assets.command.table_on_spark import sessions_of  # noqa: PLC0415  # slow to load

        sessions = sessions_of(settings.spark)
        for each in of_session:
            each.use(sessions)
    return settings


def _configured(settings: Settings | None) -> Iterator[TableSettings]:
    """Yield the tables of the configuration, then those that its patterns find."""
    if settings is not None:
        yield from settings.tables
        if settings.discover:
            found = with_discovered(settings, lambda _: None).tables
            yield from (table for table in found if table not in settings.tables)


def _in_catalog(text: str, catalog: str | None) -> list[TableSettings] | None:
    """Return the table with a name in a catalog, or those that a pattern matches; None: the text names no catalog."""
    settings = _settings()
    configured = () if settings is None else settings.tables
    if catalog is None and (named_so := [table for table in configured if table.table == text]):
        return named_so[:1]
    key, found = _catalog_of(text, catalog, settings)
    if found is None:
        return None
    own = found.own_name(text) if catalog is None else text
    names = found.catalog.tables(own) if _PATTERN.search(text) else [own]
    known = {table.name_in_catalog: table for table in configured if table.catalog_settings is found}
    tables = list[TableSettings]()
    for name in names:
        full = f"{text.removesuffix(own)}{name}"
        if not is_table_name(full):
            raise CatalogError(table=full, reason=NOT_A_NAME)
        table = known.get(name) or TableSettings(name=_name_of(full), table=full, catalog=catalog)
        table.in_catalog({key: found})
        tables.append(table)
    return tables


def _catalog_of(text: str, catalog: str | None, settings: Settings | None) -> tuple[str, CatalogSettings | None]:
    """Return key and catalog of a name; no catalog: the text is a path. Errors: typer.BadParameter."""
    catalogs: Mapping[str, CatalogSettings] = {} if settings is None else settings.catalogs
    key = text.partition(".")[0] if catalog is None else catalog
    if key in catalogs:
        return key, catalogs[key]
    if catalog is None:
        is_name = os.environ.get(HOST) and text.count(".") == 2 and not _PATTERN.search(key) and not Path(text).exists()
        return key, unity_catalog(os.environ) if is_name else None
    match catalog:
        case "unity":
            return key, unity_catalog(os.environ)
        case "glue":
            return key, GlueCatalogSettings(type="glue")
    others = "".join(f", {each}" for each in catalogs)
    raise typer.BadParameter(f"No catalog named {catalog}. Choose unity, glue{others}.", param_hint="--catalog")


def _at(path: str) -> TableSettings:
    return TableSettings(name=_name_of(path), path=path)


def _name_of(path: str) -> str:
    return re.sub(r"\W+", "_", path.rstrip("/").rpartition("/")[2], flags=re.ASCII) or "table"
