"""Completion for shells: names of configured tables, and of checks. Reads the configuration, no table."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from deltasnap_assets.settings.config import Settings


def table_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names in `tables` of the configuration that begin with a text; none for an invalid configuration."""
    settings = _settings(context)
    tables = () if settings is None else settings.tables
    return [table.name for table in tables if table.name.startswith(incomplete)]


def catalog_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the values of `--catalog` that begin with a text."""
    settings = _settings(context)
    keys = () if settings is None else settings.catalogs
    return [key for key in dict.fromkeys((*keys, "unity", "glue")) if key.startswith(incomplete)]


def _settings(context: typer.Context) -> Settings | None:
    from deltasnap_assets.settings.loading import find_config, read_settings  # noqa: PLC0415  # slow to load
    from deltasnap_core import DeltaSnapError  # noqa: PLC0415

    given = context.find_root().params  # the options before the command, which are not applied while completing
    folder = Path(given.get("directory") or Path.cwd())
    with suppress(DeltaSnapError, OSError):
        file = folder / given["file"] if given.get("file") else find_config(os.environ, folder)
        return None if file is None else read_settings(file)
    return None


def check_names(incomplete: str) -> list[str]:
    """Return texts of `--select` that begin with a text: the last of its names is completed."""
    from deltasnap_assets.checks.registry import CHECKS  # noqa: PLC0415  # slow to load

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{check.name}" for check in CHECKS if check.name.startswith(last)]
