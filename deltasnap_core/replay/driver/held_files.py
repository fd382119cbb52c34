"""The files of a version held in this process, and its computed state without Spark."""

from __future__ import annotations

from itertools import chain
from threading import Lock, RLock
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.computed_state import state_with, totals_of
from deltasnap_core.replay.driver.checkpoint_measures import map_file_digests
from deltasnap_core.replay.driver.reconciliation import newest, touched_or_expiring, unexpired, with_path_keys, without
from deltasnap_core.rules.aggregates import FileTotals, Group, groups_of
from deltasnap_core.storage.log_store import LogStore

if TYPE_CHECKING:
    from deltasnap_core.replay.spark.state_computation import ComputedVersion

HELD_BYTES = 256 << 20
"""What all the tables of a process may hold of their files: of two million, about."""


def action_count(log: LoadedLog) -> int | None:
    """Return how many actions a replay in this process would look at; None: it cannot."""
    if log.batch.file_digests is None:
        return None
    return log.batch.num_file_actions + (0 if log.contents is None else log.contents.num_rows)


class LocalFiles:
    """The files of a version as digests in memory, where there is room; else nothing. KnownFiles.

    version: that they are of. cache: they are not in Spark's storage.
    """

    cache = None

    _held_bytes: ClassVar[int] = 0
    _counting = RLock()  # again by the same thread, where it collects garbage that holds files

    def __init__(self, version: int, log_path: str) -> None:
        self.version = version
        self._log_path = log_path
        self._rows: pa.Table | None = None

    def __del__(self) -> None:
        self.release()

    @classmethod
    def held_bytes(cls) -> int:
        """Return what all the tables of this process hold."""
        return cls._held_bytes

    @classmethod
    def computed(
        cls, store: LogStore, log_path: str, log: LoadedLog, retention: Retention, *, hold: bool
    ) -> tuple[LocalFiles, SnapshotState]:
        """Return the files of a version and its state, in one pass over its checkpoint.

        hold: whether to keep the files, as far as there is room. Errors: CorruptLogError, MissingSizeError.
        """
        files = cls(log.version, log_path)
        changed = newest(files._actions(log.batch))
        held = _Held(HELD_BYTES - cls._held_bytes if hold else -1)
        held.add(changed.drop_columns(["commit_version", "line_number"]))

        def look(batch: pa.Table) -> list[Group]:
            rows = with_path_keys(batch, log_path) if hold or changed.num_rows else batch
            rows = without(rows, changed) if changed.num_rows else rows
            held.add(rows)
            return groups_of(unexpired(rows, retention))

        found = [] if log.contents is None else map_file_digests(store, log.contents, look)
        totals = FileTotals()
        for group in chain(groups_of(unexpired(changed, retention)), *found):
            totals.add(group)
        files._hold(held.tables)
        return files, state_with(totals, log.non_file)

    def advanced_state(self, known: ComputedVersion, log: LoadedLog, retention: Retention) -> SnapshotState | None:
        """Return the state of a later version: see KnownFiles.

        Of the files that the commits since touch, and of tombstones that expire, what counted is taken away and what
        counts now is added.
        """
        rows = self._rows
        if rows is None:
            return None
        since = self._actions(log.batch.after(self.version))
        earlier = since.filter(pc.less_equal(since["commit_version"], known.log.version))
        held = touched_or_expiring(rows, since, known.retention, retention)
        totals = totals_of(known.state)
        for commits, kept, sign in ((earlier, known.retention, -1), (since, retention, 1)):
            changed = newest(commits).select(held.column_names)
            for group in groups_of(unexpired(pa.concat_tables([without(held, changed), changed]), kept), sign=sign):
                totals.add(group)
        return state_with(totals, log.non_file)

    def release(self) -> None:
        """Drop them. They are still there, from the log."""
        with self._counting:
            rows, self._rows = self._rows, None
            if rows is not None:
                LocalFiles._held_bytes -= rows.nbytes

    def _actions(self, batch: CommitBatch) -> pa.Table:
        digests = batch.file_digests
        assert digests is not None
        return with_path_keys(digests, self._log_path)

    def _hold(self, tables: list[pa.Table] | None) -> None:
        if tables is None:
            return
        rows = pa.concat_tables(tables)
        with self._counting:
            if LocalFiles._held_bytes + rows.nbytes <= HELD_BYTES:
                LocalFiles._held_bytes += rows.nbytes
                self._rows = rows


class _Held:
    """Tables gathered by several threads; all are dropped as soon as they are more than there is room for."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._lock = Lock()
        self.tables: list[pa.Table] | None = []

    def add(self, table: pa.Table) -> None:
        with self._lock:
            self._room -= table.nbytes
            if self._room < 0:
                self.tables = None
            elif self.tables is not None:
                self.tables.append(table)
