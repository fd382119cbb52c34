"""TableVersion: one version of a table, from its log or from a store, with the members of Delta's Snapshot."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.once import once
from deltasnap_core.protocol.actions import Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.properties.table_config import ColumnMappingMode, column_mapping_mode, num_indexed_cols
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.protocol.table_features import check_readable, metadata_to_read, table_properties
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.replay.engine import Answer
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.spark.reading.table_schema import schema_of
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.table_columns import TableColumns
from deltasnap_core.scan.tables.metadata_tables import MetadataTables
from deltasnap_core.scan.version import Version, VersionFacts


@safe_repr
class TableVersion:
    """One version of a table, from its log (`Snapshot`) or from a store (`SnapshotStore.version`).

    Each part is computed on first use, and once. Threads may share it.
    If the version's protocol is not supported, members that need no replay still work (`version`, `timestamp`,
    `protocol`, `metadata` and members derived from them). All others raise UnsupportedProtocolError.
    Errors of any member: CorruptLogError (names the file), ActionNotFoundError (no protocol or metadata in the log);
    CorruptStoreError (names the file) of a stored version.
    """

    def __init__(self, versions: Fallback[Version]) -> None:
        """Create the version. versions: its value; queries that meet damage continue with another one."""
        self._versions = versions

    def __repr__(self) -> str:
        return f"{type(self).__name__}(path={redacted(self.path)}, version={self.version})"

    @property
    def path(self) -> str:
        """URL of the `_delta_log` folder."""
        return self._versions.version.log_path

    @property
    def version(self) -> int:
        """The version of the table; -1 only for the InitialSnapshot."""
        return self._versions.version.number

    @property
    def log_segment(self) -> LogSegment:
        """The log files of the version, as a listing found them."""
        return self._versions.version.segment

    @property
    def timestamp(self) -> int:
        """When the version was committed (ms since the epoch): in-commit timestamp where enabled, otherwise file time.

        Source: PROTOCOL.md, In-Commit Timestamps.
        """
        return self._facts.timestamp

    @property
    def protocol(self) -> Protocol:
        """The features that a client must support to read and write the version. Needs no replay."""
        return self._facts.protocol

    @property
    def metadata(self) -> Metadata:
        """Schema, partition columns and properties of the version. Needs no replay."""
        return self._facts.metadata

    @property
    def min_file_retention_timestamp(self) -> int:
        """Tombstones of this time (ms) or before have expired; 0: none have.

        Default: the time at which the snapshot was loaded, or at which a stored version was committed, minus
        `delta.deletedFileRetentionDuration`.
        """
        return self._versions.version.retention.min_file_retention_timestamp

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
        return self._versions.run(lambda version: version.actions)

    @property
    def all_files(self) -> DataFrame:
        """The live files, with the columns of ALL_FILES_SCHEMA. `path` is as in the log; an absolute path is canonical.

        `stats` is the JSON of the log; if a checkpoint has the statistics only as a struct, JSON made from it. With
        both, they should be equal (PROTOCOL.md, Checkpoint Schema). If they are not, the struct has the number of
        records for `computed_state`, and on Spark the bounds for a scan: reading it takes less time. See `state` for
        errors.
        """
        return self._versions.run(lambda version: version.all_files)

    @property
    def tombstones(self) -> DataFrame:
        """The removed files whose tombstones have not expired, with the columns of TOMBSTONES_SCHEMA."""
        return self._versions.run(lambda version: version.tombstones())

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
        return MetadataTables(self._versions)

    def scanned_table(self, options: ScanOptions | None = None) -> ScannedTable:
        """Return the facts about the version that a scan needs."""
        return self._versions.version.scanned(options)

    @property
    def versions(self) -> Fallback[Version]:
        """The value of the version, for queries: one that meets a damaged checkpoint continues without it."""
        return self._versions

    @property
    def computed_state(self) -> SnapshotState:
        """Counts, sizes and histograms of the state, and its non-file actions; of a log, always computed from it."""
        return self._counted.value

    @property
    def computed_by(self) -> str:
        """How `computed_state` was computed: `Spark 4.3.0, local[2]`, or `driver: 12 actions applied to version 40`."""
        return self._counted.computed_by

    @property
    def size_in_bytes(self) -> int:
        """Bytes of the live files."""
        return self.computed_state.size_in_bytes

    @property
    def num_of_files(self) -> int:
        """The number of live files."""
        return self.computed_state.num_of_files

    @property
    def set_transactions(self) -> tuple[SetTransaction, ...]:
        """The newest transaction of each application that has not expired, ordered by application id.

        Needs no replay.
        """
        return self._facts.set_transactions

    @property
    def transactions(self) -> dict[str, int]:
        """The transaction version of each application, by application id. Needs no replay."""
        return {transaction.app_id: transaction.version for transaction in self.set_transactions}

    @property
    def domain_metadata(self) -> dict[str, str]:
        """The configuration of each domain that is not removed, by domain name. Needs no replay."""
        return self._facts.domains

    def get_properties(self) -> dict[str, str]:
        """Return the table's properties without `path`, protocol versions, and `delta.feature.<name>` = `supported`."""
        return table_properties(self.protocol, self.metadata)

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
        place, path = self._facts.place_of_metadata, table_path(self.path)
        try:
            metadata = metadata_to_read(self.protocol, self.metadata)
            return schema_of(metadata, table_path=path, version=self.version, place=place)
        except CorruptLogError:
            self._check_protocol()
            raise

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

    @property
    def _facts(self) -> VersionFacts:
        return self._versions.version.facts

    @once
    def _counted(self) -> Answer[SnapshotState]:
        return self._versions.run(lambda version: version.state())

    @property
    def _totals(self) -> tuple[int, int] | None:
        """The number of live files and their bytes, as in the log; None: they were not counted yet."""
        if not TableVersion._counted.is_computed(self):
            return None
        return self.computed_state.num_of_files, self.computed_state.size_in_bytes

    def _check_protocol(self) -> None:
        """Raise UnsupportedProtocolError rather than an error about a schema that may have types of its features."""
        check_readable(self.protocol, path=table_path(self.path), version=self.version)
