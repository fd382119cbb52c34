"""Facts for a scan of a stored version, and its history: only that is read from its log, which may be deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltasnap_core.errors import ActionNotFoundError, DeltaTableNotFoundError
from deltasnap_core.log.history.delta_history_manager import DeltaHistory, DeltaHistoryManager
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.protocol.table_features import check_readable
from deltasnap_core.replay.sessions import SparkProvider
from deltasnap_core.replay.spark.spark_files import SparkFiles
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.store.format.manifest import VersionManifest
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
        metadata=state.metadata,
        store=FsspecLogStore(data_options),
        spark_files=SparkFiles.of(data_options, sessions),
        options=options,
    )


def stored_history(table: ScannedTable, manifest: VersionManifest, first: int, last: int) -> list[DeltaHistory]:
    """Return the commits of versions that the log still has; empty if the log is deleted."""
    try:
        return DeltaHistoryManager(table.store, manifest.log_path).get_history(start=first, end=last)
    except DeltaTableNotFoundError:
        return []
