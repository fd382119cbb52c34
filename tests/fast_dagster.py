"""Importing this makes Dagster's instances start fast: the tests create hundreds.

Dagster reads about eighty files of migrations for each database of an instance, and waits for the disk after each table
that it creates. For each query, it creates an engine of SQLAlchemy, which opens the database, reads the version of
SQLite and compiles the query. A storage in memory opens a connection for each query.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from pathlib import Path
from threading import RLock
from typing import Any

import dagster as dg
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory
from dagster._core.storage.event_log import in_memory as events_in_memory
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite import sqlite_event_log
from dagster._core.storage.runs import in_memory as runs_in_memory
from dagster._core.storage.runs.sql_run_storage import SqlRunStorage
from dagster._core.storage.runs.sqlite import sqlite_run_storage
from dagster._core.storage.schedules.sqlite import sqlite_schedule_storage
from dagster._core.storage.sql import ALEMBIC_SCRIPTS_LOCATION
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.pool import QueuePool

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


@sa.event.listens_for(Engine, "connect")
def _without_waiting_for_the_disk(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA synchronous=OFF")  # only a failure of the machine could lose a record


ScriptDirectory.from_config = staticmethod(_from_config)  # type: ignore[method-assign]
_loaded(ALEMBIC_SCRIPTS_LOCATION)


_first = sa.create_engine("sqlite://")
_first.connect().close()  # its dialect now knows the version of SQLite


def _create_engine(url: str, **options: Any) -> Engine:
    """Return an engine with the dialect and the compiled queries of the first one. That of a file keeps connections."""
    file = Path(make_url(url).database or "")
    return _keeping_connections(url, file.stat().st_ino) if file.is_file() else _engine(url, **options)


@lru_cache(maxsize=16)
def _keeping_connections(url: str, _: int) -> Engine:
    engine = _engine(url, connect_args={"timeout": 60}, max_overflow=-1, poolclass=QueuePool)
    engine.dispose = lambda *_: None  # type: ignore[method-assign]  # Dagster closes the connections after each query
    return engine


def _engine(url: str, **options: Any) -> Engine:
    arguments = {"check_same_thread": False, **options.pop("connect_args", {})}
    engine = sa.create_engine(url, **options, connect_args=arguments, _initialize=False)
    engine.dialect = engine.pool._dialect = _first.dialect
    engine._compiled_cache = _first._compiled_cache
    return engine


for _module in (events_in_memory, runs_in_memory, sqlite_event_log, sqlite_run_storage, sqlite_schedule_storage):
    _module.create_engine = _create_engine  # type: ignore[attr-defined]


@contextmanager
def _held_connection(storage: Any) -> Iterator[Connection]:
    """Yield the connection that a storage of events in memory holds, to one thread at a time."""
    with storage._db_lock, storage._held_conn.begin():
        yield storage._held_conn


events_in_memory.InMemoryEventLogStorage._connect = _held_connection  # type: ignore[assignment]

_lock_of_runs = RLock()


@contextmanager
def _held_connection_of_runs(storage: Any) -> Iterator[Connection]:
    """Yield the connection that a storage of runs in memory holds, to one thread at a time."""
    held = storage._held_conn
    with _lock_of_runs, nullcontext() if held.in_transaction() else held.begin():
        yield held


runs_in_memory.InMemoryRunStorage.connect = _held_connection_of_runs  # type: ignore[assignment]


# Dagster queries a database for the tables and columns that it created itself, several times for each event.
for _storage, _names in {
    events_in_memory.InMemoryEventLogStorage: ["has_table"],
    SqlEventLogStorage: ["has_asset_key_col", "_has_asset_key_col_on_connection"],
    SqlRunStorage: ["has_run_stats_index_cols", "has_backfill_id_column"],
}.items():
    for _name in _names:
        setattr(_storage, _name, lambda *_: True)


class _CopiedTables:
    """Creates the tables of a storage in memory as a copy of those of another one."""

    def __init__(self, first: Any) -> None:
        self._first = first

    def create_all(self, connection: Connection) -> None:
        self._first._held_conn.connection.dbapi_connection.backup(connection.connection.dbapi_connection)


_tables_of_events = _CopiedTables(events_in_memory.InMemoryEventLogStorage())
_tables_of_runs = _CopiedTables(runs_in_memory.InMemoryRunStorage())
for _module, _tables, _held in (
    (events_in_memory, "SqlEventLogStorageMetadata", _tables_of_events),
    (runs_in_memory, "RunStorageSqlMetadata", _tables_of_runs),
):
    setattr(_module, _tables, _held)
    setattr(_module, "stamp_alembic_rev", lambda *_: None)  # noqa: B010 - mypy refuses the assignment


def local_instance(folder: Path) -> dg.DagsterInstance:
    """Return a new instance with its databases in a folder: a schedule does not accept one in memory."""
    for name, content in new_databases().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return dg.DagsterInstance.local_temp(str(folder))


def copy_of(instance: dg.DagsterInstance) -> dg.DagsterInstance:
    """Return a new instance in memory with the runs and events of another one."""
    copy = dg.DagsterInstance.ephemeral()
    for name in ("run_storage", "event_log_storage"):
        held, new = (getattr(each, name)._held_conn.connection.dbapi_connection for each in (instance, copy))
        held.backup(new)
    return copy


@cache
def new_databases() -> dict[Path, bytes]:
    """Return the files of a new instance, by their paths below its folder."""
    with tempfile.TemporaryDirectory() as folder:
        with dg.DagsterInstance.local_temp(folder):
            pass
        return {file.relative_to(folder): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}
