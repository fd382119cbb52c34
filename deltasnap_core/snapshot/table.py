"""Table: one version of a table, for users who want its rows and facts in pandas, Arrow, Polars, DuckDB or Spark.

from deltasnap_core import open_table

table = open_table("s3://lake/events", version=12)
table.scan("day >= '2026-03-01'").select("id", "amount").limit(10).to_pandas()
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from deltasnap_core.errors import DeltaTableNotFoundError
from deltasnap_core.log.catalog import Catalog, located
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.engine import ReplayEngine
from deltasnap_core.replay.sessions import SparkProvider, provider_of
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.replay.spark.session.started_session import StartedSession
from deltasnap_core.scan.search.bisect import Bisection, BisectOptions
from deltasnap_core.scan.search.blame import RowHistory
from deltasnap_core.scan.search.known_versions import KnownVersions
from deltasnap_core.scan.table_rows import TableRows
from deltasnap_core.scan.tables.column_trends import trend_rows
from deltasnap_core.scan.tables.history_frame import history_rows
from deltasnap_core.scan.tables.log_tables import log_files_rows, versions_rows
from deltasnap_core.scan.tables.storage_groups import StorageGrouping
from deltasnap_core.scan.version import rows_in_arrow
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.snapshot.session_properties import with_session_defaults
from deltasnap_core.snapshot.snapshot import Snapshot
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
from deltasnap_core.snapshot.table_context import TableContext


def open_table(
    path: str | os.PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    spark: SparkSession | SparkProvider | None = None,
    catalog: Catalog | None = None,
) -> Table:
    """Return a version of a table. Starts no Spark.

    path:            folder or URL of the table; its name, if there is a `catalog`.
    version:         None: the latest, or the one at `timestamp`.
    timestamp:       the last version committed at or before a time: a datetime or its text in ISO 8601 (without a zone:
                     local time), or ms since the epoch.
    storage_options: for fsspec.
    spark:           the session for what needs Spark, or a provider of one. None: the active session; without one,
                     Spark starts when it is needed.
    catalog:         knows the table by its name, and the ratified commits of a table that it manages.
                     `storage_options` replace those that it gives.
    Errors: ValueError for a version together with a timestamp; DeltaTableNotFoundError, VersionNotFoundError,
    TimestampNotFoundError, VersionGapError, CorruptLogError, StorageError, CatalogError.
    """
    if catalog is not None:
        found = located(catalog, os.fspath(path), storage_options)
        path, storage_options = found.location, found.storage_options
    sessions = StartedSession() if spark is None else provider_of(spark)
    context = TableContext(
        engine=ReplayEngine(sessions),
        table_log=TableLog.for_path(path, storage_options),
        files=SparkFiles.of(storage_options, sessions),
        options=with_session_defaults(sessions, SnapshotOptions(cache_state=False)),
    )
    log = DeltaLog(context, staleness_limit_ms=0)
    if version is None and timestamp is None:
        snapshot = log.update()
        if snapshot.version < 0:
            raise DeltaTableNotFoundError(path=context.table_log.table_path)
        return Table(log=log, snapshot=snapshot)
    when = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else timestamp
    return Table(log=log, snapshot=log.get_snapshot_at(version, timestamp=when, can_return_last_commit=True))


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One version of a table. Immutable: open the table again to see new commits.

    Only what says so starts Spark. Of the others, `files` and `TableRows.count` use it if the version is large: see
    "Which engine computes what" in the documentation.
    log, snapshot: the same table and version with Delta's names, for everything else.
    """

    log: DeltaLog = field(repr=False)
    snapshot: Snapshot

    @property
    def version(self) -> int:
        """The version."""
        return self.snapshot.version

    @property
    def schema(self) -> StructType:
        """The columns, in PySpark's types. Errors: as `TableVersion.schema`."""
        return self.snapshot.schema

    def scan(self, where: str | None = None) -> TableRows:
        """Return the rows for which a condition is true, for `select`, `limit`, and `to_pandas` or another form.

        where: a condition on the table's columns, in Spark SQL; None: all rows. To check it starts Spark, and so does
        reading the rows. See "Predicates" in the documentation.
        Errors: PredicateError, a ValueError, for an invalid condition.
        """
        return TableRows(version=self.snapshot, source=self.snapshot.scan(where))

    def history(self, limit: int | None = None) -> TableRows:
        """Return the commits up to the version, newest first, with the columns of `DeltaLog.history_frame`.

        limit: the maximum number; None: all that still exist.
        """
        return self._rows(history_rows(self.log.history.get_history(limit=limit, end=self.version)))

    def files(self) -> TableRows:
        """Return the live files as in the log, with the columns of ALL_FILES_SCHEMA.

        Up to 50,000 file actions are read without Spark. `snapshot.tables.files` has typed values and bounds.
        """
        return self._rows(self.snapshot.versions.run(rows_in_arrow))

    def properties(self) -> TableRows:
        """Return the properties of the table, as `TableVersion.get_properties`: key, value (string, not null)."""
        found = self.snapshot.get_properties()
        return self._rows(pa.table({"key": list(found), "value": list(found.values())}, schema=_PROPERTIES))

    def partitions(self) -> TableRows:
        """Return the partitions, as `MetadataTables.partitions`. Starts Spark."""
        return self._rows(self.snapshot.tables.partitions)

    def column_stats(self) -> TableRows:
        """Return the coverage of the statistics, as `MetadataTables.column_stats`. Starts Spark."""
        return self._rows(self.snapshot.tables.column_stats)

    def column_trends(self) -> TableRows:
        """Return the nulls and the extremes of each column, as `MetadataTables.column_trends`.

        Up to 50,000 file actions are read without Spark.
        """
        return self._rows(trend_rows(self.snapshot.tables.column_trend_values()))

    def tombstones(self) -> TableRows:
        """Return the removed files that the log still has, as `MetadataTables.tombstones`. Starts Spark."""
        return self._rows(self.snapshot.tables.tombstones)

    def entries(self) -> TableRows:
        """Return the history of each file, as `MetadataTables.entries`. Starts Spark."""
        return self._rows(self.snapshot.tables.entries)

    def versions(self) -> TableRows:
        """Return the versions up to this one, as `MetadataTables.versions`."""
        return self._rows(versions_rows(self.snapshot.versions.version.known_versions()))

    def log_files(self) -> TableRows:
        """Return the files of the log, as `MetadataTables.log_files`."""
        version = self.snapshot.versions.version
        return self._rows(log_files_rows(version.log_files(), version.segment))

    def optimize_candidates(self) -> TableRows:
        """Return the partitions that OPTIMIZE would compact, as `MetadataTables.optimize_candidates`. Starts Spark."""
        return self._rows(self.snapshot.tables.optimize_candidates)

    def vacuum_candidates(self, *, list_files: bool = False, retention_ms: int | None = None) -> TableRows:
        """Return the files that VACUUM would delete, as `MetadataTables.vacuum_candidates`. Starts Spark."""
        tables = self.snapshot.tables
        return self._rows(tables.vacuum_candidates(list_files=list_files, retention_ms=retention_ms))

    def file_problems(self) -> TableRows:
        """Return the files that storage lacks or has otherwise, as `MetadataTables.file_problems`. Starts Spark."""
        return self._rows(self.snapshot.tables.file_problems())

    def bisect(self, **wanted: Unpack[BisectOptions]) -> Bisection:
        """Return the version up to this one that changes an expectation from held to failed, as `git bisect` does.

            table.bisect(where="amount is null")  # no row matches, until some version

        The ends are judged first; then about log2(n) versions between them. It reads each data file at most once, and
        only those that may have matching rows; with `unique`, all rows of a version. Versions that cannot be judged are
        skipped: their log or their data files are damaged or gone, or they lack a column of the expectation. If they
        lie next to the change, the result is a range. Starts Spark, unless a `file` is expected.
        Errors: ValueError for an invalid expectation or end; PredicateError; those of a scan of the ends.
        """
        return self._known_versions.bisect(**wanted)

    def blame(self, key: Mapping[str, object], *, first: int | None = None) -> RowHistory:
        """Return the changes of the rows with a key, up to this version: who inserted, updated and deleted them.

            table.blame({"id": 7})

        Versions without a changed file that may have the key, by its statistics and partition values, are not read.
        Versions that cannot be judged, as in `bisect`, are skipped. Rows that were only copied did not change. An
        update of the key is a delete and an insert. Starts Spark.
        key:   the values by the names of columns, or of fields as `address.city`; None: null.
        first: the first version to read; None: the earliest that can be judged.
        Errors: ValueError for an unknown column or an invalid value; those of a scan of this version.
        """
        return self._known_versions.blame(key, first=first)

    @property
    def _known_versions(self) -> KnownVersions:
        earlier = [number for number in self.log.history.reconstructable_versions() if number < self.version]
        return KnownVersions(numbers=[*earlier, self.version], open=self._opened)

    def _opened(self, version: int) -> Snapshot:
        return self.snapshot if version == self.version else self.log.get_snapshot_at(version)

    def storage_files(self) -> TableRows:
        """Return every file below the table's folder, as `MetadataTables.storage_files`. Starts Spark."""
        return self._rows(self.snapshot.tables.storage_files())

    def storage_groups(self, by: StorageGrouping) -> TableRows:
        """Return the bytes of the table by class and group, as `MetadataTables.storage_groups`. Starts Spark."""
        return self._rows(self.snapshot.tables.storage_groups(by))

    def _rows(self, rows: pa.Table | DataFrame) -> TableRows:
        return TableRows(version=self.snapshot, source=rows)


_PROPERTIES = pa.schema([pa.field(name, pa.string()) for name in ("key", "value")])
