"""The versions of a table to search: those of its log, and those that only the store still has."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from deltasnap_core.errors import DeltaTableNotFoundError, StoredVersionNotFoundError
from deltasnap_core.scan.search.known_versions import KnownVersions
from deltasnap_core.scan.table_version import TableVersion
from deltasnap_core.snapshot.delta_log import DeltaLog

if TYPE_CHECKING:
    from deltasnap_core.store.snapshot_store import SnapshotStore


def versions_of_both(store: SnapshotStore, table: str, log: DeltaLog | None) -> KnownVersions:
    """Return the versions of a table. Those of the log are read from it, the others from the store.

    Of the stored versions, only those that the log continues count: not those of a table that was restored or created
    again. log: None, or a folder without a table: only the store.
    Errors: StoredVersionNotFoundError or DeltaTableNotFoundError if there is no version; those of reading the log.
    """
    numbers = store.versions(table)
    in_log = frozenset[int]()
    if log is not None:
        try:
            in_log = frozenset(log.history.reconstructable_versions())
            last = store.common_version(table, log.context.table_log).version
            numbers = sorted(in_log.union(number for number in numbers if last is not None and number <= last))
        except DeltaTableNotFoundError:
            if not numbers:
                raise
    if not numbers:
        raise StoredVersionNotFoundError(store=store.root, table=table, version=None)
    return KnownVersions(numbers=numbers, open=partial(_opened, store, table, log, in_log))


def _opened(
    store: SnapshotStore, table: str, log: DeltaLog | None, in_log: frozenset[int], number: int
) -> TableVersion:
    return log.get_snapshot_at(number) if log is not None and number in in_log else store.version(table, number)
