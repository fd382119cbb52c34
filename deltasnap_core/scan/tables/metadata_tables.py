"""Metadata tables: facts about a table from its log, as DataFrames.

    snapshot.tables.partitions.show()
    snapshot.tables.create_view("column_stats")                      # then: select * from column_stats

Each table is a property that documents its columns. Sizes are bytes, times are timestamps; null outside of the years 1
to 9999. So are partition values and bounds. Names of columns inside structs are joined with dots, and quoted as in SQL
if this would be another column too. A partition value that is invalid for its column is null; a scan of such a file
raises CorruptLogError.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.protocol.properties.retention import KEEP_ALL
from deltasnap_core.protocol.properties.table_config import deleted_file_retention_ms
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.rules.file_actions import file_vector_id_sql, vector_id_sql
from deltasnap_core.rules.paths import path_key_sql
from deltasnap_core.rules.texts.sql_text import later_sql, quoted, timestamp_sql
from deltasnap_core.rules.totals.num_records import num_records_sql, possible_records_sql
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.skipping.partition_values import malformed_texts, partition_sql, shown_value
from deltasnap_core.scan.table_columns import TableColumn
from deltasnap_core.scan.tables.column_totals import TREND_COLUMNS, ColumnTotals
from deltasnap_core.scan.tables.column_trends import Trends, trend_rows
from deltasnap_core.scan.tables.file_problems import file_problems
from deltasnap_core.scan.tables.history_frame import history_frame
from deltasnap_core.scan.tables.log_tables import log_files_rows, versions_rows
from deltasnap_core.scan.tables.optimize_candidates import (
    CANDIDATE_COLUMNS,
    OptimizeCandidate,
    candidates_in_spark,
    optimize_candidates,
)
from deltasnap_core.scan.tables.readable_statistics import coverage_of_statistics, readable_statistics_sql
from deltasnap_core.scan.tables.storage_bill import ListedStorage, StorageBill, retained_files, storage_bill
from deltasnap_core.scan.tables.storage_groups import (
    StorageGrouping,
    bytes_by_age,
    bytes_by_partition,
    bytes_by_writer,
)
from deltasnap_core.scan.tables.vacuum_candidates import vacuum_candidates
from deltasnap_core.scan.tables.vacuum_summary import VacuumSummary, vacuum_summary
from deltasnap_core.scan.version import FileHistory, ReadFiles, ReferencedFiles, Version, arrow_of
from deltasnap_core.storage.folder_listing import FolderListing, list_below

NAMES = (
    "files",
    "entries",
    "history",
    "partitions",
    "versions",
    "log_files",
    "tombstones",
    "column_stats",
    "column_trends",
    "optimize_candidates",
    "vacuum_candidates",
    "file_problems",
)


class MetadataTables:
    """The metadata tables of one version of a table, or of its log. Each is created on demand."""

    def __init__(self, versions: Fallback[Version], options: ScanOptions | None = None) -> None:
        self._versions = versions
        self._table = versions.version.scanned(options)

    def create_view(self, name: str, view: str | None = None) -> str:
        """Create a temporary view of one of the tables. Return the view's name; default: the name of the table.

        Errors: ValueError for a name that is not in NAMES.
        """
        if name not in NAMES:
            raise ValueError(f"There is no metadata table {name!r}; there are {', '.join(NAMES)}")
        rows = getattr(self, name)
        rows = rows() if callable(rows) else rows
        rows.createOrReplaceTempView(view or name)
        return view or name

    @property
    def files(self) -> DataFrame:
        """The live files.

        path (string, as in the log), size (long), modification_time (timestamp), data_change (boolean, as in the log: a
        checkpoint has false for every file), records (long, null: not stated), deleted_records (long, by its deletion
        vector), partition (struct of the typed partition columns), stats (struct by column: min, max in the column's
        type, null_count; null: not stated), tags (map). Bounds of decimals of more than 15 digits are rounded.
        """
        return self._files.selectExpr(
            "path",
            "size",
            f"{timestamp_sql('modificationTime')} as modification_time",
            "dataChange as data_change",
            f"{self._records} as records",
            "coalesce(deletionVector.cardinality, 0L) as deleted_records",
            f"{self._partition} as partition",
            f"{readable_statistics_sql(self._data_columns)} as stats",
            "tags",
        )

    @property
    def partitions(self) -> DataFrame:
        """The partitions; a table without partition columns has one. Different invalid values are different partitions.

        partition (struct of the typed partition columns), files (long), bytes (long), records (long, of the files that
        state it, before deletion vectors), deleted_records (long), smallest_file, largest_file (long), last_change
        (timestamp: the newest modification time of its files). A sum beyond 64 bits is null.
        """
        columns = self._table.columns.partition
        values = [f"{shown_value(column)} as {quoted(column.name)}" for column in columns]
        files = self._files.selectExpr(
            f"struct({', '.join(values)}) as partition",
            f"{malformed_texts(self._table.columns.partition)} as malformed",
            "size",
            "modificationTime",
            f"{self._records} as records",
            "coalesce(deletionVector.cardinality, 0L) as deleted",
        )
        partitions = aggregated(files, ["partition", "malformed"], *map(F.expr, _PARTITION_TOTALS)).drop("malformed")
        # Only now, so that two of these are two partitions.
        shown = partition_sql((column, f"partition.{quoted(column.name)}") for column in columns)
        return partitions.withColumn("partition", F.expr(shown))

    @property
    def entries(self) -> DataFrame:
        """The history of each file: one row for each time that it was in the table.

        An add of a file that is in the table already starts no new row.
        path (string), deletion_vector (string, its unique id; null: none), size (long), added_version (long; null:
        in the first version whose later commits all exist, or before), removed_version (long; null: still in the
        table), data_change (boolean; null: unknown, because a checkpoint does not state it).
        """
        return _lives(self._version.file_history(), path_key_sql("path", self._table.table_path))

    @property
    def history(self) -> DataFrame:
        """The commits that still exist, newest first; columns as in `DeltaLog.history_frame`."""
        return history_frame(self._table.spark, self._version.commits())

    @property
    def versions(self) -> DataFrame:
        """The versions.

        version (long), timestamp (timestamp, null: its commit no longer exists), has_commit, has_checkpoint, loadable
        (boolean), why_not (string, null: it is loadable). For a log, a version is loadable if its files exist. Their
        content is not read: `TableLog.condition` finds damaged files.
        """
        return arrow_rows(self._table.spark, versions_rows(self._version.known_versions()))

    @property
    def log_files(self) -> DataFrame:
        """The files of the log.

        path (string, URL), kind (string), version (long), size (long), modification_time (timestamp), in_segment
        (boolean: used to load the version).
        """
        return arrow_rows(self._table.spark, log_files_rows(self._version.log_files(), self._version.segment))

    @property
    def tombstones(self) -> DataFrame:
        """The removed files that the log still has, ordered by expiry.

        path (string), deletion_timestamp, expires_at (timestamp), expired (boolean), size (long, null: not stated),
        data_change (boolean, as in `files`), deletion_vector (string, unique id).
        """
        expires = later_sql("coalesce(deletionTimestamp, 0L)", self._retention_ms)
        return self._tombstones.selectExpr(
            "path",
            f"{timestamp_sql('deletionTimestamp')} as deletion_timestamp",
            f"{timestamp_sql(expires)} as expires_at",
            f"({expires} <= {self._version.now_ms}L) as expired",
            "size",
            "dataChange as data_change",
            f"{vector_id_sql('deletionVector')} as deletion_vector",
        ).orderBy("expires_at", "path")  # fmt: skip

    @property
    def column_stats(self) -> DataFrame:
        """The coverage of the statistics, one row for each column that may have some.

        column (string), type (string), files (long), files_with_min, files_with_max, files_with_null_count (long),
        records (long, of the files that state it), records_with_min, records_with_null_count (long), share_of_files,
        share_of_records (double: with both bounds), null_count (long, where stated), min, max (string: the least and
        the greatest bound as written, but decimals of more than 15 digits are rounded; null: there is none). Sums
        beyond 64 bits are null.
        """
        files = self._files  # first: it checks the protocol, whose features may add types
        return coverage_of_statistics(self._data_columns, files)

    @property
    def column_trends(self) -> DataFrame:
        """The nulls and the extremes of the rows, one row for each column that is no struct, from statistics.

        column, type (string), records (long, of the version; null: unknown), null_count (long), null_share (double),
        min, max (string; a time with a zone in UTC), null_count_unknown, extremes_unknown (string: why; null: known).
        Numbers beyond 64 bits are null.
        Unlike in `column_stats`, a number is null unless it is that of the rows: see `column_trend_values`.
        """
        return arrow_rows(self._table.spark, trend_rows(self.column_trend_values()))

    def column_trend_values(self) -> Trends:
        """Return the rows of `column_trends` as values, in the same order. A small version may need no Spark.

        A number is unknown if a file does not state it, or states what no file can have. An extreme is also unknown if
        a bound that may be wider than the values of its file reaches further than all others: that of a file with a
        deletion vector, a text of 32 bytes or more, which writers cut, or a decimal of more than 15 digits, which some
        writers round. Times are those of the statistics, in milliseconds. NaN is no extreme.
        """
        return self._versions.run(lambda version: self._totals(version, None)).trends()

    def column_totals(self, since_ms: int, known: Mapping[str, Any] | None = None) -> ColumnTotals:
        """Return the totals that `column_trend_values` follow from, and the nulls of the files written after a time.

        known: the JSON value of those of an earlier version of the same log. Then only the files that changed since
        then are read, if that suffices.
        """
        return self._versions.run(lambda version: self._updated_totals(version, since_ms, known or {}))

    @property
    def optimize_candidates(self) -> DataFrame:
        """The partitions that OPTIMIZE would compact, the largest reduction of files first.

        partition (struct of the typed partition columns), files (long), small_files, small_bytes (long: files smaller
        than `delta.targetFileSize`, default 128 MiB), files_with_deletes (long: files of which a deletion vector
        deletes more than 5 % of the rows, or whose number of rows is unknown), rewritten_files, rewritten_bytes (long:
        files that OPTIMIZE would rewrite), files_after (long: files of the partition after it), statement (string: the
        OPTIMIZE statement, with the partition values as in the log; null: one of them is binary, or the path or a name
        has `${`, which Spark replaces). Bytes beyond 64 bits are null.

        The rules are those of Delta's OPTIMIZE with that target size: small files and files with deletes, smallest
        first, are packed until a file would exceed the target; two files or more become one, and a single file is
        rewritten if it has a deletion vector. A partition without any of these is not listed. Without
        `delta.targetFileSize`, Delta's Spark writer packs up to 1 GiB, and deltalake up to 100 MiB. OPTIMIZE of a table
        with clustering may rewrite more. The size of new files is estimated by that of the old ones. The driver packs
        the files: it holds a few numbers for each of them.
        """
        return candidates_in_spark(self._table, self.optimize_candidate_values())

    def optimize_candidate_values(self) -> tuple[OptimizeCandidate, ...]:
        """Return the rows of `optimize_candidates` as values, in the same order. A small version may need no Spark."""
        return self._versions.run(self._candidates)

    def vacuum_candidates(self, *, list_files: bool = False, retention_ms: int | None = None) -> DataFrame:
        """Return the files that VACUUM would delete, and those that are protected, with the reason.

        list_files: also list the table's folder and read every commit, to find orphans: files that no action names, and
        change data of commits older than the retention.
        retention_ms: as for VACUUM's RETAIN; None: `delta.deletedFileRetentionDuration` of this version or of the
        newest one, whichever is longer.
        path (string, decoded, relative to the table or a URL), reason (string: `expired tombstone`, `orphan`, or why it
        is protected), protected (boolean), size (long, null: unknown), deletion_timestamp (timestamp),
        modification_time (timestamp, of a listed file).

        A file is protected if a version within the retention needs it, or may need it: see "What VACUUM would delete"
        in the documentation of the commands. If a catalog manages the table, every file is protected unless the
        snapshot was opened with the commits of the catalog. Query the catalog just before: commits that it ratifies
        later are unknown.
        """
        listing = self._listing() if list_files else None
        named = self._referenced(every_commit=list_files, retention_ms=retention_ms)
        return self._vacuum_candidates(named, listing, None)

    def file_problems(self) -> DataFrame:
        """Compare the live files with those in the table's folder. Return the files that differ or were not compared.

        path (string, decoded, relative to the table or a URL; a data file or a deletion vector), problem (string:
        `missing`, `wrong size`, or why it was not compared), certain (boolean: it was compared), size (long, as in
        the log; null for deletion vectors), listed_size (long, null: not listed).

        Lists the table's folder. A file is equal to one whose name differs only in upper case or Unicode normal form.
        Files outside of the folder are not compared, nor files that are not listed if there is a symbolic link.
        Errors: StorageError.
        """
        files, listing = self._files, self._listing()
        with translated(*self._read_files):
            return file_problems(self._table, files, listing)

    def vacuum_summary(self, *, retention_ms: int | None = None) -> VacuumSummary:
        """Return files and bytes that VACUUM would delete, by folder and age, and the versions that would lose files.

        Summarizes `vacuum_candidates(list_files=True)`. retention_ms: as there.
        """
        listing = self._listing()
        named = self._referenced(every_commit=True, retention_ms=retention_ms)
        events, now_ms = self._version.events(), self._version.now_ms
        with self._cache() as cache, translated(*self._read_files):
            candidates = self._vacuum_candidates(named, listing, cache)
            return vacuum_summary(candidates, events, retention_ms=named.retention_ms, now_ms=now_ms)

    def storage_files(self) -> DataFrame:
        """Return every file below the table's folder, with the reason why it is there.

        path (string, relative to the table), class (string: a StorageClass), size (long), modification_time,
        deletion_timestamp (timestamp, when it was removed; null: it was not, or the log does not state it). Lists the
        folder and reads every commit. Errors: StorageError.
        """
        listing = self._listing()
        return self._storage(self._referenced(every_commit=True), listing, None).files

    def storage_bill(self, *, list_files: bool = True) -> StorageBill:
        """Return the bytes of the table by class. They add up to the listing of its folder.

        list_files: False: list only the log; change data, deletion vectors and orphans are unknown. The other sizes
        are those that the log states, also of files that do not exist or are outside of the folder.
        Errors: StorageError.
        """
        state = self._versions.run(lambda version: version.state()).value
        listing = self._listing(None if list_files else self._version.log_path)
        named = self._referenced(every_commit=list_files)
        with self._cache() as cache, translated(*self._read_files):
            if list_files:
                files, log_bytes = self._storage(named, listing, cache).files, None
            else:
                files = retained_files(self._vacuum_candidates(named, None, cache))
                log_bytes = sum(file.size for file in listing.files)
            return storage_bill(
                self._version.number, state, files, retention_ms=named.retention_ms, log_bytes=log_bytes
            )

    def storage_groups(self, by: StorageGrouping) -> DataFrame:
        """Return the bytes of the table by class, a row for each group of files. The groups add up to `storage_bill`.

        by: `partition`, `age` or `writer`. It decides the first columns:
        partition: partition (struct of the typed partition columns; null: of files in no partition, as those of the
        log and deletion vectors). The log states it; of other files, the names of their folders.
        age: age_days (int: the greatest of 0, 1, 7, 30, 90, 365 since a file was removed; of other files, since it was
        written; null: unknown).
        writer: operation, job (string, of the first commit with the file; null: it does not state them, no commit that
        still exists made the file, or no commit did). The job is its name, or else its id.
        num_files, live_bytes and so on for each StorageClass, total_bytes (long; a sum beyond 64 bits is null).
        Lists the folder and reads every commit. Errors: StorageError; ValueError for another `by`.
        """
        if by not in get_args(StorageGrouping):
            raise ValueError(f"Expected one of {', '.join(get_args(StorageGrouping))}, found {by!r}")
        listing = self._listing()
        named = self._referenced(every_commit=True)
        with self._cache() as cache, self._cache() as other, translated(*self._read_files):
            storage = self._storage(named, listing, cache)
            match by:
                case "age":
                    groups = bytes_by_age(storage, self._version.now_ms)
                case "partition":
                    groups = bytes_by_partition(storage)
                case "writer":
                    commits = history_frame(self._table.spark, self._version.commits())
                    groups = bytes_by_writer(storage, self._version.file_history(), named.change_data, commits, other)
            return arrow_rows(self._table.spark, groups.toArrow())  # now: the cache does not last

    def _storage(self, named: ReferencedFiles, listing: FolderListing, cache: StateCache | None) -> ListedStorage:
        with translated(*self._read_files):
            return ListedStorage.of(self._table, named, listing, self._version.now_ms, cache)

    def _cache(self) -> StateCache:
        return StateCache(f"deltasnap: files of {self._table.table_path} that the log names")

    def _referenced(self, *, every_commit: bool, retention_ms: int | None = None) -> ReferencedFiles:
        """Return the files that this version (the first ones) and the others in the log reference.

        retention_ms: None: the longer one of these versions. every_commit: as for `Version.referenced_files`. List the
        folder before, so that files which are committed later are named.
        """
        if retention_ms is not None and retention_ms < 0:
            raise ValueError(f"Expected a retention of 0 ms or more, found {retention_ms}")
        named = self._version.referenced_files(every_commit=every_commit)
        longer = max(self._retention_ms, named.retention_ms)
        return replace(
            named,
            files=[self._files, *named.files],
            tombstones=[self._tombstones, *named.tombstones],
            retention_ms=longer if retention_ms is None else retention_ms,
        )

    def _vacuum_candidates(
        self, named: ReferencedFiles, listing: FolderListing | None, cache: StateCache | None
    ) -> DataFrame:
        with translated(*self._read_files):
            return vacuum_candidates(self._table, named, now_ms=self._version.now_ms, listing=listing, cache=cache)

    def _candidates(self, version: Version) -> tuple[OptimizeCandidate, ...]:
        with translated(*version.read_files):
            return optimize_candidates(self._table, version.files(CANDIDATE_COLUMNS))

    def _totals(self, version: Version, since_ms: int | None) -> ColumnTotals:
        totals = ColumnTotals(self._table.columns, version.number, since_ms)
        with translated(*version.read_files):
            for files in version.files_in_pieces(TREND_COLUMNS):
                totals.add(files)
        return totals

    def _updated_totals(self, version: Version, since_ms: int, known: Mapping[str, Any]) -> ColumnTotals:
        totals = ColumnTotals.from_json(known, self._table.columns, since_ms)
        changed = None if totals is None else version.changed_files(totals.version, TREND_COLUMNS)
        if totals is not None and changed is not None:
            with translated(*version.read_files):
                totals.update(version.number, *map(arrow_of, changed))
            if totals.is_settled and totals.num_files == version.state().value.num_of_files:
                return totals
        return self._totals(version, since_ms)

    @property
    def _version(self) -> Version:
        return self._versions.version

    @property
    def _files(self) -> DataFrame:
        return self._versions.run(lambda version: version.all_files_with_stats)

    @property
    def _tombstones(self) -> DataFrame:
        """Every tombstone that the version still has."""
        return self._versions.run(lambda version: version.tombstones(KEEP_ALL))

    @property
    def _retention_ms(self) -> int:
        return deleted_file_retention_ms(self._table.metadata.configuration)

    @property
    def _read_files(self) -> ReadFiles:
        """The files of the version, with the log itself."""
        of_log, of_store = self._version.read_files
        return (*of_log, self._version.log_path), of_store

    def _listing(self, folder: str | None = None) -> FolderListing:
        """Return the files below a folder; None: that of the table."""
        return list_below(folder or self._table.table_path, self._table.spark_files.storage_options)

    @property
    def _data_columns(self) -> list[TableColumn]:
        return [each for each in self._table.columns.leaves if not each.is_partition and each.is_leaf]

    @property
    def _partition(self) -> str:
        return partition_sql((column, shown_value(column)) for column in self._table.columns.partition)

    @property
    def _records(self) -> str:
        return num_records_sql("stats")


_PARTITION_TOTALS = (
    "count(1) as files",
    "try_sum(size) as bytes",
    f"try_sum({possible_records_sql('records', 'deleted')}) as records",
    "try_sum(deleted) as deleted_records",
    "min(size) as smallest_file",
    "max(size) as largest_file",
    f"{timestamp_sql('max(modificationTime)')} as last_change",
)


def _lives(known: FileHistory, path_key: str) -> DataFrame:
    """Return the versions between which each file was in the table, as `MetadataTables.entries`.

    A remove of a file that is not in the table starts and ends nothing.
    """
    actions = known.files.selectExpr(
        *("cast(null as bigint) as version", "path", f"{path_key} as path_key", "true as is_add", "size"),
        *("nullif(dataChange, false) as data_change", f"{vector_id_sql('deletionVector')} as deletion_vector"),
    )
    if known.events is not None:
        events = known.events.selectExpr(
            "version", "path", f"{path_key} as path_key", "add.path is not null as is_add",
            "coalesce(add.size, remove.size) as size",
            "coalesce(add.dataChange, remove.dataChange) as data_change",
            f"nullif({file_vector_id_sql()}, '') as deletion_vector",
        )  # fmt: skip
        actions = actions.unionAll(events)
    over = "over (partition by path_key, deletion_vector order by version"
    ordered = actions.selectExpr(
        "*",
        f"lag(is_add, 1, false) {over}) as was_added",
        f"min(if(is_add, null, version)) {over} rows between 1 following and unbounded following) as removed_version",
    )
    return ordered.where("is_add and not was_added").selectExpr(
        "path", "deletion_vector", "size", "version as added_version", "removed_version", "data_change"
    )
