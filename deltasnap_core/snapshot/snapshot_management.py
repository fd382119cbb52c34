"""SnapshotManagement: keeps the current snapshot of a table up to date, and loads other versions."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock, RLock, Thread

from deltasnap_core.errors import DeltaSnapError
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.snapshot.segment_refresh import first_segment, next_segment, segment_after_commit
from deltasnap_core.snapshot.snapshot import InitialSnapshot, Snapshot
from deltasnap_core.snapshot.table_context import TableContext

_log = logger_of(__name__)


class SnapshotManagement:
    """Holds the current snapshot of one table. Thread-safe.

    One thread at a time lists the log and replaces the snapshot. The others wait, or use the current snapshot.
    staleness_limit_ms: the maximum age of an update for a snapshot that is not stale; 0: a snapshot is always stale.
    """

    def __init__(self, context: TableContext, *, staleness_limit_ms: int) -> None:
        self._context = context
        self._builder = context.table_log.builder
        self._staleness_limit_ms = staleness_limit_ms
        self._captured: tuple[Snapshot, int] | None = None  # with the time (ms) when its update began
        self._update_lock = RLock()
        self._background: Thread | None = None
        self._background_lock = Lock()

    @property
    def snapshot(self) -> Snapshot:
        """The current snapshot, loaded on first use (Delta's `getSnapshotAtInit`); not updated."""
        return self._capture(NO_CATALOG)

    @property
    def last_update_timestamp(self) -> int:
        """When (ms) the last update began; -1: no update yet."""
        captured = self._captured
        return -1 if captured is None else captured[1]

    @property
    def is_snapshot_stale(self) -> bool:
        """Whether the last update is older than the staleness limit; always True for 0. Delta's `isSnapshotStale`."""
        captured = self._captured
        if self._staleness_limit_ms <= 0 or captured is None:
            return True
        return captured[1] < self._context.table_log.clock() - self._staleness_limit_ms

    def update(
        self, staleness_acceptable: bool, check_if_updated_since_ts: int | None, catalog: CatalogCommits
    ) -> Snapshot:
        """See DeltaLog. catalog: the commits of the catalog of a catalog-managed table."""
        captured = self._captured
        if captured is None:
            return self._capture(catalog)
        snapshot, updated_ms = captured
        if check_if_updated_since_ts is not None and updated_ms >= check_if_updated_since_ts:
            return snapshot
        if staleness_acceptable and not self.is_snapshot_stale:
            self._update_in_background(catalog)
            return self._capture(catalog)
        with self._update_lock:
            return self._update(catalog)

    def update_after_commit(
        self,
        committed_version: int,
        new_checksum: VersionChecksum | None,
        pre_commit_segment: LogSegment | None,
    ) -> Snapshot:
        """See DeltaLog."""
        with self._update_lock:
            started, previous = self._context.table_log.clock(), self._capture(NO_CATALOG)
            if committed_version <= previous.version:
                return previous
            segment = self.get_log_segment_after_commit(committed_version, pre_commit_segment)
            _log.info("Creating a new snapshot v%d for commit version %d", segment.version, committed_version)
            log = self._context.table_log.version_log(segment)
            if segment.version == committed_version:
                log = replace(log, known_checksum=new_checksum)
            snapshot = Snapshot.load(self._context, log, predecessor=previous, is_current=True)
            return self._replace_snapshot(previous, snapshot, started)

    def get_log_segment_after_commit(self, committed_version: int, pre_commit_segment: LogSegment | None) -> LogSegment:
        """See DeltaLog."""
        known = pre_commit_segment or self.snapshot.log_segment
        return segment_after_commit(
            self._builder, committed_version, known, is_pre_commit=pre_commit_segment is not None
        )

    def get_snapshot_at(
        self,
        version: int,
        *,
        last_checkpoint_hint: LastCheckpointInfo | None = None,
        min_file_retention_timestamp: int | None = None,
        catalog: CatalogCommits = NO_CATALOG,
    ) -> Snapshot:
        """Return the snapshot of a version: the current one if it has that version, otherwise a new one.

        Errors: DeltaTableNotFoundError, VersionNotFoundError (states the existing versions), VersionGapError.
        Delta's `getSnapshotAt`.
        """
        captured = self._captured
        current = None if captured is None else captured[0]
        if current is not None and current.version == version and catalog in (NO_CATALOG, current.log.catalog):
            if min_file_retention_timestamp is None:
                return current
            segment, catalog = current.log_segment, current.log.catalog
        else:
            checkpoint = last_checkpoint_hint.version if last_checkpoint_hint else _checkpoint_of(current)
            segment = replace(self._builder, catalog=catalog).build(version, checkpoint_version=checkpoint)
        return Snapshot.load(
            self._context,
            self._context.table_log.version_log(segment, catalog),
            predecessor=current,
            min_file_retention_timestamp=min_file_retention_timestamp,
        )

    def close(self) -> None:
        """Release the data that Spark caches for the current snapshot, and drop the snapshot."""
        with self._update_lock:
            captured, self._captured = self._captured, None
            if captured is not None:
                captured[0].close()

    def _capture(self, catalog: CatalogCommits) -> Snapshot:
        captured = self._captured
        if captured is not None:
            return captured[0]
        with self._update_lock:
            if self._captured is None:
                started = self._context.table_log.clock()
                snapshot = self._snapshot_of(first_segment(replace(self._builder, catalog=catalog)), None, catalog)
                self._captured = snapshot, started
                _log.info("Returning initial snapshot %s", snapshot)
            return self._captured[0]

    def _update(self, catalog: CatalogCommits) -> Snapshot:
        started, previous = self._context.table_log.clock(), self._capture(catalog)
        is_loaded = previous.log.is_loaded
        segment = next_segment(replace(self._builder, catalog=catalog), previous.log_segment, is_loaded=is_loaded)
        is_same = previous.log_segment is segment and previous.log.catalog == catalog
        is_same = is_same or (segment is None and previous.version < 0)
        snapshot = previous if is_same else self._snapshot_of(segment, previous, catalog)
        return self._replace_snapshot(previous, snapshot, started)

    def _snapshot_of(self, segment: LogSegment | None, previous: Snapshot | None, catalog: CatalogCommits) -> Snapshot:
        if segment is None:
            return InitialSnapshot(self._context, now_ms=self._context.table_log.clock())
        log = self._context.table_log.version_log(segment, catalog)
        return Snapshot.load(self._context, log, predecessor=previous, is_current=True)

    def _replace_snapshot(self, previous: Snapshot, snapshot: Snapshot, started: int) -> Snapshot:
        self._captured = snapshot, started
        if snapshot is not previous:
            _warn_of_replaced_log(previous, snapshot)
            previous.close(successor=snapshot)
            _log.info("Updated snapshot to %s", snapshot)
        return snapshot

    def _update_in_background(self, catalog: CatalogCommits) -> None:
        with self._background_lock:
            if self._background is not None and self._background.is_alive():
                return
            self._background = Thread(
                target=self._try_update, args=(catalog,), name="deltasnap-state-update", daemon=True
            )
            self._background.start()

    def _try_update(self, catalog: CatalogCommits) -> None:
        if not self._update_lock.acquire(blocking=False):
            return
        try:
            self._update(catalog)
        except (DeltaSnapError, OSError) as error:
            _log.warning("An update in the background failed, the snapshot stays: %s", error)
        finally:
            self._update_lock.release()


def _warn_of_replaced_log(old: Snapshot, new: Snapshot) -> None:
    """Log a warning if the new log does not continue the old one: recreated, restored, rewritten or cut off."""
    before, after = old.log_segment, new.log_segment
    path = redacted(before.log_path)
    known = {file.path: file for file in before.deltas}
    changed = [file.name for file in after.deltas if known.get(file.path, file) != file]
    if after.version < before.version:
        _log.warning("The log at %s went back from version %d to %d.", path, before.version, after.version)
    elif changed:
        _log.warning("The log at %s was replaced: %s has changed.", path, changed[0])
    elif after.version == before.version and not after.continues(before):
        _log.info("The log at %s has another checkpoint for version %d.", path, after.version)
    _warn_of_other_table_id(old, new)


def _warn_of_other_table_id(old: Snapshot, new: Snapshot) -> None:
    if old.version < 0 or new.version < 0 or not old.log.is_loaded:
        return
    try:
        before, after = old.metadata.id, new.metadata.id
    except DeltaSnapError as error:
        _log.debug("The id of the table is not known: %s", error)
        return
    if before != after:
        _log.warning(
            "Change in the table id detected while updating snapshot: %s in %s, %s in %s.", before, old, after, new
        )


def _checkpoint_of(snapshot: Snapshot | None) -> int | None:
    if snapshot is None or snapshot.log_segment.checkpoint_provider.is_empty:
        return None
    return snapshot.log_segment.checkpoint_provider.version
