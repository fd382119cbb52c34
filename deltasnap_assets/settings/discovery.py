"""Discovers tables: resolves `discover:` to tables, with one listing per pattern.

This happens when the definitions load. Dagster shows a new table after its code location is reloaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError

from deltasnap_assets.settings.config import DiscoverSettings, Settings, TableSettings, is_key_of
from deltasnap_core import (
    LOG_FOLDER,
    DeltaSnapError,
    folder_of_pattern,
    hide_secrets,
    is_url,
    logger_of,
    matching_paths,
    redacted,
    to_url,
)

_log = logger_of(__name__)
_WILDCARD = re.compile(r"[*?\[]")


class DiscoveryError(DeltaSnapError):
    """The tables at `pattern` cannot be followed: `reason`."""

    def __init__(self, *, pattern: str, reason: str) -> None:
        self.pattern = redacted(pattern)
        self.reason = reason
        super().__init__(f"Tables at {self.pattern}: {reason}")


def with_discovered(settings: Settings, on_no_table: Callable[[str], None] = _log.warning) -> Settings:
    """Return the settings with the discovered tables after those in the file. Tables in the file are not added again.

    If several patterns match a table, the first one counts. If the folder of a pattern cannot be listed, the tables
    that it matched earlier stay, as the store knows them: each reports that it cannot be read, and no other one waits.
    on_no_table: called with a message for each pattern that cannot be listed, has no tables, or none that no earlier
    pattern matches. This is not an error: a lake may start empty.
    Errors: DiscoveryError if the folder of a pattern cannot be listed and the store knows no table of it, or two tables
    have the same name.
    """
    tables, by_patterns = list(settings.tables), set[str]()
    for pattern in settings.discover:
        named = {table.name.casefold(): to_url(table.path) for table in tables}
        urls = set(named.values())
        try:
            paths = _table_paths(pattern)
        except DiscoveryError as error:
            paths = _paths_in_store(settings, pattern)
            if not paths:
                raise
            on_no_table(f"{error}. The tables that it matched earlier are still followed.")
        found = list(_tables_at(paths, pattern))
        if not found:
            on_no_table(_no_table_at(pattern.path))
        elif by_patterns.issuperset(to_url(table.path) for table in found):
            on_no_table(_only_earlier(pattern.path))
        for table in found:
            if (url := to_url(table.path)) in urls:
                continue
            if (other := named.setdefault(table.name.casefold(), url)) != url:
                both = f"{redacted(url)} and {redacted(other)}"
                reason = f"{both} would both be named {table.name}: set the key `name` of the pattern"
                raise DiscoveryError(pattern=pattern.path, reason=reason)
            if is_key_of(settings.fleet_asset, table.name):
                reason = f"{settings.fleet_asset} is among the assets of table {table.name}: choose another fleet_asset"
                raise DiscoveryError(pattern=pattern.path, reason=reason)
            tables.append(table)
            by_patterns.add(url)
    return settings.model_copy(update={"tables": tuple(tables)})


def no_longer_found(settings: Settings, stored: Mapping[str, str]) -> list[str]:
    """Return the names of stored tables that a pattern found earlier but finds no longer: their log or folder is gone.

    stored: the path of each table in the store, without credentials, by name. Patterns are listed again only if they
    match a table that is not followed: it may be new since the definitions loaded. Errors: DiscoveryError.
    """
    names, urls = {table.name for table in settings.tables}, {to_url(table.path) for table in settings.tables}
    others = {name: url for name, path in stored.items() if name not in names and (url := to_url(path)) not in urls}
    lost = list[str]()
    for pattern in settings.discover:
        if matched := {name: url for name, url in others.items() if name not in lost and _matches(pattern, url)}:
            found = {redacted(to_url(path)) for path in _table_paths(pattern)}
            lost += [name for name, url in matched.items() if url not in found]
    return lost


def _matches(pattern: DiscoverSettings, url: str) -> bool:
    wanted, found = redacted(to_url(pattern.path)).rstrip("/").split("/"), url.split("/")
    is_excluded = any(fnmatchcase(found[-1], each) for each in pattern.exclude)
    return not is_excluded and len(wanted) == len(found) and all(map(fnmatchcase, found, wanted))


def _no_table_at(path: str) -> str:
    path = redacted(path.rstrip("/"))
    if _WILDCARD.search(path):
        return f"The pattern {path} matches no table."
    return f"The pattern {path} matches no table: this folder is not a Delta table. For the tables in it, use {path}/*."


def _only_earlier(path: str) -> str:
    return (
        f"The pattern {redacted(path)} matches only tables that earlier patterns match. The keys of those apply: to "
        "use the keys of this one, put it before them."
    )


def _tables_at(paths: Iterable[str], pattern: DiscoverSettings) -> Iterator[TableSettings]:
    shared = {name: getattr(pattern, name) for name in pattern.model_fields_set if name in _SHARED}
    for path in paths:
        folders = path.rstrip("/").split("/")
        if any(fnmatchcase(folders[-1], each) for each in pattern.exclude):
            continue
        parts = {"name": _plain(folders[-1]), "parent": _plain(folders[-2])}
        try:
            yield TableSettings(name=pattern.name.format(**parts), path=path, **shared)
        except (ValidationError, KeyError, IndexError, ValueError) as error:
            reason = f"{redacted(path)} cannot be named {pattern.name!r}: only {{name}} and {{parent}} are resolved"
            raise DiscoveryError(pattern=pattern.path, reason=reason) from error


def _table_paths(pattern: DiscoverSettings) -> list[str]:
    """Return the folders of the pattern that have a log, ascending."""
    found = matching(f"{pattern.path.rstrip('/')}/{LOG_FOLDER}", pattern.storage_options)
    return [each.rstrip("/").removesuffix(f"/{LOG_FOLDER}") for each in found]


def _paths_in_store(settings: Settings, pattern: DiscoverSettings) -> list[str]:
    """Return the paths of stored tables that match a pattern, ascending; empty also if the store cannot be read."""
    if redacted(pattern.path) != pattern.path:
        return []  # the store has the paths without credentials
    from deltasnap_core import SnapshotStore  # noqa: PLC0415  # slow to load, and needed only after a failure

    try:
        polls = SnapshotStore.open(None, settings.storage, settings.storage_options).polls
        stored = [poll.path for name in polls.table_names() if (poll := polls.read(name)) is not None and poll.path]
    except DeltaSnapError:
        return []
    return sorted({path.rstrip("/") for path in stored if _matches(pattern, to_url(path))})


def matching(pattern: str, storage_options: Mapping[str, Any]) -> list[str]:
    """Return the paths that a pattern matches, ascending; URLs for a URL.

    Errors: DiscoveryError if the folder before the first wildcard cannot be listed, or does not exist.

    Catches every exception: each cloud storage client has its own for a timeout, denied access or a missing package.
    """
    try:
        found = matching_paths(pattern, storage_options)
    except FileNotFoundError as error:
        reason = f"the folder {redacted(folder_of_pattern(pattern))} does not exist, or is empty on an object store"
        raise DiscoveryError(pattern=pattern, reason=reason) from hide_secrets(error)
    except Exception as error:  # noqa: BLE001  # raised as DiscoveryError
        raise DiscoveryError(pattern=pattern, reason=str(error) or type(error).__name__) from hide_secrets(error)
    scheme = f"{pattern.partition('://')[0]}://" if is_url(pattern) else ""
    return [each if not scheme or "://" in each else f"{scheme}{each}" for each in found]


def _plain(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")


_SHARED = frozenset(TableSettings.model_fields) - {"name", "path"}
