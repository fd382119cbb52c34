"""Reads the facts about many tables of a store: for each, a listing, its last look, and its newest manifest. No Spark.

A table without a look takes some more reads: the manifests of its recent versions, and those of some days ago.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltasnap_core.errors import CorruptStoreError, StoredVersionNotFoundError
from deltasnap_core.redaction import logger_of, safe_repr
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.fleet.fleet_row import FleetRow, fleet_row, read_growth
from deltasnap_core.store.fleet.last_look import LastLook
from deltasnap_core.store.fleet.table_level import TableLevel, TableStatus, is_new, table_status
from deltasnap_core.store.fleet.timeline import Timeline, VersionPoint
from deltasnap_core.store.format.layout import ManifestName, is_table_name
from deltasnap_core.store.format.manifest import VersionManifest, parse_manifest
from deltasnap_core.store.versions.stored_table import StoredTable

_log = logger_of(__name__)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class LastLooks:
    """The last look at each table of a store; None for a table without a look, or with a damaged document."""

    storage: WritableFiles
    root: str

    def read(self, table: str) -> LastLook | None:
        """Return the last look at a table; None: never, or its document is damaged, which is logged."""
        url = self._url(table)
        try:
            return LastLook.from_bytes(self.storage.read(url))
        except FileNotFoundError:
            return None
        except ValueError as error:
            _log.warning("The last look at table %s is ignored, %s: %s", table, url, error)
            return None

    def read_many(self, tables: Sequence[str]) -> dict[str, LastLook | None]:
        """Return the last look at each table."""
        return dict(zip(tables, self.storage.on_each(self.read, tables), strict=True))

    def statuses(self, tables: Sequence[str], now_ms: int) -> dict[str, TableStatus | None]:
        """Return the condition of each table from its last look alone: one small read per table.

        None: unknown, because nothing has read the log yet, or no run has checked the table.
        """
        return {
            table: None if look is None or is_new(look) else table_status(look, look.last_commit_ms, now_ms)
            for table, look in self.read_many(tables).items()
        }

    def write(self, table: str, look: LastLook, in_force: Mapping[int, ManifestName] | None = None) -> None:
        """Replace the last look at a table.

        Its points are replaced by those that the row of the table needs, so that the next reader finds them here.
        in_force: the result of `SnapshotStore.in_force`; None: list the store.
        """
        names = None if in_force is None else tuple(in_force.values())
        reader = _TableReader(stored=self._stored(table), look=look, now_ms=look.looked_at_ms, names=names)
        self.storage.write(self._url(table), replace(look, points=reader.points()).to_bytes())

    def touch(self, table: str, look: LastLook) -> None:
        """Replace the last look at a table, with the points that it has. Reads nothing."""
        self.storage.write(self._url(table), look.to_bytes())

    def _stored(self, table: str) -> StoredTable:
        return StoredTable(storage=self.storage, root=self.root, name=table)

    def _url(self, table: str) -> str:
        return self._stored(table).look_url


def stored_table_names(storage: WritableFiles, root: str) -> list[str]:
    """Return the names of all tables in a store, sorted, from one listing."""
    return sorted(name for name in storage.folders(root) if is_table_name(name))


def read_fleet(storage: WritableFiles, root: str, tables: Sequence[str], now_ms: int) -> list[FleetRow]:
    """Return the row of each table, in order."""
    looks = LastLooks(storage=storage, root=root)

    def read(table: str) -> FleetRow:
        stored = StoredTable(storage=storage, root=root, name=table)
        return _TableReader(stored=stored, look=looks.read(table), now_ms=now_ms).row()

    return storage.on_each(read, tables)


class _TableReader:
    """Reads the row of one table."""

    def __init__(
        self, *, stored: StoredTable, look: LastLook | None, now_ms: int, names: Sequence[ManifestName] | None = None
    ) -> None:
        self._stored = stored
        self._look = look
        self._now_ms = now_ms
        self._names = stored.stored_versions().current() if names is None else names
        self._timeline = Timeline(self._names, {} if look is None else look.points, self._load)

    def row(self) -> FleetRow:
        """Return the row. If the store is damaged, the row has this as the condition of the table."""
        try:
            newest, damage = self._newest()
            return self._row(newest, damage)
        except (KeyError, TypeError, ValueError) as error:
            url = self._stored.manifest_url(self._names[-1])
            return self._row(None, _damaged(CorruptStoreError(path=url, reason=str(error))))

    def points(self) -> dict[ManifestName, VersionPoint]:
        """Return the points that the row needs."""
        read_growth(self._timeline, self._now_ms)
        return self._timeline.used

    def _row(self, newest: VersionManifest | None, damage: TableStatus | None) -> FleetRow:
        return fleet_row(
            self._stored.name,
            self._look,
            newest,
            self._timeline,
            num_versions=len(self._names),
            now_ms=self._now_ms,
            damage=damage,
        )

    def _newest(self) -> tuple[VersionManifest | None, TableStatus | None]:
        if not self._names:
            return None, None
        try:
            (newest,) = self._stored.read_manifests(self._names[-1:])
            self._timeline.add_newest(_point(newest.timestamp, newest.computed_state))
            return newest, None
        except CorruptStoreError as error:
            return None, _damaged(error)
        except StoredVersionNotFoundError:  # pruned or replaced in the meantime
            return None, None

    def _load(self, names: Sequence[ManifestName]) -> Mapping[ManifestName, VersionPoint]:
        urls = [self._stored.manifest_url(name) for name in names]
        try:
            contents = self._stored.storage.read_many(urls)
        except FileNotFoundError:  # pruned in the meantime
            return {}
        found = {}
        for name, content in zip(names, contents, strict=True):
            try:
                found[name] = parse_manifest(content, _point_of_values)
            except ValueError as error:
                _log.warning("Version %d of table %s is left out: %s", name.version, self._stored.name, error)
        return found


def _point_of_values(values: Mapping[str, Any]) -> VersionPoint:
    return _point(values["timestamp"], values["computedState"])


def _point(timestamp: object, computed_state: Mapping[str, Any]) -> VersionPoint:
    size = computed_state["sizeInBytes"]
    if not isinstance(timestamp, int) or not isinstance(size, int):
        raise ValueError("expected a time and a size")
    return VersionPoint(timestamp=timestamp, size_in_bytes=size)


def _damaged(error: CorruptStoreError) -> TableStatus:
    return TableStatus(
        level=TableLevel.BROKEN,
        reason=str(error),
        check="store",
        advice="Delete the damaged file and refresh the table: its version is stored again.",
    )
