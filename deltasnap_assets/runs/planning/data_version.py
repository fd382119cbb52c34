"""Finds the last version of a table that changes its data or its schema: the data version of the table's asset."""

from __future__ import annotations

from collections.abc import Mapping

from deltasnap_assets.runs.stores import log_of, store_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_core.support import DataChange, LogListing, ManifestName


def last_data_change(
    settings: Settings, table: TableSettings, listing: LogListing, version: int, names: Mapping[int, ManifestName]
) -> int:
    """Return the last version up to `version` that changes data, or may have changed it.

    The status document has an earlier answer, so that pruning and log cleanup do not change it. The manifests of later
    versions state whether their commits change data. Only commits without a manifest are read.
    names: the manifests of the current stored versions of this log. Errors: StorageError.
    """
    store = store_of(settings)
    poll, stored = store.polls.read(table.name), store.table(table.name)
    known = None if poll is None else _still_known(poll.data_change, version, names)
    first = 0 if known is None else known.known_to + 1
    while version >= first and version in names:
        commit = next((manifest.commit for manifest in stored.read_sound_manifests([names[version]])), None)
        if commit is None or commit.data_change is None:  # not recorded, or the schema before was unknown
            break
        if commit.data_change:
            return version
        version -= 1
    found = log_of(table).last_data_change(listing, version, first)
    if found is not None:
        return found
    return 0 if known is None else known.version


def _still_known(known: DataChange | None, version: int, names: Mapping[int, ManifestName]) -> DataChange | None:
    """Return the recorded answer if it is about this log and not about later versions; None: it is not."""
    if known is None or known.known_to > version:
        return None
    name = names.get(known.known_to)
    return known if name is not None and name.generation == known.generation else None
