"""Snapshot: one version of a table, immutable, each part computed on first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.checksum_validation import ChecksumDifference, compare_with_log
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.once import once
from deltasnap_core.protocol.actions import Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.properties.table_config import ColumnMappingMode, column_mapping_mode, num_indexed_cols
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.protocol.table_features import check_readable, metadata_to_read
from deltasnap_core.redaction import logger_of, redacted, safe_repr
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.known_state import KnownState
from deltasnap_core.replay.spark.reading.table_schema import schema_of
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.table_columns import TableColumns
from deltasnap_core.scan.tables.metadata_tables import MetadataTables
from deltasnap_core.snapshot.computed_state import compute_state
from deltasnap_core.snapshot.replayed_version import ReplayedVersion
from deltasnap_core.snapshot.sources.snapshot_source import SnapshotSource
from deltasnap_core.snapshot.table_context import TableContext

_log = logger_of(__name__)


@safe_repr
class Snapshot:
    """One version of a table. Each part is computed on first use, and once. Threads may share a snapshot.

    If the version's protocol is not supported, members that need no replay still work (`version`, `timestamp`,
    `protocol`, `metadata` and members derived from them). All others raise UnsupportedProtocolError.
    Errors of any member: CorruptLogError (names the file), ActionNotFoundError (no protocol or metadata in the log).

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

    def __init__(
        self,
        context: TableContext,
        log: VersionLog,
        *,
        min_file_retention_timestamp: int | None = None,
        known_state: KnownState | None = None,
        keep_state: bool = False,
    ) -> None:
        self._context = context
        name = f"#{log.version} - {redacted(log.segment.log_path)}"
        self._cache = StateCache(f"Delta Table State {name}") if keep_state else None
        self._versions = Fallback(
            ReplayedVersion(
                context=context, log=log, min_file_retention_timestamp=min_file_retention_timestamp, cache=self._cache
            )
        )
        self._known_state = known_state
        self._kept_counts = f"Delta Table Counts {name}" if keep_state else None
        _log.info("Created snapshot %s", self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={redacted(self.path)}, version={self.version})"

    @property
    def path(self) -> str:
        """URL of the `_delta_log` folder."""
        return self.log_segment.log_path

    @property
    def version(self) -> int:
        """The version of the table; -1 only for the InitialSnapshot."""
        return self.log_segment.version

    @property
    def log_segment(self) -> LogSegment:
        """The log files of the version, as a listing found them."""
        return self._versions.version.log.segment

    @property
    def timestamp(self) -> int:
        """When the version was committed (ms since the epoch): in-commit timestamp where enabled, otherwise file time.

        Source: PROTOCOL.md, In-Commit Timestamps.
        """
        return self.log.timestamp

    @property
    def checksum(self) -> VersionChecksum | None:
        """The parsed `.crc` file of the version; None: there is none, or it cannot be parsed."""
        return self.log.checksum

    @property
    def protocol(self) -> Protocol:
        """The features that a client must support to read and write the version. Needs no replay."""
        return self.log.protocol

    @property
    def metadata(self) -> Metadata:
        """Schema, partition columns and properties of the version. Needs no replay."""
        return self.log.metadata

    @property
    def min_file_retention_timestamp(self) -> int:
        """Tombstones of this time (ms) or before have expired; 0: none have.

        Default: the time at which the snapshot was loaded, minus `delta.deletedFileRetentionDuration`.
        """
        chosen = self._versions.version.min_file_retention_timestamp
        return self.log.min_file_retention_timestamp if chosen is None else chosen

    @property
    def state(self) -> DataFrame:
        """The reconstructed state as actions, with the columns add, remove, metaData, protocol, txn, domainMetadata.

        Each column is a struct with the fields of the action in PROTOCOL.md. One of them is not null in each row.
        Expired tombstones and expired transactions are left out. Delta's `stateDF`, cached as its `cachedState`; only
        `dataChange` differs: Delta sets it to false; here it is as in the log, where a checkpoint has false.
        This DataFrame and `all_files` are lazy: if a file of the log vanishes or is damaged before you collect them,
        Spark raises its own exception, such as Py4JJavaError.
        Source: PROTOCOL.md, Action Reconciliation.
        """
        return self._versions.run(lambda version: version.state)

    @property
    def all_files(self) -> DataFrame:
        """The live files, with the columns of ALL_FILES_SCHEMA. `path` is as in the log; an absolute path is canonical.

        `stats` is the JSON of the log; if a checkpoint has the statistics only as a struct, JSON made from it. With
        both, they should be equal (PROTOCOL.md, Checkpoint Schema). If they are not, the struct has the number of
        records for `computed_state`, and on Spark the bounds for a scan: reading it takes less time. See `state` for
        errors.
        """
        return self._versions.run(lambda version: version.all_files)

    def scan(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        options: ScanOptions | None = None,
    ) -> Scan:
        """Return a scan of the version's rows: the files that may contain them, and the rows themselves.

        where:   a condition on the table's columns, in Spark SQL.
        columns: names of columns or, with dots, of fields, in the order of the result; None: all.
        Errors: PredicateError, a ValueError, for an invalid condition; ValueError for an unknown column.
        """
        self._check_protocol()
        return Scan(self.scanned_table(options), self._versions, where=where, columns=columns, totals=self._totals)

    @once
    def tables(self) -> MetadataTables:
        """The metadata tables, such as `files`, `partitions` and `optimize_candidates`; all are in MetadataTables."""
        source = SnapshotSource(context=self._context, replayed=self._versions)
        return MetadataTables(self.scanned_table(), source)

    def scanned_table(self, options: ScanOptions | None = None) -> ScannedTable:
        """Return the facts about the version that a scan needs."""
        return self._scanned_table if options is None else self._as_scanned(options)

    @once
    def _scanned_table(self) -> ScannedTable:
        return self._as_scanned(None)

    def _as_scanned(self, options: ScanOptions | None) -> ScannedTable:
        log = self.log.read()  # a scan reads it anyway, and the schema decides which rows it returns
        return ScannedTable(
            self._context.engine.sessions,
            table_path=self._context.table_log.table_path,
            version=self.version,
            metadata=metadata_to_read(self.protocol, self.metadata),
            store=self._context.table_log.store,
            spark_files=self._context.files,
            options=options,
            place=log.place_of_metadata,
        )

    @property
    def tombstones(self) -> DataFrame:
        """The removed files whose tombstones have not expired, with the columns of TOMBSTONES_SCHEMA."""
        return self._versions.run(lambda version: version.tombstones(version.retention))

    @property
    def computed_state(self) -> SnapshotState:
        """Counts, sizes and histograms of the state, and its non-file actions. Always computed from the log."""
        return self._computed.state

    @property
    def computed_by(self) -> str:
        """How `computed_state` was computed: `Spark 4.3.0, local[2]`, or `driver: 12 actions applied to version 40`."""
        return self._computed.computed_by

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

    @property
    def set_transactions(self) -> tuple[SetTransaction, ...]:
        """The newest transaction of each application that has not expired, ordered by application id.

        Needs no replay.
        """
        return self.log.set_transactions

    @property
    def transactions(self) -> dict[str, int]:
        """The transaction version of each application, by application id. Needs no replay."""
        return self.log.transactions

    @property
    def domain_metadata(self) -> dict[str, str]:
        """The configuration of each domain that is not removed, by domain name. Needs no replay."""
        return self.log.domains

    def get_properties(self) -> dict[str, str]:
        """Return the table's properties without `path`, protocol versions, and `delta.feature.<name>` = `supported`."""
        return self.log.properties

    @property
    def num_indexed_cols(self) -> int:
        """The number of columns that have statistics; -1: all of them."""
        return num_indexed_cols(self.metadata.configuration)

    @property
    def column_mapping_mode(self) -> ColumnMappingMode:
        """How data files name the columns."""
        return column_mapping_mode(metadata_to_read(self.protocol, self.metadata).configuration)

    @once
    def schema(self) -> StructType:
        """The schema of the table.

        Errors: CorruptLogError if rows cannot be read by it, see `check_schema`. If the protocol or a recorded change
        of a type is not supported: UnsupportedProtocolError. Its features may add types.
        """
        place, table_path = self.log.place_of_metadata, self._context.table_log.table_path
        try:
            return schema_of(
                metadata_to_read(self.protocol, self.metadata), table_path=table_path, version=self.version, place=place
            )
        except CorruptLogError:
            self._check_protocol()
            raise

    def _check_protocol(self) -> None:
        """Raise UnsupportedProtocolError rather than an error about a schema that may have types of its features."""
        check_readable(self.protocol, path=self._context.table_log.table_path, version=self.version)

    @property
    def data_schema(self) -> StructType:
        """The columns in the data files: all columns except the partition columns."""
        partition = self.partition_schema.names
        return StructType([field for field in self.schema if field.name not in partition])

    @property
    def partition_schema(self) -> StructType:
        """The partition columns, in partition order."""
        schema = self.schema
        return StructType([schema[column.name] for column in TableColumns(self.metadata).partition])

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns, in partition order."""
        return self.metadata.partition_columns

    def validate_checksum(self) -> tuple[ChecksumDifference, ...]:
        """Return the differences between the `.crc` file and a replay of the log; empty: none, or no `.crc` file."""
        checksum = self.checksum
        if checksum is None:
            return ()
        all_files = None if checksum.all_files is None else self._versions.run(ReplayedVersion.read_live_files)
        return compare_with_log(
            checksum,
            self.computed_state,
            in_commit_timestamp=self.log.in_commit_timestamp,
            is_commit_known=self.log_segment.last_commit_file is not None,
            all_files=all_files,
            log_path=self.path,
        )

    def close(self, successor: Snapshot | None = None) -> None:
        """Release the data that Spark caches, except data that a successor needs. The snapshot keeps working."""
        if self._cache is None:
            return
        self._cache.release()
        self._kept_counts = None
        known, needed = self._known_state, None if successor is None else successor.known_state
        if known is not None and (needed is None or needed.files is not known.files):
            known.files.release()

    @property
    def log(self) -> VersionLog:
        """The log of the version, for everything that needs no replay.

        Once the log itself was read, it decides. Until then, the checksum does.
        """
        log = self._versions.version.log
        return log.read() if log.is_loaded else log

    @property
    def versions(self) -> Fallback[ReplayedVersion]:
        """The replayed version, for queries: one that meets a damaged checkpoint continues without it."""
        return self._versions

    @property
    def known_state(self) -> KnownState | None:
        """The computed state; if not computed yet, that of an earlier version; None: neither is known."""
        return self._known_state

    @once
    def _computed(self) -> KnownState:
        self._known_state = computed = self._versions.run(self._compute)
        return computed

    def _compute(self, version: ReplayedVersion) -> KnownState:
        log = replace(version.log.replayable, non_file=version.log.non_file)
        return compute_state(self._context, log, version.retention, self._known_state, self._kept_counts)

    @property
    def _totals(self) -> tuple[int, int] | None:
        """The number of live files and their bytes, as in the log; None: they were not counted yet."""
        if not Snapshot._computed.is_computed(self):
            return None
        return self.computed_state.num_of_files, self.computed_state.size_in_bytes
