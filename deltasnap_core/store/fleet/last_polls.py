"""LastPolls: the facts about many tables of a store: for each, a listing, its last poll, its newest manifest. No Spark.

A table without a poll needs a few more reads: the manifests of its recent versions, and those of some days ago.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from deltasnap_core.errors import CorruptStoreError, StorageError, StoredVersionNotFoundError, UnsupportedStoreError
from deltasnap_core.log.condition.problem import Problem, Where
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.redaction import logger_of, safe_repr
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.fleet.fleet_row import FleetRow, fleet_row, read_growth
from deltasnap_core.store.fleet.last_poll import LastPoll
from deltasnap_core.store.fleet.table_level import TableLevel, TableStatus, is_new, of_another_table, problems_now
from deltasnap_core.store.fleet.timeline import Timeline, VersionPoint
from deltasnap_core.store.format.layout import ManifestName, is_table_name
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.versions.stored_table import StoredTable, corrupt_manifest

_DEAD_AFTER_SECONDS = 20.0  # a read and a write of one small document take less
_WAIT_SECONDS = 0.05

_log = logger_of(__name__)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LastPolls:
    """The last poll of each table of a store, and the condition of the table."""

    storage: WritableFiles
    root: str

    def table_names(self) -> list[str]:
        """Return the names of all tables in the store, ascending, from one listing."""
        return sorted(name for name in self.storage.folders(self.root) if is_table_name(name))

    def read(self, table: str) -> LastPoll | None:
        """Return the last poll of a table; None: never, or its document is damaged, which is logged."""
        return self._read(table)[0]

    def statuses(
        self, tables: Sequence[str], now_ms: int, paths: Mapping[str, str] | None = None
    ) -> dict[str, TableStatus | None]:
        """Return the condition of each table, as in its row of the fleet. paths: see `rows`.

        None: unknown, because the table is new: nothing has read its log yet, or no run has checked it yet.
        Errors: StorageError if the store cannot be listed.
        """
        return {each.row.table: _known_status(each, now_ms) for each in self._each(tables, now_ms, paths or {})}

    def problems(self, table: str, now_ms: int) -> tuple[Problem, ...]:
        """Return the current problems of a table: damage of its store, and those of `problems_now`.

        Errors: StorageError if the store cannot be listed.
        """
        (found,) = self._each([table], now_ms, {})
        known = () if found.poll is None else problems_now(found.poll, found.row.last_commit_ms, now_ms)
        return known if found.damage is None or found.damage.mark != "error" else (found.damage, *known)

    def rows(
        self,
        tables: Sequence[str],
        now_ms: int,
        paths: Mapping[str, str] | None = None,
        conditions: Mapping[str, TableStatus] | None = None,
    ) -> list[FleetRow]:
        """Return the rows of tables in the fleet, in order. Errors: StorageError if the store cannot be listed.

        conditions: those that replace the recorded ones, by name. A table that is not in `tables` has a row without
        numbers, after the others.
        paths: where the tables are, by name. The store may have a table of the same name that is elsewhere: its
        numbers are not shown.
        """
        known = conditions or {}
        rows = [each.row for each in self._each(tables, now_ms, paths or {})]
        found = [replace(row, status=known.get(row.table, row.status)) for row in rows]
        return found + [FleetRow(table=name, status=known[name]) for name in known if name not in tables]

    def points(
        self, table: str, poll: LastPoll, current: Mapping[int, ManifestName] | None = None
    ) -> dict[ManifestName, VersionPoint]:
        """Return the points that the row of a table needs, to be recorded with its poll. Those of `poll` are not read.

        current: the result of `SnapshotStore.current_names`; None: list the store.
        """
        stored = self._stored(table)
        names = stored.stored_versions().current if current is None else tuple(current.values())
        timeline = Timeline(names, poll.points, partial(_load, stored))
        read_growth(timeline, poll.polled_at_ms)
        return timeline.used

    def write(self, table: str, poll: LastPoll) -> None:
        """Replace the last poll of a table. Reads nothing."""
        self.storage.write(self._url(table), poll.to_bytes())

    @contextmanager
    def alone(self, table: str) -> Iterator[None]:
        """Wait until no other caller is in this context, in any process: so none replaces a poll that another has read.

        A storage that cannot create a file exclusively does not fail the caller, who is then not alone.
        """
        lock = f"{self._url(table)}.lock"
        is_locked = self._lock(lock)
        try:
            yield
        finally:
            if is_locked:
                with suppress(StorageError):  # the next caller finds out that it is not renewed
                    self.storage.delete([lock])

    def _lock(self, lock: str) -> bool:
        """Create the file `lock` when it is free, or left behind by a process that died. Return whether it exists."""
        token, holder, since = uuid4().hex.encode(), b"", time.monotonic()
        while True:
            try:
                if self.storage.write_new(lock, token):
                    return True
                held = self.storage.read(lock)
                if held == token:  # written by a request whose answer was lost
                    return True
                if held != holder:
                    holder, since = held, time.monotonic()
                elif time.monotonic() - since > _DEAD_AFTER_SECONDS:
                    self.storage.delete([lock])
            except FileNotFoundError:  # released in the meantime
                pass
            except StorageError:
                return False
            time.sleep(_WAIT_SECONDS)

    def _read(self, table: str) -> tuple[LastPoll | None, Problem | None]:
        """Return the last poll of a table, and the problem of its document (None: no problem)."""
        url = self._url(table)
        try:
            return LastPoll.from_bytes(self.storage.read(url)), None
        except FileNotFoundError:
            return None, None
        except ValueError as error:
            _log.warning("The last poll of table %s is ignored, %s: %s", table, url, error)
            return None, Problem.of(ProblemKind.DAMAGED_STATUS, Where.of(url), reason=str(error))

    def _each(self, tables: Sequence[str], now_ms: int, paths: Mapping[str, str]) -> list[_Read]:
        found = self.storage.on_each(lambda table: self._read_row(table, now_ms, paths.get(table)), tables)
        if any(each.damage is not None and each.damage.kind is ProblemKind.UNREADABLE_STORE for each in found):
            self.storage.folders(self.root)  # raises if the problem is not that of a table
        return found

    def _read_row(self, table: str, now_ms: int, path: str | None) -> _Read:
        """Return the row of a table. If it cannot be read, the row states why: other tables are not affected."""
        try:
            poll, damage = self._read(table)
            if poll is not None and path is not None and poll.is_elsewhere(path):
                other = of_another_table(poll)
                return _Read(row=FleetRow(table=table, status=TableStatus.of(other)), poll=poll, damage=other)
            row, of_store = _row(self._stored(table), poll, now_ms)
            damage = of_store or damage
            status = row.status if damage is None else TableStatus.of(damage)
            return _Read(row=replace(row, status=status), poll=poll, damage=damage)
        except StorageError as error:
            unread = Problem.of(ProblemKind.UNREADABLE_STORE, error=str(error))
            row = FleetRow(table=table, status=TableStatus.of(unread))
            return _Read(row=row, damage=unread)

    def _stored(self, table: str) -> StoredTable:
        return StoredTable(storage=self.storage, root=self.root, name=table)

    def _url(self, table: str) -> str:
        return self._stored(table).poll_url


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """The row of a table, with its sources. damage: why the store of the table cannot be read completely."""

    row: FleetRow
    poll: LastPoll | None = None
    damage: Problem | None


def _known_status(found: _Read, now_ms: int) -> TableStatus | None:
    known = found.row.status
    is_known = known.level is not TableLevel.UNKNOWN or found.damage or not is_new(found.poll, now_ms)
    return known if is_known else None


def _row(stored: StoredTable, poll: LastPoll | None, now_ms: int) -> tuple[FleetRow, Problem | None]:
    """Return the row of a table, and why its store cannot be read completely (None: it can be)."""
    names = stored.stored_versions().current
    timeline = Timeline(names, {} if poll is None else poll.points, partial(_load, stored))
    try:
        newest, damage = _newest(stored, names)
        if newest is not None:
            timeline.add_newest(_point_of(newest))
            damage = _lost(poll, newest.version)
        return fleet_row(stored.name, poll, newest, timeline, now_ms), damage
    except (KeyError, TypeError, ValueError) as error:
        reason = str(error) if isinstance(error, ValueError) else f"expected the numbers of a version ({error})"
        damage = damaged_store(corrupt_manifest(stored.manifest_url(names[-1]), reason))
        return fleet_row(stored.name, poll, None, timeline, now_ms), damage


def _newest(stored: StoredTable, names: Sequence[ManifestName]) -> tuple[VersionManifest | None, Problem | None]:
    """Return the newest manifest (None: there is none, or it cannot be read), and why it cannot be read."""
    try:
        return next(iter(stored.read_manifests(names[-1:])), None), None
    except CorruptStoreError as error:
        return None, damaged_store(error)
    except UnsupportedStoreError as error:
        return None, Problem.of(ProblemKind.LATER_STORE, error=str(error))
    except StoredVersionNotFoundError:  # pruned or replaced in the meantime
        return None, None


def _load(stored: StoredTable, names: Sequence[ManifestName]) -> Mapping[ManifestName, VersionPoint]:
    """Return the points of versions, without those that cannot be read."""
    try:
        contents = stored.storage.read_many([stored.manifest_url(name) for name in names])
    except FileNotFoundError:  # pruned in the meantime
        return {}
    found = {}
    for name, content in zip(names, contents, strict=True):
        try:
            found[name] = _point_of(VersionManifest.from_bytes(content))
        except ValueError as error:
            _log.warning("Version %d of table %s is left out: %s", name.version, stored.name, error)
    return found


def _point_of(manifest: VersionManifest) -> VersionPoint:
    """Return the point of a stored version. Errors: ValueError."""
    size = manifest.computed_state.get("sizeInBytes")
    if not isinstance(size, int):
        raise ValueError(f"expected the size of the version, found {size!r}")
    return VersionPoint(timestamp=manifest.timestamp, size_in_bytes=size)


def _lost(poll: LastPoll | None, stored: int) -> Problem | None:
    """Return the problem that the store lost the version that a run has checked; None: it has that version.

    stored: the newest stored version. After a rollback of the table, the log lacks the checked version, too.
    """
    if poll is None or poll.checked_version is None or not stored < poll.checked_version <= (poll.latest_version or 0):
        return None
    return Problem.of(ProblemKind.LOST_MANIFEST, Where.of(None, poll.checked_version))


def damaged_store(error: CorruptStoreError) -> Problem:
    """Return the problem of a damaged file of the store."""
    return Problem.of(ProblemKind.DAMAGED_STORE, Where.of(error.path), reason=error.reason, advice=error.advice)
