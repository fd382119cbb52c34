"""Counts the files of a version on the driver, and keeps them in memory to apply later commits."""

from __future__ import annotations

import weakref
from threading import Lock, RLock

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.driver.checkpoint_measures import map_measures
from deltasnap_core.replay.driver.reconciliation import (
    measured_commits,
    newest_file_actions,
    with_path_keys,
    without_keys_of,
)
from deltasnap_core.replay.driver.state_deltas import counted, totals_between
from deltasnap_core.replay.engine import Answer, actions_text
from deltasnap_core.replay.known_state import KnownState
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.expiry import unexpired
from deltasnap_core.rules.totals.aggregates import MeasureGroup, groups_of
from deltasnap_core.storage.log_store import LogStore


def action_count(log: LoadedLog) -> int | None:
    """Return how many actions a count of the files reads; None: too many for the driver's memory."""
    if log.batch.measures is None:
        return None
    return log.batch.num_file_actions + (0 if log.checkpoint is None else log.checkpoint.num_rows)


class MemoryBudget:
    """A limit for bytes of memory. Threads may share it."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._lock = RLock()  # garbage collection may call `release` in the same thread

    @property
    def free(self) -> int:
        """The number of free bytes."""
        return self._free

    def reserve(self, size: int) -> bool:
        """Reserve some bytes. Return whether enough were free."""
        with self._lock:
            if size > self._free:
                return False
            self._free -= size
            return True

    def release(self, size: int) -> None:
        """Free reserved bytes."""
        with self._lock:
            self._free += size


MEMORY_BUDGET = MemoryBudget(256 << 20)
"""The limit that all tables of this process share: enough for about two million files."""


class HeldFiles:
    """The measured files of a version, in memory if they fit the budget; otherwise empty. A KnownFiles."""

    def __init__(self, version: int, log_path: str) -> None:
        self.version = version
        self._log_path = log_path
        self._budget = MEMORY_BUDGET
        self._rows: pa.Table | None = None
        self._release_memory: weakref.finalize[..., HeldFiles] | None = None

    @classmethod
    def count(
        cls, store: LogStore, log_path: str, log: LoadedLog, retention: Retention, *, hold: bool
    ) -> tuple[HeldFiles, StateDelta]:
        """Return the files of a version and the StateDelta that counts them, from one pass over its checkpoint.

        hold: keep the files in memory if they fit the budget.
        Errors: CorruptLogError, MissingSizeError.
        """
        files = cls(log.version, log_path)
        changed = newest_file_actions(measured_commits(log.batch, log_path))
        counting = _Count(log_path, changed, retention, budget=files._budget.free if hold else None)
        groups = groups_of(unexpired(changed, retention))
        for found in [] if log.checkpoint is None else map_measures(store, log.checkpoint, counting.groups_in):
            groups += found
        files._hold(counting.held)
        return files, counted(groups, log.non_file)

    def delta(self, known: KnownState, log: LoadedLog, retention: Retention) -> Answer[StateDelta] | None:
        """Return the changes of the commits after a known state. See KnownFiles."""
        if self._rows is None:
            return None
        since = measured_commits(log.batch.after(self.version), self._log_path)
        is_newer = pc.greater(since["commit_version"], known.log.version)
        newer = since.filter(is_newer)
        earlier = since.filter(pc.invert(is_newer))
        begun, ended = totals_between(self._rows, earlier, newer, known.retention, retention)
        change = StateDelta(begun=begun, ended=ended, non_file=log.non_file)
        work = actions_text(newer.num_rows, f"applied to version {known.log.version}")
        return Answer(value=change, computed_by=f"driver: {work}")

    def release(self) -> None:
        """Free the files in memory."""
        self._rows = None
        if self._release_memory is not None:
            self._release_memory()

    def _hold(self, tables: list[pa.Table] | None) -> None:
        if tables is None:
            return
        rows = pa.concat_tables(tables)
        if self._budget.reserve(rows.nbytes):
            self._rows = rows
            self._release_memory = weakref.finalize(self, self._budget.release, rows.nbytes)


class _Count:
    """Groups the files of a checkpoint without newer actions, and collects them. Several threads share it.

    changed: the newest action of each file among the commits.
    budget:  the bytes that may be collected: if the files need more, all are dropped. None: collect none.
    held:    the collected files.
    """

    def __init__(self, log_path: str, changed: pa.Table, retention: Retention, *, budget: int | None) -> None:
        self._log_path = log_path
        self._changed = changed
        self._retention = retention
        self._needs_keys = budget is not None or changed.num_rows > 0
        self._free = -1 if budget is None else budget
        self._lock = Lock()
        self.held: list[pa.Table] | None = []
        self._hold(changed.drop_columns(["commit_version", "line_number"]))

    def groups_in(self, batch: pa.Table) -> list[MeasureGroup]:
        """Return the groups of some file actions of the checkpoint."""
        rows = with_path_keys(batch, self._log_path) if self._needs_keys else batch
        rows = without_keys_of(rows, self._changed) if self._changed.num_rows else rows
        self._hold(rows)
        return groups_of(unexpired(rows, self._retention))

    def _hold(self, rows: pa.Table) -> None:
        with self._lock:
            self._free -= rows.nbytes
            if self._free < 0:
                self.held = None
            elif self.held is not None:
                self.held.append(rows)
