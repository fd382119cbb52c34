"""The history of commits of a stored version. Its log may be deleted."""

from __future__ import annotations

from contextlib import suppress

from deltasnap_core.errors import DeltaTableNotFoundError
from deltasnap_core.log.history.delta_history_manager import DeltaHistory, DeltaHistoryManager
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.store.format.commit_facts import commit_times
from deltasnap_core.store.stored_version import StoredVersion
from deltasnap_core.store.versions.common_version import is_version_of


def stored_history(version: StoredVersion, store: LogStore, first: int, last: int) -> list[DeltaHistory]:
    """Return the commits of a range of versions up to a stored version, newest first. store: reads the log.

    They are read from the log if it still has the stored version. Otherwise they are those of the stored versions:
    another table may be at the path now.
    """
    manifest, stored = version.manifest, version.stored
    with suppress(DeltaTableNotFoundError):
        listing = TableLog(store, manifest.log_path).list()
        if is_version_of(manifest, store, listing):
            return DeltaHistoryManager(store, manifest.log_path, listing=listing).get_history(start=first, end=last)
    current = stored.stored_versions().lineage(manifest.generation)
    names = [name for name in current if first <= name.version <= min(last, manifest.version)]
    found = stored.read_sound_manifests(reversed(names))
    infos = (None if each.commit is None else each.commit.info for each in found)
    times = commit_times(found)
    return [DeltaHistory.of(each.version, times[each.version], info) for each, info in zip(found, infos, strict=True)]
