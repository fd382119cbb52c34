"""Importing this makes Dagster's instances start fast: the tests create hundreds.

Dagster reads about eighty files of migrations for each database of an instance, and waits for the disk after each table
that it creates.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.sql import ALEMBIC_SCRIPTS_LOCATION

_LOCATION = "script_location"
_load = ScriptDirectory.from_config


@cache
def _loaded(location: str) -> ScriptDirectory:
    config = Config()
    config.set_main_option(_LOCATION, location)
    scripts = _load(config)
    scripts.get_heads()  # reads the files
    return scripts


def _from_config(config: Config) -> ScriptDirectory:
    location = config.get_main_option(_LOCATION)
    return _load(config) if location is None else _loaded(location)


@sa.event.listens_for(sa.Engine, "connect")
def _without_waiting_for_the_disk(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")  # only a failure of the machine could lose a record


ScriptDirectory.from_config = staticmethod(_from_config)  # type: ignore[method-assign]
_loaded(ALEMBIC_SCRIPTS_LOCATION)


def local_instance(folder: Path) -> dg.DagsterInstance:
    """Return a new instance with its databases in a folder: one in memory refuses two threads at once."""
    for name, content in new_databases().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return dg.DagsterInstance.local_temp(str(folder))


@cache
def new_databases() -> dict[Path, bytes]:
    """Return the files of a new instance, by their paths below its folder."""
    with tempfile.TemporaryDirectory() as folder:
        with dg.DagsterInstance.local_temp(folder):
            pass
        return {file.relative_to(folder): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}
