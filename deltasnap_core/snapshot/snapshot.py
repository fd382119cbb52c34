"""Snapshot: one version of a log, immutable, each part computed on first use."""

from __future__ import annotations

from dataclasses import replace

from deltasnap_core.log.checksum_validation import ChecksumDifference, compare_time_with_log, compare_with_log
from deltasnap_core.log.listing.checkpoint_provider import NO_CHECKPOINT
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.known_state import KnownState
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.scan.table_version import TableVersion
from deltasnap_core.snapshot.replayed_version import ReplayedVersion
from deltasnap_core.snapshot.table_context import TableContext

_log = logger_of(__name__)


class Snapshot(TableVersion):
    """One version of a table, from its log, with the members of Delta's Snapshot: see TableVersion for most of them.

    If a checkpoint is damaged, everything that is computed here logs a warning and falls back to an older checkpoint or
    to the commits. `state`, `all_files` and `tombstones` are DataFrames that the caller runs. If such a DataFrame fails
    on a file of the log, open the table with `SnapshotOptions(check_pages=True)`. The DataFrames then read every page
    first, and fall back from a damaged checkpoint or raise CorruptLogError naming it.

    log:         the log of the version.
    min_file_retention_timestamp: see the member; None: use the table's property.
    known_state: the computed state of an earlier version, used if the log continues that version.
    keep_state:  whether Spark caches `state` after its first computation, until `close`; and whether the counted files
                 are kept to compute the state of the next version, in this process or, for a large table, in Spark.
    """

    _versions: Fallback[ReplayedVersion]

    def __init__(
        self,
        context: TableContext,
        log: VersionLog,
        *,
        min_file_retention_timestamp: int | None = None,
        known_state: KnownState | None = None,
        keep_state: bool = False,
    ) -> None:
        name = f"#{log.version} - {redacted(log.segment.log_path)}"
        version = ReplayedVersion(
            context=context,
            log=log,
            min_file_retention_timestamp=min_file_retention_timestamp,
            cache=StateCache(f"Delta Table State {name}") if keep_state else None,
            known=known_state,
            kept_counts=f"Delta Table Counts {name}" if keep_state else None,
        )
        super().__init__(Fallback(version))
        _log.info("Created snapshot %s", self)

    @classmethod
    def load(
        cls,
        context: TableContext,
        log: VersionLog,
        *,
        predecessor: Snapshot | None = None,
        min_file_retention_timestamp: int | None = None,
        is_current: bool = False,
    ) -> Snapshot:
        """Return the snapshot of a version; nothing is read yet. Delta's `createSnapshot`.

        log:         of the version, from `TableLog.version_log`.
        predecessor: a snapshot of any version of the same table, whose data is reused.
        is_current:  whether it is the current snapshot, the only one whose state Spark may cache.
        """
        provider = log.segment.checkpoint_provider
        start = "" if provider.is_empty else f" starting from checkpoint {provider.version}"
        _log.info("Loading version %d%s.", log.version, start)
        return cls(
            context,
            replace(
                log,
                known=None if predecessor is None else predecessor.log.best_known,
                validate_state=context.options.validate_state is not False,
            ),
            min_file_retention_timestamp=min_file_retention_timestamp,
            known_state=None if predecessor is None else predecessor.known_state,
            keep_state=is_current and context.options.cache_state,
        )

    @property
    def checksum(self) -> VersionChecksum | None:
        """The parsed `.crc` file of the version; None: there is none, or it cannot be parsed."""
        return self.log.checksum

    @property
    def min_file_retention_timestamp(self) -> int:
        """Tombstones of this time (ms) or before have expired; 0: none have.

        Default: the time at which the snapshot was loaded, minus `delta.deletedFileRetentionDuration`.
        """
        chosen = self._versions.version.min_file_retention_timestamp
        return self.log.min_file_retention_timestamp if chosen is None else chosen

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the live files.

        Taken from the checksum, without a replay, until the log itself is read.
        """
        checksum = self.log.hint
        return self.computed_state.size_in_bytes if checksum is None else checksum.table_size_bytes

    @property
    def num_of_files(self) -> int:
        """The number of live files.

        Taken from the checksum, without a replay, until the log itself is read.
        """
        checksum = self.log.hint
        return self.computed_state.num_of_files if checksum is None else checksum.num_files

    def validate_checksum(self) -> tuple[ChecksumDifference, ...]:
        """Return the differences between the `.crc` file and a replay of the log; empty: none, or no `.crc` file."""
        checksum = self.checksum
        if checksum is None:
            return ()
        all_files = None if checksum.all_files is None else self._versions.run(ReplayedVersion.read_live_files)
        found = compare_with_log(checksum, self.computed_state, all_files, self.path)
        if self.log_segment.last_commit_file is None:
            return found
        return (*found, *compare_time_with_log(checksum, self.log.in_commit_timestamp))

    def close(self, successor: Snapshot | None = None) -> None:
        """Release the data that Spark caches, except data that a successor needs. The snapshot keeps working."""
        version = self._versions.version
        if version.cache is None:
            return
        version.cache.release()
        known, needed = self.known_state, None if successor is None else successor.known_state
        if not ReplayedVersion.computed.is_computed(version):
            self._versions = Fallback(replace(version, kept_counts=None))
        if known is not None and (needed is None or needed.files is not known.files):
            known.files.release()

    @property
    def log(self) -> VersionLog:
        """The log of the version, for everything that needs no replay.

        Once the log itself was read, it decides. Until then, the checksum does.
        """
        return self._versions.version.facts

    @property
    def versions(self) -> Fallback[ReplayedVersion]:
        """The replayed version, for queries: one that meets a damaged checkpoint continues without it."""
        return self._versions

    @property
    def known_state(self) -> KnownState | None:
        """The computed state; if not computed yet, that of an earlier version; None: neither is known."""
        return self._versions.version.best_known


class InitialSnapshot(Snapshot):
    """Version -1 of a table: no files, no transactions, no domains, timestamp -1.

    It has no protocol and no metadata. Members that need them raise DeltaTableNotFoundError.
    """

    def __init__(self, context: TableContext, *, now_ms: int) -> None:
        segment = LogSegment(
            log_path=context.table_log.log_path,
            version=-1,
            deltas=(),
            checkpoint_provider=NO_CHECKPOINT,
            last_commit_timestamp=-1,
        )
        log = VersionLog(builder=context.table_log.builder, segment=segment, now_ms=now_ms, validate_state=False)
        super().__init__(context, log)
