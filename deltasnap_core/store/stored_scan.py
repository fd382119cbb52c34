"""Scans and metadata tables of a stored version. They read only the history from its log, which may be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from deltasnap_core.errors import ActionNotFoundError, DeltaTableNotFoundError
from deltasnap_core.log.history.delta_history_manager import DeltaHistory, DeltaHistoryManager
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.protocol.table_config import deleted_file_retention_ms
from deltasnap_core.protocol.table_features import check_readable
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.replay.sessions import SparkProvider
from deltasnap_core.replay.spark.spark_failures import translated
from deltasnap_core.replay.spark.spark_files import SparkFiles
from deltasnap_core.rules.statistics_schema import StatisticPath
from deltasnap_core.scan.options import ScanOptions
from deltasnap_core.scan.scanned_files import ScannedFiles
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.log_tables import log_files_table, versions_table
from deltasnap_core.scan.tables.metadata_tables import LogFacts, MetadataTables
from deltasnap_core.scan.tables.vacuum_candidates import NamedFiles
from deltasnap_core.snapshot.history_frame import history_frame
from deltasnap_core.snapshot.named_files import named_files
from deltasnap_core.snapshot.options import SnapshotOptions
from deltasnap_core.snapshot.snapshot import Snapshot
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.folder_listing import list_below
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.stored_table import StoredTable

T = TypeVar("T")


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


def scanned_files(
    frame: Callable[[], DataFrame], to_query: Callable[[], DataFrame], state: SnapshotState, urls: Sequence[str]
) -> ScannedFiles:
    """Return the files of a stored version for a scan.

    frame: returns them for the caller; to_query: for a query that runs now. urls: of the files of the store.
    """

    def ask(_: frozenset[StatisticPath], query: Callable[[DataFrame], T]) -> T:
        with translated(stored_files=urls):
            return query(to_query())

    return ScannedFiles(frame=frame, ask=ask, totals=lambda: (state.num_of_files, state.size_in_bytes))


def stored_history(table: ScannedTable, manifest: VersionManifest, first: int, last: int) -> list[DeltaHistory]:
    """Return the commits of versions that the log still has; empty if the log is deleted."""
    try:
        return DeltaHistoryManager(table.store, manifest.log_path).get_history(start=first, end=last)
    except DeltaTableNotFoundError:
        return []


def stored_tables(
    table: ScannedTable,
    stored: StoredTable,
    manifest: VersionManifest,
    *,
    files: Callable[[], DataFrame],
    tombstones: Callable[[], DataFrame],
    events: Callable[[], DataFrame | None],
    now_ms: int,
) -> MetadataTables:
    """Return the metadata tables of a stored version. files, tombstones, events: as in LogFacts."""
    segment = stored.log_segments([manifest])[manifest.version]
    facts = LogFacts(
        files=files,
        tombstones=tombstones,
        events=events,
        history=lambda: history_frame(table.spark, stored_history(table, manifest, 0, manifest.version)),
        versions=lambda: versions_table(table.spark, _versions(stored)),
        log_files=lambda: log_files_table(table.spark, (*segment.deltas, *segment.checkpoint_provider.files), segment),
        listing=lambda: list_below(table.table_path, table.spark_files.storage_options),
        named=partial(_named_by_log, table, manifest),
        retention_ms=deleted_file_retention_ms(table.metadata.configuration),
        now_ms=now_ms,
    )
    return MetadataTables(table, facts)


def _named_by_log(table: ScannedTable, manifest: VersionManifest, every_commit: bool) -> NamedFiles:
    """Return the files that the table's log names now. The log may have been replaced or deleted."""
    log = TableLog(table.store, manifest.log_path)
    engine = ReplayEngine(table.sessions)
    context = TableContext(engine=engine, log=log, files=table.spark_files, options=SnapshotOptions())
    try:
        return named_files(context, Snapshot(context, log.latest()), every_commit=every_commit)
    except DeltaTableNotFoundError:
        return NamedFiles(files=(), tombstones=(), is_whole=False)


def _versions(stored: StoredTable) -> Iterator[dict[str, Any]]:
    """Yield the stored versions. Does not read the log."""
    for manifest in stored.read_sound_manifests(stored.stored_versions().current()):
        problems = stored.missing_files([manifest])
        yield {
            "version": manifest.version,
            "ms": manifest.timestamp,
            "loadable": not problems,
            "why_not": next((f"{url}: {problem}" for url, problem in problems.items()), None),
        }
