"""The versions of a table to search: those of its log, and those that only the store still has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from deltasnap_core.errors import CorruptLogError, DeltaTableNotFoundError, StoredVersionNotFoundError
from deltasnap_core.scan.search.known_versions import KnownVersions
from deltasnap_core.scan.table_version import TableVersion
from deltasnap_core.snapshot.delta_log import DeltaLog

if TYPE_CHECKING:
    from deltasnap_core.store.snapshot_store import SnapshotStore


def versions_of_both(store: SnapshotStore, table: str, log: DeltaLog | None) -> KnownVersions:
    """Return the versions of a table. Those of the log are read from it, the others from the store.

    So are stored versions that cannot be read from the log, because a commit is damaged.
    Of the stored versions, only those that the log continues count: not those of a table that was restored or created
    again. log: None, or a folder without a table: only the store.
    Errors: StoredVersionNotFoundError or DeltaTableNotFoundError if there is no version; those of reading the log.
    """
    stored, logs = store.versions(table), dict[int, DeltaLog]()
    if log is not None:
        try:
            logs = dict.fromkeys(log.history.reconstructable_versions(), log)
            last = store.common_version(table, log.context.table_log).version
            stored = [number for number in stored if last is not None and number <= last]
        except DeltaTableNotFoundError:
            if not stored:
                raise
    numbers = sorted({*stored, *logs})
    if not numbers:
        raise StoredVersionNotFoundError(store=store.root, table=table, version=None)
    return KnownVersions(numbers=numbers, open=partial(_opened, store, table, logs, frozenset(stored)))


def _opened(
    store: SnapshotStore, table: str, logs: Mapping[int, DeltaLog], stored: Collection[int], number: int
) -> TableVersion:
    """Return a version. logs: by version that its log may have."""
    if number in logs:
        try:
            found = logs[number].get_snapshot_at(number)
            _ = found.metadata  # now, the log is read
        except CorruptLogError:
            if number not in stored:
                raise
        else:
            return found
    return store.version(table, number)
