"""Discovers tables: resolves `discover:` to tables, with one listing per pattern.

This happens when the definitions load. Dagster shows a new table after its code location is reloaded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from deltasnap_assets.settings.catalogs import NOT_A_NAME, is_table_name
from deltasnap_assets.settings.config import Settings, TakenKeys
from deltasnap_assets.settings.located import needs_session
from deltasnap_assets.settings.table_settings import DiscoverSettings, TableSettings, is_dagster_name
from deltasnap_core import DeltaSnapError, Problem, ProblemKind, Where
from deltasnap_core.errors import CatalogError, NoFilesystemError
from deltasnap_core.support import (
    LOG_FOLDER,
    folder_of_pattern,
    hide_secrets,
    is_url,
    logger_of,
    matching_paths,
    redacted,
    to_url,
)

if TYPE_CHECKING:
    from deltasnap_core.support import LastPolls

FoundTables = Mapping[str, int]
"""The index of the pattern in `discover`, by the path of a discovered table, or its name in a catalog."""

_log = logger_of(__name__)


class DiscoveryError(DeltaSnapError):
    """The tables at `pattern` cannot be followed: `reason`."""

    def __init__(self, *, pattern: str, reason: str) -> None:
        self.pattern = redacted(pattern.removesuffix(f"/{LOG_FOLDER}"))
        self.reason = reason
        super().__init__(f"Tables at {self.pattern}: {reason}")


def with_discovered(settings: Settings, on_no_table: Callable[[str], None] = _log.warning) -> Settings:
    """Return the settings with the discovered tables: see `found_tables` and `with_found`."""
    return with_found(settings, found_tables(settings, on_no_table))


def found_tables(settings: Settings, on_no_table: Callable[[str], None] = _log.warning) -> FoundTables:
    """Return the tables that the patterns match, without those in the file. Lists the folder of each pattern.

    If several patterns match a table, the first one counts. If the folder of a pattern cannot be listed, the tables
    that it matched earlier, according to the store, stay: each reports that it cannot be read, and no other one waits.
    on_no_table: called with a message for each pattern that cannot be listed, has no tables, or only tables of
    earlier patterns. This is not an error: a lake may start empty.
    The catalog of the Spark session can be listed only by a process that uses a session, such as `deltasnap refresh`.
    Without one, such a pattern has the tables in the store, perhaps none.
    Errors: DiscoveryError if the folder of a pattern cannot be listed and the store knows no table of it.
    """
    in_file, found = {key_of_place(table.place) for table in settings.tables}, dict[str, tuple[str, int]]()
    for index, pattern in enumerate(settings.discover):
        try:
            paths = _table_paths(pattern)
        except DiscoveryError as error:
            paths = _paths_in_store(settings, pattern)
            if not paths and needs_session(pattern):
                on_no_table(str(error))
                continue
            if not paths:
                raise
            on_no_table(f"{str(error).removesuffix('.')}. The tables that it matched earlier are still followed.")
        matched = {key_of_place(path): path for path in paths if not _is_excluded(path, pattern)}
        if not matched:
            on_no_table(_no_table_at(pattern))
        elif matched.keys() <= found.keys():
            on_no_table(_only_earlier(pattern.place))
        for url, path in matched.items():
            if url not in in_file:
                found.setdefault(url, (path, index))
    return dict(found.values())


def with_found(settings: Settings, found: FoundTables) -> Settings:
    """Return the settings with found tables after those in the file.

    A table that cannot have the name of its pattern is not followed: see `Settings.unfollowed`.
    """
    by_name = {table.name.casefold(): [table] for table in settings.tables}
    unfollowed = dict[str, Problem]()
    for path, index in found.items():
        pattern = settings.discover[index]
        name = _name_of(path, pattern)
        if pattern.table and not is_table_name(path):
            unfollowed[path] = _not_followed(path, NOT_A_NAME, "Rename it in the catalog.")
        elif not is_dagster_name(name):
            unfollowed[path] = _not_followed(
                path,
                f"its folder gives the name {name!r}, and Dagster allows only letters, digits and underscores",
                "Rename its folder, or list it in `tables` with a name.",
            )
        else:
            by_name.setdefault(name.casefold(), []).append(_table_at(path, name, pattern))
    followed = [_followed(settings, tables) for tables in by_name.values()]
    for one, tables in zip(followed, by_name.values(), strict=True):
        for other in tables:
            if other is not one:
                unfollowed[other.place] = _not_followed(
                    other.place,
                    f"{redacted(one.place)} has the same name, {one.name}",
                    'Set the key `name` of its pattern, for example to "{parent}_{name}".',
                )
    return settings.with_tables(_with_own_keys(settings, followed, unfollowed), unfollowed)


def _with_own_keys(
    settings: Settings, followed: Iterable[TableSettings], unfollowed: dict[str, Problem]
) -> Iterator[TableSettings]:
    """Yield the tables whose asset keys no earlier table has. The others are added to `unfollowed`."""
    taken = TakenKeys(settings.fleet_asset)
    for table in followed:
        if (found := taken.add(table)) is None:
            yield table
        else:
            unfollowed[table.place] = _not_followed(table.place, found[0], f"Choose another `{found[1]}`.")


def _not_followed(place: str, reason: str, advice: str) -> Problem:
    return Problem.of(ProblemKind.NOT_FOLLOWED, Where.of(place), reason=reason, advice=advice)


def _followed(settings: Settings, tables: Sequence[TableSettings]) -> TableSettings:
    """Return which table of several with one name is followed: that in the file, else in the store, else the first."""
    if len(tables) == 1 or tables[0] in settings.tables:
        return tables[0]
    return next((table for table in tables if _is_in_store(settings, table)), tables[0])


def no_longer_found(settings: Settings, stored: Mapping[str, str]) -> list[str]:
    """Return the names of stored tables that a pattern found earlier but finds no longer: their log or folder is gone.

    stored: the path of each table in the store, without credentials, by name. Patterns are listed again only if they
    match a table that is not followed: it may be new since the definitions loaded. Errors: DiscoveryError.
    """
    names, urls = {table.name for table in settings.tables}, {key_of_place(table.place) for table in settings.tables}
    others = {
        name: url for name, path in stored.items() if name not in names and (url := key_of_place(path)) not in urls
    }
    lost = list[str]()
    for pattern in settings.discover:
        if needs_session(pattern):
            continue  # it cannot be listed here
        if matched := {name: url for name, url in others.items() if name not in lost and _matches(pattern, url)}:
            found = {redacted(key_of_place(path)) for path in _table_paths(pattern)}
            lost += [name for name, url in matched.items() if url not in found]
    return lost


def _matches(pattern: DiscoverSettings, url: str) -> bool:
    separator = "." if pattern.table else "/"
    wanted, found = redacted(key_of_place(pattern.place)).rstrip("/").split(separator), url.split(separator)
    return not _is_excluded(url, pattern) and len(wanted) == len(found) and all(map(fnmatchcase, found, wanted))


def found_to_json(settings: Settings, found: FoundTables) -> str:
    """Return found tables as JSON without credentials: the pattern, and the path below the folder of the pattern."""
    patterns, folders = [each.place for each in settings.discover], [_folder_of(each) for each in settings.discover]
    below = ((path, index, path.removeprefix(folders[index])) for path, index in found.items())
    rows = [
        (redacted(patterns[index]), rest if rest != path else redacted(key_of_place(path)))
        for path, index, rest in below
    ]
    return json.dumps(rows)


def found_from_json(settings: Settings, text: str) -> FoundTables:
    """Return found tables from JSON. Those of patterns that the settings no longer have are left out."""
    patterns = [redacted(each.place) for each in settings.discover]
    folders = [_folder_of(each) for each in settings.discover]
    rows = [(patterns.index(pattern), rest) for pattern, rest in json.loads(text) if pattern in patterns]
    return {rest if "://" in rest else f"{folders[index]}{rest}": index for index, rest in rows}


def _folder_of(pattern: DiscoverSettings) -> str:
    return folder_of_pattern(pattern.path) if pattern.path else ""


def key_of_place(place: str) -> str:
    """Return what is equal for the same place: the URL of a path, or a name in a catalog."""
    return to_url(place) if "/" in place else place


def _no_table_at(pattern: DiscoverSettings) -> str:
    path = redacted(pattern.place.rstrip("/"))
    if pattern.table or folder_of_pattern(f"{path}/") != path:
        return f"The pattern {path} matches no table."
    return f"The pattern {path} matches no table: this folder is not a Delta table. For the tables in it, use {path}/*."


def _only_earlier(path: str) -> str:
    return (
        f"The pattern {redacted(path)} matches only tables that earlier patterns match. The keys of those apply: to "
        "use the keys of this one, put it before them."
    )


def _is_excluded(path: str, pattern: DiscoverSettings) -> bool:
    return any(fnmatchcase(_parts_of(path)[-1], each) for each in pattern.exclude)


def _name_of(path: str, pattern: DiscoverSettings) -> str:
    return str(pattern.resolved("name", *_folders_of(path)))


def _folders_of(path: str) -> tuple[str, str]:
    """Return the folder of a table and the one above, as parts of names."""
    parent, folder = _parts_of(path)[-2:]
    return _plain(folder), _plain(parent)


def _parts_of(place: str) -> list[str]:
    return place.rstrip("/").split("/" if "/" in place else ".")


def _table_at(path: str, name: str, pattern: DiscoverSettings) -> TableSettings:
    folders = _folders_of(path)
    shared = {key: pattern.resolved(key, *folders) for key in pattern.model_fields_set if key in _SHARED}
    if not pattern.table:
        return TableSettings(name=name, path=path, **shared)
    table = TableSettings(name=name, table=path, **shared)
    table._catalog = pattern.catalog_settings
    return table


def _table_paths(pattern: DiscoverSettings) -> list[str]:
    """Return the folders of the pattern that have a log, or the names of its tables in a catalog, ascending."""
    if pattern.table and pattern.catalog_settings is not None:
        own = pattern.name_in_catalog
        try:
            names = pattern.catalog_settings.catalog.tables(own)
        except CatalogError as error:
            raise DiscoveryError(pattern=pattern.table, reason=error.reason) from error
        return [f"{pattern.table.removesuffix(own)}{name}" for name in names]
    found = matching(f"{pattern.path.rstrip('/')}/{LOG_FOLDER}", pattern.storage_options)
    return [each.rstrip("/").removesuffix(f"/{LOG_FOLDER}") for each in found]


def _paths_in_store(settings: Settings, pattern: DiscoverSettings) -> list[str]:
    """Return the paths of stored tables that match a pattern, ascending; empty also if the store cannot be read."""
    if redacted(pattern.place) != pattern.place:
        return []  # the store has the paths without credentials
    try:
        polls = _polls(settings)
        stored = [poll.path for name in polls.table_names() if (poll := polls.read(name)) is not None and poll.path]
    except DeltaSnapError:
        return []
    return sorted({path.rstrip("/") for path in stored if _matches(pattern, key_of_place(path))})


def _is_in_store(settings: Settings, table: TableSettings) -> bool:
    """Return whether the store has this table; False also if it cannot be read."""
    try:
        poll = _polls(settings).read(table.name)
    except DeltaSnapError:
        return False
    return poll is not None and poll.path is not None and not poll.is_elsewhere(table.place)


def _polls(settings: Settings) -> LastPolls:
    from deltasnap_core import SnapshotStore  # noqa: PLC0415  # slow to load, and needed only for exceptions

    return SnapshotStore.open(None, settings.storage, settings.storage_options).polls


def matching(pattern: str, storage_options: Mapping[str, Any]) -> list[str]:
    """Return the paths that a pattern matches, ascending; URLs for a URL.

    Errors: DiscoveryError if the folder before the first wildcard cannot be listed, or does not exist.

    Catches every exception: each cloud storage client has its own for a timeout, denied access or a missing package.
    """
    try:
        found = matching_paths(pattern, storage_options)
    except FileNotFoundError as error:
        or_empty = ", or is empty" if is_url(pattern) else ""  # object stores have no empty folders
        reason = f"the folder {redacted(folder_of_pattern(pattern))} does not exist{or_empty}. Correct the path."
        raise DiscoveryError(pattern=pattern, reason=reason) from hide_secrets(error)
    except NoFilesystemError as error:
        raise DiscoveryError(pattern=pattern, reason=f"{error.reason}. {error.advice}") from error
    except Exception as error:  # noqa: BLE001  # raised as DiscoveryError
        raise DiscoveryError(pattern=pattern, reason=str(error) or type(error).__name__) from hide_secrets(error)
    scheme = f"{pattern.partition('://')[0]}://" if is_url(pattern) else ""
    return [each if not scheme or "://" in each else f"{scheme}{each}" for each in found]


def _plain(text: str) -> str:
    return re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_")


_SHARED = frozenset(TableSettings.model_fields) - {"name", "path", "table"}
