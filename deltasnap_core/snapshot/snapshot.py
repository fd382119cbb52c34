"""Snapshot: one version of a table, immutable, each part computed on first use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.once import once, value_if_computed
from deltasnap_core.protocol.actions import AddFile, Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.protocol.table_config import ColumnMappingMode, column_mapping_mode, num_indexed_cols
from deltasnap_core.protocol.version_checksum import VersionChecksum
from deltasnap_core.replay.local_rows import no_rows
from deltasnap_core.replay.schemas import ADD, REMOVE
from deltasnap_core.replay.state_reconstruction import live_files, state_actions, unexpired_tombstones
from deltasnap_core.replay.table_schema import parse_schema
from deltasnap_core.scan.metadata_tables import MetadataTables
from deltasnap_core.scan.options import ScanOptions
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.snapshot.checksum_validation import ChecksumDifference, compare_with_log
from deltasnap_core.snapshot.snapshot_tables import snapshot_tables
from deltasnap_core.snapshot.state_cache import StateCache, job_description
from deltasnap_core.snapshot.state_computation import (
    ComputedVersion,
    advanced_state,
    can_advance,
    count_files,
    reconciled_files,
    state_of,
)
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.urls import redacted


class Snapshot:
    """One version of a table. Nothing is read before it is asked for, and then once; threads may share a snapshot.

    Where the protocol of the version is not supported, what needs no replay still answers (`version`, `timestamp`,
    `protocol`, `metadata` and what follows from them); the rest raises UnsupportedProtocolError.
    Errors of any member: CorruptLogError (names the file), ActionNotFoundError (no protocol or metadata in the log).

    log:         what the log says of the version.
    min_file_retention_timestamp: see the member; None: from the table's own property.
    known_state: the computed state of an earlier version, to start from where the log goes on from there.
    keep_state:  whether Spark keeps `state` once it was computed, until `close`, and of a large table what the
                 computed state counts, from which that of the next version is computed.
    """

    def __init__(
        self,
        context: TableContext,
        log: VersionLog,
        *,
        min_file_retention_timestamp: int | None = None,
        known_state: ComputedVersion | None = None,
        keep_state: bool = False,
    ) -> None:
        self._context = context
        self._log = log
        self._chosen_retention_timestamp = min_file_retention_timestamp
        self._known_state = known_state
        name = f"#{self.version} - {redacted(self.path)}"
        self._cache = StateCache(context.spark, f"Delta Table State {name}") if keep_state else None
        self._counts = StateCache(context.spark, f"Delta Table Counts {name}") if keep_state else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={redacted(self.path)}, version={self.version})"

    @property
    def path(self) -> str:
        """URL of the `_delta_log` folder."""
        return self.log_segment.log_path

    @property
    def version(self) -> int:
        """The version of the table; -1 for the InitialSnapshot alone."""
        return self.log_segment.version

    @property
    def log_segment(self) -> LogSegment:
        """The files of the log that make up the version, as a listing found them."""
        return self._log.segment

    @property
    def timestamp(self) -> int:
        """When the version was committed, ms since the epoch: in-commit timestamp where enabled, else file time.

        Source: PROTOCOL.md, In-Commit Timestamps.
        """
        return self._log.timestamp

    @property
    def checksum(self) -> VersionChecksum | None:
        """What the writer said of the version in its `.crc` file; None: nothing that can be understood."""
        return self._log.checksum

    @property
    def protocol(self) -> Protocol:
        """What a client must implement to read and write the version. Needs no replay."""
        return self._log.protocol

    @property
    def metadata(self) -> Metadata:
        """Schema, partition columns and properties of the version. Needs no replay."""
        return self._log.metadata

    @property
    def min_file_retention_timestamp(self) -> int:
        """Tombstones of this time (ms) or before have expired; 0: none has.

        By default the snapshot's present minus `delta.deletedFileRetentionDuration`.
        """
        chosen = self._chosen_retention_timestamp
        return self._log.min_file_retention_timestamp if chosen is None else chosen

    @once
    def state(self) -> DataFrame:
        """The reconstructed state as actions: add, remove, metaData, protocol, txn, domainMetadata, one set in a row.

        Removes are the tombstones that have not expired; expired transactions are left out.
        Source: PROTOCOL.md, Action Reconciliation.
        """
        retention = self.min_file_retention_timestamp
        actions = state_actions(self._context.spark, self._files, self._log.non_file, retention)
        return actions if self._cache is None else self._cache.cached(actions)

    @once
    def all_files(self) -> DataFrame:
        """The live files, with the columns of AddFile; `path` as in the log, an absolute one made canonical."""
        if self._cache is not None and self._cache.is_cached:
            return self.state.where("add.path is not null").select("add.*")
        if self._files is None:
            return no_rows(self._context.spark, ADD)
        return live_files(self._files)

    def scan(
        self,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        options: ScanOptions | None = None,
    ) -> Scan:
        """Return a scan of the version's rows: which files may hold them, and the rows themselves.

        where: a condition over the table's columns, as Spark SQL. columns: None: all.
        Errors: PredicateError, which is a ValueError; ValueError on a column that is not there.
        """
        return Scan(self.scanned_table(options), self.all_files, where=where, columns=columns)

    @once
    def tables(self) -> MetadataTables:
        """The metadata tables: files, entries, history, partitions, versions, log_files, tombstones, column_stats."""
        return snapshot_tables(
            self._context,
            self._log,
            self.scanned_table(),
            files=lambda: self.all_files,
            tombstones=self._every_tombstone,
        )

    def scanned_table(self, options: ScanOptions | None = None) -> ScannedTable:
        """Return what a scan must know of the version."""
        return ScannedTable(
            self._context.spark,
            table_path=self._context.log.table_path,
            version=self.version,
            metadata=self.metadata,
            store=self._context.log.store,
            spark_files=self._context.files,
            options=options,
        )

    @once
    def tombstones(self) -> DataFrame:
        """The files removed whose tombstones have not expired, with the columns of RemoveFile."""
        if self._files is None:
            return no_rows(self._context.spark, REMOVE)
        return unexpired_tombstones(self._files, self.min_file_retention_timestamp)

    @once
    def computed_state(self) -> SnapshotState:
        """What the state amounts to, always computed from the log: counts, sizes, histograms, the other actions."""
        log = replace(self._log.replayable, non_file=self._log.non_file)
        retention, reader = self.min_file_retention_timestamp, self._context.reader(counts_only=True)
        with job_description(self._context.spark, f"Delta: Compute snapshot for version: {self.version}"):
            known = self._known_state
            if known is not None and can_advance(known, log, retention):
                files, state = known.files, advanced_state(reader, known, log, retention)
            else:
                size = 0 if log.contents is None else log.contents.num_rows
                is_large = size >= self._context.options.cached_counts_from
                files = count_files(reader, log, self._counts if is_large else None)
                state = state_of(files, log, retention)
                if known is not None and self._counts is not None:
                    known.files.release()
        self._known_state = ComputedVersion(log=log, state=state, min_file_retention_timestamp=retention, files=files)
        return state

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the live files: what the checksum says, without a replay, where nothing was computed yet."""
        told = self._told
        return self.computed_state.size_in_bytes if told is None else told.table_size_bytes

    @property
    def num_of_files(self) -> int:
        """How many live files there are: what the checksum says, without a replay, where nothing was computed yet."""
        told = self._told
        return self.computed_state.num_of_files if told is None else told.num_files

    @property
    def set_transactions(self) -> tuple[SetTransaction, ...]:
        """The newest transaction of each application that has not expired, by application id. Needs no replay."""
        return self._log.set_transactions

    @property
    def transactions(self) -> dict[str, int]:
        """The transaction version of each application. Needs no replay."""
        return {transaction.app_id: transaction.version for transaction in self.set_transactions}

    @property
    def domain_metadata(self) -> dict[str, str]:
        """The configuration of each domain, removed ones left out. Needs no replay."""
        return self._log.domains

    def get_properties(self) -> dict[str, str]:
        """The table's properties without `path`, its protocol versions, and `delta.feature.<name>` = `supported`."""
        properties = {key: value for key, value in self.metadata.configuration.items() if key != "path"}
        properties["delta.minReaderVersion"] = str(self.protocol.min_reader_version)
        properties["delta.minWriterVersion"] = str(self.protocol.min_writer_version)
        features = {*(self.protocol.reader_features or ()), *(self.protocol.writer_features or ())}
        return properties | {f"delta.feature.{name}": "supported" for name in sorted(features)}

    @property
    def num_indexed_cols(self) -> int:
        """How many columns have statistics; -1: all of them."""
        return num_indexed_cols(self.metadata.configuration)

    @property
    def column_mapping_mode(self) -> ColumnMappingMode:
        """How data files name the columns."""
        return column_mapping_mode(self.metadata.configuration)

    @once
    def schema(self) -> StructType:
        """The schema of the table."""
        return parse_schema(self.metadata.schema_string)

    @property
    def data_schema(self) -> StructType:
        """The columns that are in the data files: all but the partition columns."""
        return StructType([field for field in self.schema if field.name not in self.partition_columns])

    @property
    def partition_schema(self) -> StructType:
        """The partition columns, in their order."""
        by_name = {field.name: field for field in self.schema}
        return StructType([by_name[name] for name in self.partition_columns if name in by_name])

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The names of the partition columns, in their order."""
        return self.metadata.partition_columns

    def validate_checksum(self) -> tuple[ChecksumDifference, ...]:
        """Compare the version's `.crc` file with a replay of the log; empty: they agree, or there is no such file."""
        checksum = self.checksum
        if checksum is None:
            return ()
        all_files = None if checksum.all_files is None else self._live_files_with_stats()
        return compare_with_log(
            checksum, self.computed_state, in_commit_timestamp=self._log.in_commit_timestamp, all_files=all_files
        )

    def close(self, successor: Snapshot | None = None) -> None:
        """Release what Spark keeps of the state, but for what a successor builds on. The snapshot still answers."""
        if self._cache is None or self._counts is None:
            return
        self._cache.release()
        known = self._known_state
        handed_on = None if successor is None else successor.known_state
        if known is not None and (handed_on is None or handed_on.files is not known.files):
            known.files.release()
        if known is None or known.files.cache is not self._counts:
            self._counts.release()

    @property
    def log(self) -> VersionLog:
        """What the log says of the version without a replay."""
        return self._log

    @property
    def known_state(self) -> ComputedVersion | None:
        """The computed state, or while nobody has asked for it that of an earlier version; None: neither."""
        return self._known_state

    @once
    def _files(self) -> DataFrame | None:
        files = reconciled_files(self._context.reader(), self._log.replayable)
        if files is None or self._context.options.load_stats:
            return files
        without_stats = F.col("add").withField("stats", F.lit(None).cast("string"))
        return files.withColumn("add", F.when(F.col("add.path").isNotNull(), without_stats))

    @property
    def _told(self) -> VersionChecksum | None:
        return self.checksum if value_if_computed(self, "computed_state") is None else None

    def _every_tombstone(self) -> DataFrame:
        files = self._files
        return no_rows(self._context.spark, REMOVE) if files is None else unexpired_tombstones(files, 0)

    def _live_files_with_stats(self) -> list[AddFile]:
        files = reconciled_files(self._context.reader(), self._log.replayable)
        if files is None:
            return []
        rows = live_files(files).toArrow().to_pylist(maps_as_pydicts="strict")
        return [AddFile.from_json(row) for row in rows]
