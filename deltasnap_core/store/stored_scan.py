"""Facts for a scan of a stored version, and its history. Its log may be deleted."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from deltasnap_core.errors import ActionNotFoundError, DeltaTableNotFoundError
from deltasnap_core.log.history.delta_history_manager import DeltaHistory, DeltaHistoryManager
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.table_features import check_readable, metadata_to_read
from deltasnap_core.replay.sessions import SparkProvider
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.store.format.commit_facts import commit_times
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.versions.common_version import is_version_of
from deltasnap_core.store.versions.stored_table import StoredTable


def scanned_version(
    sessions: SparkProvider,
    stored: StoredTable,
    manifest: VersionManifest,
    options: ScanOptions,
    storage_options: Mapping[str, Any] | None,
) -> ScannedTable:
    """Return the facts about a stored version that a scan needs.

    storage_options: those of the store, used for the table if `options` has none.
    Errors: UnsupportedProtocolError; ActionNotFoundError if the version was stored without metadata.
    """
    state = stored.computed_states([manifest])[manifest.version]
    path = table_path(manifest.log_path)
    if state.protocol is not None:
        check_readable(state.protocol, path=path, version=manifest.version)
    if state.metadata is None:
        raise ActionNotFoundError(action="metadata", version=manifest.version, path=path)
    data_options = storage_options if options.storage_options is None else options.storage_options
    return ScannedTable(
        sessions,
        table_path=path,
        version=manifest.version,
        metadata=metadata_to_read(state.protocol, state.metadata),
        store=FsspecLogStore(data_options),
        spark_files=SparkFiles.of(data_options, sessions),
        options=options,
    )


def stored_history(
    table: ScannedTable, stored: StoredTable, manifest: VersionManifest, first: int, last: int
) -> list[DeltaHistory]:
    """Return the commits of a range of versions up to that of `manifest`, newest first.

    They are read from the log if it still has that version. Otherwise they are those of the stored versions: another
    table may be at the path now.
    """
    store, log_path = table.store, manifest.log_path
    with suppress(DeltaTableNotFoundError):
        listing = TableLog(store, log_path).list()
        if is_version_of(manifest, store, listing):
            return DeltaHistoryManager(store, log_path, listing=listing).get_history(start=first, end=last)
    current = stored.stored_versions().lineage(manifest.generation)
    names = [name for name in current if first <= name.version <= min(last, manifest.version)]
    found = stored.read_sound_manifests(reversed(names))
    infos = (None if each.commit is None else each.commit.info for each in found)
    times = commit_times(found)
    return [DeltaHistory.of(each.version, times[each.version], info) for each, info in zip(found, infos, strict=True)]
