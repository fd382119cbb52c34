"""`deltasnap init`: generates a commented `deltasnap.yaml` for existing tables. Reads each table, without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from deltasnap_assets.command.targets import is_pattern
from deltasnap_assets.command.terminal import WarningLines
from deltasnap_assets.quantities import iso_time
from deltasnap_assets.settings.discovery import DiscoveryError, matching
from deltasnap_assets.settings.yaml_source import with_variables_escaped
from deltasnap_assets.texts import visible
from deltasnap_core import DeltaSnapError, DeltaTableNotFoundError, TableLog
from deltasnap_core.support import (
    LOG_FOLDER,
    check_readable,
    is_catalog_managed,
    is_harmless_option,
    is_url,
    to_url,
)

_NO_MATCH = "No folder that this pattern matches is a Delta table. Correct the pattern."
_HEADER = """\
# The tables that deltasnap follows. All keys: docs/configuration.md.
storage: .deltasnap/store         # the snapshot store: a folder, relative to this file, or a URL
# spark:
#   master: local[*]              # or remote: sc://host:15002, a Spark Connect server
tables:
"""
_TABLE_COMMENTS = """\
    # versions: all               # all | latest | {since: 100}
    # poll_seconds: 30            # interval of polls for new commits
    # refresh: H * * * *          # cron, H: a minute for each table; null: never
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A path that was read: its name in the configuration, what was found, or why it cannot be followed.

    is_table: whether the path may be a table, even a faulty one.
    """

    name: str
    path: str
    found: str | None = None
    problem: str | None = None
    is_table: bool = True


def find_tables(places: Sequence[str], storage_options: Mapping[str, Any]) -> list[FoundTable]:
    """Read every path, and every folder that a pattern matches.

    Folders that are not tables are skipped. A pattern that matches no table has a problem.
    """
    tables: list[FoundTable] = []
    taken: set[str] = set()
    for place in places:
        is_several = without_table = is_pattern(place)
        paths = matching(place, storage_options) if is_several else [place]
        if is_several and _is_relative(place):
            paths = [os.path.relpath(path) for path in paths]
        for path in paths:
            if to_url(path) in {to_url(table.path) for table in tables}:
                without_table = False
                continue
            with WarningLines.held() as warnings:
                table = _found_table(path, _free_name(path, taken), storage_options)
                if table.problem is not None:
                    warnings.clear()  # the problem explains them
            if not table.is_table and is_several:
                continue
            if table.problem is not None:
                table = replace(table, problem=_explained(table, storage_options))
            without_table = False
            tables.append(table)
            taken.add(table.name.casefold())
        if without_table:
            tables.append(FoundTable(name=_free_name(place, taken), path=place, problem=_NO_MATCH, is_table=False))
    return tables


def _explained(table: FoundTable, storage_options: Mapping[str, Any]) -> str | None:
    """Return the problem of a table with what to do: without a table, use the pattern of those below it, if any."""
    condition = TableLog.for_path(table.path, storage_options).condition(read_pages=False)
    if condition.mark != "error":
        return table.problem
    fault = condition.faults[0]
    pattern, advice = f"{table.path.rstrip('/')}/*", fault.advice
    with suppress(DiscoveryError):  # there is no such folder
        if not table.is_table and matching(f"{pattern}/{LOG_FOLDER}", storage_options):
            advice = f"For the tables in it, use '{pattern}'."
    return visible(f"{fault.text} {advice}")


def _is_relative(path: str) -> bool:
    return not is_url(path) and not Path(path).expanduser().is_absolute()


def configuration(tables: Iterable[FoundTable], storage_options: Mapping[str, Any], folder: Path = Path()) -> str:
    """Return the text of a configuration file. Storage options that may be secrets become `${NAME}`.

    folder: of the file. Relative paths are written relative to it.
    """
    parts = [_HEADER]
    for number, table in enumerate(tables):
        parts.append(f"  - name: {_scalar(table.name)}{f'  # {table.found}' if table.found else ''}\n")
        parts.append(f"    path: {_scalar(with_variables_escaped(_path_from(folder, table.path)))}\n")
        if storage_options:
            options = ", ".join(f"{_scalar(name)}: {_option(name, value)}" for name, value in storage_options.items())
            parts.append(f"    storage_options: {{{options}}}\n")
        parts.append(_TABLE_COMMENTS if number == 0 else "")
    return "".join(parts)


def secret_options(storage_options: Mapping[str, Any]) -> list[str]:
    """Return the names of the storage options whose values must not be in a configuration file."""
    return [name for name, value in storage_options.items() if not is_harmless_option(name, value)]


def _option(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if is_harmless_option(name, value):
        return _quoted(value)
    # The value of a variable is text.
    tag = "" if isinstance(value, str) else f"!!{type(value).__name__} "
    return f'{tag}"${{{variable_of(name)}}}"'


def variable_of(option: str) -> str:
    """Return the environment variable that stands for a storage option: `DELTASNAP_KEY` for `key`."""
    return "DELTASNAP_" + re.sub(r"\W+", "_", option, flags=re.ASCII).upper()


def _path_from(folder: Path, path: str) -> str:
    """Return a relative path relative to a folder; other paths and URLs as they are. The text is that in UTF-8."""
    if _is_relative(path):
        # `..` of a link leads out of the folder that the link points to.
        path = os.path.relpath(path, folder.resolve())
    return os.fsencode(path).decode("utf-8", "surrogateescape")  # another text only in a locale without UTF-8


def _found_table(path: str, name: str, storage_options: Mapping[str, Any]) -> FoundTable:
    try:
        log = TableLog.for_path(path, storage_options).latest().read()
        metadata = log.metadata
        check_readable(log.protocol, path=path, version=log.version)
    except (DeltaSnapError, OSError) as error:
        is_table = not isinstance(error, DeltaTableNotFoundError)
        return FoundTable(name=name, path=path, problem=visible(str(error)), is_table=is_table)
    by = f", by {', '.join(metadata.partition_columns)}" if metadata.partition_columns else ""
    catalog = "; a catalog manages the table: only published commits count" if is_catalog_managed(log.protocol) else ""
    found = f"version {log.version} of {iso_time(log.timestamp)}{by}{catalog}"
    return FoundTable(name=name, path=path, found=visible(found))


def _free_name(path: str, taken: set[str]) -> str:
    last = path.rstrip("/").rpartition("/")[2]
    name = re.sub(r"\W+", "_", last, flags=re.ASCII).strip("_") or "table"
    numbered = (f"{name}_{number}" for number in range(2, len(taken) + 3))
    return name if name.casefold() not in taken else next(each for each in numbered if each.casefold() not in taken)


def _scalar(text: str) -> str:
    """Return a text as a YAML value, quoted if necessary."""
    return (
        yaml.safe_dump(text, default_style=None, width=10**6, allow_unicode=True)
        .removesuffix("\n")
        .removesuffix("\n...")
    )


def _quoted(text: str) -> str:
    return yaml.safe_dump(text, default_style='"', width=10**6, allow_unicode=True).removesuffix("\n")
