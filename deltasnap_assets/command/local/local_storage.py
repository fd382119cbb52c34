"""The storage of the local instance: Dagster's SQLite storage, with the same files, and connections kept open.

Dagster opens a database for each call, and twice for an event. When the last connection closes, SQLite copies its
journal into the database and waits for the disk. With open connections, an event is only a row in the journal. Records
survive any end of the process. A failure of the machine can lose the last records, but does not damage other records.
Dagster also creates the tables of each run's database one by one; here it is a copy of an empty one.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as sa

# Dagster's storages have no public names; the methods overridden here are public.
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy.pool import QueuePool

from deltasnap_assets.processes import locked

_BUSY_SECONDS = 20
_LOCK = "storage.lock"
_CREATED = set[str]()
"""The folders whose databases this process has created or checked.

Dagster makes a storage for each tick. Checking the databases takes memory each time, which is never freed.
"""


class LocalStorage(DagsterSqliteStorage):
    """The storage of an instance. Dagster's own SQLite storage can read and write the same files."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        folder = Path(base_dir)
        runs, schedules = folder / "history" / "runs.db", folder / "schedules" / "schedules.db"
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / _LOCK):  # two processes that create one database damage it
            if base_dir not in _CREATED or not (runs.exists() and schedules.exists()):
                DagsterSqliteStorage(base_dir)  # creates missing databases and tables
                _CREATED.add(base_dir)
            self.base_dir, self._inst_data = base_dir, inst_data
            self._run_storage = LocalRuns(_url(runs))
            self._event_log_storage = LocalEvents(str(folder / "history" / "runs"))
            self._schedule_storage = LocalSchedules(_url(schedules))
        super(DagsterSqliteStorage, self).__init__()  # type: ignore[no-untyped-call]  # not Dagster's own databases

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]) -> LocalStorage:
        """Return the storage from a `dagster.yaml`."""
        return cls(inst_data=inst_data, **config_value)


class _HeldOpen:
    """A storage of one database that keeps its connection open."""

    _engine: sa.Engine

    @contextmanager
    def connect(self) -> Iterator[sa.Connection]:
        """Yield a connection in a transaction."""
        with self._engine.begin() as connection:
            yield connection

    def dispose(self) -> None:
        """Close the connection."""
        self._engine.dispose()


class LocalRuns(_HeldOpen, SqliteRunStorage):
    """The database of runs, kept open."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engine = _held(conn_string)
        super().__init__(conn_string, inst_data)


class LocalSchedules(_HeldOpen, SqliteScheduleStorage):
    """The database of ticks, kept open."""

    def __init__(self, conn_string: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engine = _held(conn_string)
        super().__init__(conn_string, inst_data)


class LocalEvents(SqliteEventLogStorage):
    """The events: keeps open the database of all runs, and that of the run last written or read."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, sa.Engine] = {}
        self._engines_lock = threading.RLock()
        self._tables = set[str]()
        self._empty = Path(base_dir, f"empty-run-{dg.__version__}.sqlite")
        super().__init__(base_dir, inst_data)

    def run_connection(self, run_id: str | None = None) -> AbstractContextManager[sa.Connection]:
        """Yield a connection in a transaction on the database of a run."""
        return self._transaction(run_id or "")

    def index_connection(self) -> AbstractContextManager[sa.Connection]:
        """Yield a connection in a transaction on the database of all runs."""
        return self._transaction(INDEX_SHARD_NAME)

    def has_table(self, table_name: str) -> bool:
        """Return whether the database of all runs has a table. Tables are only added."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def store_event(self, event: dg.EventLogEntry) -> None:
        """Record an event. Followers of a run watch its file, which an open connection rarely changes, so touch it."""
        super().store_event(event)
        os.utime(self.path_for_shard(event.run_id))

    def add_dynamic_partitions(self, partitions_def_name: str, partition_keys: Sequence[str]) -> None:
        """Add partitions. Ignores those that exist, even if another process adds them at the same time."""
        try:
            super().add_dynamic_partitions(partitions_def_name, partition_keys)
        except sa.exc.IntegrityError:
            super().add_dynamic_partitions(partitions_def_name, partition_keys)

    def wipe(self) -> None:
        """Delete all events."""
        self._close()
        super().wipe()

    def dispose(self) -> None:
        """Close the connections."""
        self._close()
        super().dispose()

    def _close(self) -> None:
        with self._engines_lock:
            for shard in list(self._engines):
                self._engines.pop(shard).dispose()

    @contextmanager
    def _transaction(self, shard: str) -> Iterator[sa.Connection]:
        with self._engine(shard).begin() as connection:
            yield connection

    def _engine(self, shard: str) -> sa.Engine:
        with self._engines_lock:
            if shard not in self._engines:
                if shard == INDEX_SHARD_NAME:
                    with super().index_connection():  # creates missing tables
                        pass
                else:
                    self._create(shard)
                    for earlier in self._engines.keys() - {INDEX_SHARD_NAME}:
                        self._engines.pop(earlier).dispose()
                self._engines[shard] = _held(self.conn_string_for_shard(shard))
            return self._engines[shard]

    def _create(self, run_id: str) -> None:
        """Create the database of a run unless it exists."""
        path = Path(self.path_for_shard(run_id))
        with locked(path.with_name(_LOCK)):  # no other process writes into a new database before it is copied
            is_new = not path.exists()
            if is_new and self._empty.exists():
                _copy(self._empty, path)
                return
            with super().run_connection(run_id):  # creates missing tables
                pass
            if is_new:
                _copy(path, self._empty)


def _url(database: Path) -> str:
    return f"sqlite:///{database.absolute()}"


def _copy(database: Path, target: Path) -> None:
    """Copy a database. Its copy appears when it is complete."""
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(part)) as copy:
        source.backup(copy)
    part.replace(target)


def _held(url: str) -> sa.Engine:
    engine = sa.create_engine(
        url,
        poolclass=QueuePool,
        pool_size=1,
        max_overflow=-1,
        connect_args={"timeout": _BUSY_SECONDS, "check_same_thread": False},
    )

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        # Write-ahead journal: the database stays consistent even if the last entries did not reach the disk.
        connection.execute("PRAGMA synchronous=NORMAL")

    return engine
