"""Values of the command line that several commands take."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from deltasnap_assets.command.completion import catalog_names, table_names
from deltasnap_assets.settings.option_values import with_booleans
from deltasnap_core.support import learn_options, milliseconds, with_own_options

_WORDS = re.compile(r"\w[^/\\:]*")  # a name in the configuration or a catalog; other texts are paths or URLs
_NAME = re.compile(r"(?:`[^`]*`|[^,`])+")
_NAMES = re.compile(rf"{_NAME.pattern}(?:,{_NAME.pattern})*")


def timestamp_argument(text: str, option: str = "--timestamp") -> int:
    """Return a time in ISO 8601, or as in Delta's paths (yyyyMMddHHmmssSSS), as ms since the epoch.

    Errors: typer.BadParameter for the option.
    """
    try:
        return milliseconds(_time(text))
    except ValueError as error:
        expected = "Expected a time such as 2026-03-02T10:00:00Z"
        raise typer.BadParameter(f"{expected}, found {text!r}.", param_hint=option) from error


def time_of_version(version: int | None, timestamp: str | None) -> int | None:
    """Return the time (ms) that selects a version; None: the version does. Errors: typer.BadParameter for both."""
    if version is not None and timestamp is not None:
        raise typer.BadParameter("Give --version or --timestamp, not both.")
    return None if timestamp is None else timestamp_argument(timestamp)


def _time(text: str) -> datetime:
    if not text.isdecimal() or len(text) == len("yyyyMMdd"):
        return datetime.fromisoformat(text)
    if len(text) != len("yyyyMMddHHmmssSSS"):  # `fromisoformat` takes any digit for the T, and shifts the time
        raise ValueError(text)
    return datetime.strptime(text, "%Y%m%d%H%M%S%f")


def is_device_or_pipe(path: Path) -> bool:
    """Return whether a path that is no folder, or the target of its link, exists and is no file."""
    return path.exists() and not path.is_file()


def check_file_to_write(out: Path) -> None:
    """Raise typer.BadParameter for `--out` if a file cannot be written there."""
    if out.is_dir():
        raise typer.BadParameter(f"{out} is a folder.", param_hint="--out")
    folder = out.resolve().parent
    is_replaced = not is_device_or_pipe(out)
    if is_replaced and not folder.is_dir():
        raise typer.BadParameter(f"There is no folder {folder}.", param_hint="--out")
    if (is_replaced and not os.access(folder, os.W_OK | os.X_OK)) or (out.exists() and not os.access(out, os.W_OK)):
        raise typer.BadParameter(f"No permission to write {out}.", param_hint="--out")


def _not_empty(path: str) -> str:
    if not path:
        raise typer.BadParameter("Expected a folder or a URL, found an empty text.")
    return path


def _none_empty(paths: list[str]) -> list[str]:
    return [_not_empty(path) for path in paths]


AtVersion = Annotated[
    int | None, typer.Option("--version", metavar="N", min=0, help="The version. Default: the latest.")
]
AtTime = Annotated[
    str | None,
    typer.Option(
        "--timestamp", metavar="TIME", help="The version at this time (ISO 8601; without an offset: local time)."
    ),
]
TablePath = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="A table's folder or URL, or its name.",
        callback=_not_empty,
        autocompletion=table_names,
    ),
]
TablePaths = Annotated[
    list[str],
    typer.Argument(metavar="PATH", help="Folders or URLs of tables; * and ? match.", callback=_none_empty),
]
StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        "--option",
        "-o",
        metavar="KEY=VALUE",
        help="A storage option; true and false are booleans. For a number, write KEY:=VALUE (port:=22). Repeatable.",
    ),
]
InCatalog = Annotated[
    str | None,
    typer.Option(
        "--catalog",
        metavar="CATALOG",
        help="Look the name up in this catalog: unity, glue (both as in the environment), or a key in `catalogs`.",
        autocompletion=catalog_names,
    ),
]


def storage_options(texts: list[str] | None) -> dict[str, Any]:
    """Return `KEY=VALUE` texts, and `KEY:=VALUE` with a number, as storage options. Errors: typer.BadParameter."""
    options = dict[str, Any]()
    for text in texts or []:
        key, equals, value = text.partition("=")
        name = key.removesuffix(":")
        if not name or not equals:
            raise typer.BadParameter("Expected KEY=VALUE.", param_hint="--storage-option")  # the text may be a secret
        try:
            options[name] = value if name == key else _number(value)
        except ValueError:
            raise typer.BadParameter("Expected a number after KEY:=.", param_hint="--storage-option") from None
    learn_options(options)
    return with_booleans(options)


def table_at(text: str, option: list[str] | None, catalog: str | None = None) -> tuple[str, Mapping[str, Any]]:
    """Return path and storage options of a table: of the one with this name, or at this path.

    option, catalog: as given. Errors: typer.BadParameter; CatalogError; ConfigError if the text may be a name.
    """
    options = storage_options(option)
    if catalog is None and not _WORDS.fullmatch(text):
        return text, options
    from deltasnap_assets.command.targets import named  # noqa: PLC0415  # slow to load, and a path needs none
    from deltasnap_assets.settings.located import located  # noqa: PLC0415

    if (table := named(text, catalog)) is None:
        return text, options
    found = located(table)
    return found.path, with_own_options(found.storage_options, options)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def column_names(text: str, option: str = "--columns") -> tuple[str, ...]:
    """Return the names in the text of an option, separated by commas. A name with a comma is in backticks.

    Errors: typer.BadParameter for the option.
    """
    names = tuple(name.strip() for name in _NAME.findall(text))
    if not _NAMES.fullmatch(text) or not all(names):
        raise typer.BadParameter(f"Expected names of columns such as id,day, found {text!r}.", param_hint=option)
    return names
