"""StoredVersion: one version of a store: its rows on the suitable engine, and what surrounds it in log and store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Never, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from deltasnap_core.clock import system_clock
from deltasnap_core.errors import (
    ActionNotFoundError,
    CorruptLogError,
    DeltaSnapError,
    DeltaTableNotFoundError,
    StoredVersionNotFoundError,
)
from deltasnap_core.log.history.delta_history_manager import DeltaHistory
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.once import once
from deltasnap_core.protocol.actions import Metadata, Protocol, SetTransaction
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.protocol.table_features import check_readable, metadata_to_read
from deltasnap_core.replay.engine import Answer, Question, ReplayEngine
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE, STATE
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.session.spark_files import SparkFiles
from deltasnap_core.replay.spark.state_reconstruction import live_files, state_actions, unexpired_tombstones
from deltasnap_core.rules.file_actions import ADDS, REMOVES
from deltasnap_core.rules.paths import path_keys
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.vacuum_candidates import LOG_IS_GONE
from deltasnap_core.scan.version import (
    FILES_IN_PIECE,
    LIVE_FILE_COLUMNS,
    FileHistory,
    ReadFiles,
    ReferencedFiles,
    Rows,
    arrow_of,
    rows_in_arrow,
)
from deltasnap_core.snapshot.replayed_version import events_of_commits, file_history, referenced_files
from deltasnap_core.snapshot.snapshot_options import SnapshotOptions
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url
from deltasnap_core.store.format.commit_facts import commit_times
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.rows.driver_rows import DriverRows, selected_columns
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.versions.common_version import is_version_of
from deltasnap_core.store.versions.stored_table import StoredTable

FileKind = Literal["all_files", "tombstones"]
RowKind = Literal["all_files", "tombstones", "state"]
T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class StoredVersion:
    """A `Version` of a store. Its log may be deleted. Immutable.

    spark_rows, driver_rows: the rows of its generation, for each engine.
    check_pages:     read every page of a DataFrame before returning it.
    check_files:     check once that all its files exist, before rows are read.
    now_ms:          when the version was opened (ms).
    Errors: CorruptStoreError naming the file.
    """

    engine: ReplayEngine
    stored: StoredTable
    manifest: VersionManifest
    spark_rows: SparkRows
    driver_rows: DriverRows
    check_pages: bool = False
    check_files: bool = True
    now_ms: int = field(default_factory=system_clock)

    def without(self, error: DeltaSnapError) -> Never:
        """Raise the error: nothing replaces a file of the store."""
        raise error

    @property
    def number(self) -> int:
        """The version."""
        return self.manifest.version

    @property
    def log_path(self) -> str:
        """URL of the `_delta_log` folder that was read."""
        return self.manifest.log_path

    @once
    def segment(self) -> LogSegment:
        """The log files of the version, even if the log no longer has them."""
        return self.stored.log_segments([self.manifest])[self.number]

    @property
    def facts(self) -> StoredVersion:
        """What the version states besides its files: its own members."""
        return self

    @property
    def retention(self) -> Retention:
        """Which tombstones the version has: those of its commit's time, so that they are always the same."""
        return self.manifest.retention

    @property
    def read_files(self) -> ReadFiles:
        """No file of a log, and the store's files for the version."""
        return (), [join_url(self.spark_rows.parquet.folder, file.path) for file in self.manifest.data_files]

    @property
    def timestamp(self) -> int:
        """When the version was committed (ms)."""
        return self.manifest.timestamp

    @property
    def protocol(self) -> Protocol:
        """The protocol. Errors: ActionNotFoundError if the version was stored without one."""
        if (protocol := self.computed_state.protocol) is None:
            raise ActionNotFoundError(action="protocol", version=self.number, path=self.table_path)
        return protocol

    @property
    def metadata(self) -> Metadata:
        """The metadata. Errors: ActionNotFoundError if the version was stored without metadata."""
        if (metadata := self.computed_state.metadata) is None:
            raise ActionNotFoundError(action="metadata", version=self.number, path=self.table_path)
        return metadata

    @property
    def place_of_metadata(self) -> None:
        """Unknown."""
        return None

    @property
    def set_transactions(self) -> tuple[SetTransaction, ...]:
        """The newest transaction of each application that had not expired, ordered by application id."""
        return tuple(sorted(self.computed_state.set_transactions, key=lambda txn: txn.app_id))

    @property
    def domains(self) -> dict[str, str]:
        """The configuration of each domain, by domain name."""
        domains = sorted(self.computed_state.domain_metadata, key=lambda domain: domain.domain)
        return {domain.domain: domain.configuration for domain in domains}

    @property
    def table_path(self) -> str:
        """URL of the table's folder."""
        return table_path(self.log_path)

    @property
    def metadata_to_read(self) -> Metadata:
        """The metadata to read rows with. Errors: as `metadata`."""
        return metadata_to_read(self.computed_state.protocol, self.metadata)

    def scanned(self, options: ScanOptions | None = None) -> ScannedTable:
        """Return the facts about the version that a scan needs.

        options: without storage options, the data files are read with those of the store.
        Errors: UnsupportedProtocolError; ActionNotFoundError if the version was stored without metadata.
        """
        protocol, options = self.computed_state.protocol, options or ScanOptions()
        if protocol is not None:
            check_readable(protocol, path=self.table_path, version=self.number)
        storage_options = options.storage_options
        if storage_options is None:
            storage_options = self.spark_rows.parquet.spark_files.storage_options
        return ScannedTable(
            sessions=self.engine.sessions,
            table_path=self.table_path,
            version=self.number,
            metadata=self.metadata_to_read,
            store=FsspecLogStore(storage_options),
            spark_files=SparkFiles.of(storage_options, self.engine.sessions),
            options=options,
        )

    def not_stored(self, version: int) -> StoredVersionNotFoundError:
        """Return the error for another version of the table that is not stored, or whose manifest is damaged."""
        return StoredVersionNotFoundError(store=self.stored.root, table=self.stored.name, version=version)

    @once
    def computed_state(self) -> SnapshotState:
        """The computed state of the version."""
        return self.stored.computed_states([self.manifest])[self.number]

    def state(self) -> Answer[SnapshotState]:
        """Return the computed state, as stored."""
        return Answer(value=self.computed_state, computed_by=self.manifest.computed_by or "an earlier release")

    def file_actions(self) -> DataFrame | None:
        """Return the reconciled file actions (FULL), including expired tombstones; None: there are none."""
        with self._reading():
            return self.spark_rows.state_of(self.manifest)

    @property
    def actions(self) -> DataFrame:
        """The reconciled state as actions."""
        return self.actions_kept_by(self.retention)

    def actions_kept_by(self, retention: Retention) -> DataFrame:
        """Return the reconciled state as actions, with the tombstones that a retention keeps."""
        with self._reading():
            session = self.engine.sessions.session("a stored state as a DataFrame")
            files = self.spark_rows.state_of(self.manifest)
            return self._checked(state_actions(session, files, self._non_file, retention))

    @property
    def all_files(self) -> DataFrame:
        """The live files, with the columns of AddFile."""
        with self._reading():
            return self._checked(self._live)

    @property
    def all_files_with_stats(self) -> DataFrame:
        """The same as `all_files`."""
        return self.all_files

    def tombstones(self, retention: Retention | None = None) -> DataFrame:
        """Return the tombstones that a retention (None: the version's) keeps, with the columns of RemoveFile."""
        with self._reading():
            return self._checked(self._tombstones(retention))

    def files(
        self,
        columns: Sequence[str] | None = None,
        *,
        skipping: frozenset[StatisticPath] = frozenset(),  # noqa: ARG002 - they are in the JSON of the files
    ) -> Rows:
        """Return the live files for a query that runs now. The driver reads them if they are few."""
        return self._answer(
            Question.ROWS,
            partial(self.driver_rows.all_files, self.manifest, columns),
            lambda _: self._live if columns is None else self._live.select(*columns),
        )

    def files_in_pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the live files in Arrow, in pieces that the driver can hold, up to the limit of a computed state."""
        pieces = -(-self.manifest.rows // FILES_IN_PIECE)
        return self._answer(
            Question.COUNT,
            partial(self.driver_rows.files_in_pieces, self.manifest, columns),
            lambda _: map(
                arrow_of,
                (live_files(rows).select(*columns) for rows in self.spark_rows.state_in_pieces(self.manifest, pieces)),
            ),
        )

    def changed_files(self, since: int, columns: Sequence[str]) -> tuple[Rows, Rows] | None:
        """Return the live files of an earlier version and of this one, of those files that changed between them.

        None: the changes are not stored, because this version has a later base, or they are many.
        """
        manifest = self.manifest
        if not manifest.base.last <= since <= manifest.version:
            return None
        sets = tuple(data_set for data_set in manifest.changes if data_set.first <= since)
        earlier = replace(manifest, version=since, changes=sets)
        return self._answer(
            Question.COUNT,
            partial(self.driver_rows.changed_files, earlier, manifest, columns),
            lambda _: self._changed_on_spark(earlier, columns),
        )

    def _changed_on_spark(self, earlier: VersionManifest, columns: Sequence[str]) -> tuple[Rows, Rows] | None:
        later = (data_set.rows for data_set in self.manifest.changes if data_set.last > earlier.version)
        if sum(later) > FILES_IN_PIECE:
            return None
        before, after = map(self._live_of, self.spark_rows.changed_states(earlier, self.manifest))
        return before.select(*columns), after.select(*columns)

    def live_files(self, wanted: pa.StringArray) -> pa.Table:
        """Return the live files (LIVE_FILE_COLUMNS) with the wanted path keys."""
        files = rows_in_arrow(self, LIVE_FILE_COLUMNS)
        return files.filter(pc.is_in(path_keys(files["path"].combine_chunks(), self.log_path), wanted))

    @contextmanager
    def files_and_tombstones(
        self, file_columns: Sequence[str], tombstone_columns: Sequence[str]
    ) -> Iterator[tuple[Rows, Rows]]:
        """Yield the files and the tombstones: see SnapshotStore.files_and_tombstones."""
        rows: tuple[Rows, Rows] = self._answer(
            Question.COUNT,
            partial(self.driver_rows.files_and_tombstones, self.manifest, file_columns, tombstone_columns),
            lambda _: (self._live.select(*file_columns), self._tombstones(None).select(*tombstone_columns)),
        )
        with translated(*self.read_files):
            yield rows

    def arrow(self, kind: RowKind, columns: Sequence[str] | None = None) -> pa.Table:
        """Return rows in Arrow, in any order: see SnapshotStore.read_arrow."""
        if kind == "state":
            return self._state_in_arrow().select(selected_columns(STATE.names, columns))
        if kind == "all_files":
            return rows_in_arrow(self, selected_columns(ADDS.names, columns))
        names = selected_columns(REMOVES.names, columns)
        rows = self._answer(
            Question.ROWS,
            partial(self.driver_rows.tombstones, self.manifest, self.retention, names),
            lambda _: self._tombstones(None).select(*names),
        )
        if isinstance(rows, pa.Table):
            return rows
        with translated(*self.read_files):
            return rows.toArrow().cast(pa.schema([REMOVES.field(name) for name in names]))

    def commits(self, first: int = 0) -> list[DeltaHistory]:
        """Return the commits from a version up to this one, newest first.

        They are read from the log if it still has the version: otherwise another table may be at the path now. Those
        that the log no longer has are those of the stored versions.
        """
        log, found, last = self._context.table_log, list[DeltaHistory](), self.number
        with suppress(DeltaTableNotFoundError):
            listing = log.list()
            if is_version_of(self.manifest, log.store, listing):
                found = log.history_of(listing).get_history(start=first, end=self.number)
                last = found[-1].version - 1 if found else self.number
        current = self.stored.stored_versions().lineage(self.manifest.generation)
        names = [name for name in current if first <= name.version <= last]
        manifests = self.stored.read_sound_manifests(reversed(names))
        infos = (None if each.commit is None else each.commit.info for each in manifests)
        times = commit_times(manifests)
        found += (
            DeltaHistory.of(each.version, times[each.version], info)
            for each, info in zip(manifests, infos, strict=True)
        )
        return found

    def events(self) -> DataFrame | None:
        """Return the changes in the log if it still has the version and all commits after the version's base.

        Otherwise those in the store, which begin after the base.
        """
        manifest, context = self.manifest, self._context
        with suppress(DeltaTableNotFoundError, CorruptLogError):
            listing = context.table_log.list()
            is_whole = manifest.base.last + 1 in listing.commits or manifest.version == manifest.base.last
            if is_whole and is_version_of(manifest, context.table_log.store, listing):
                return events_of_commits(context, listing.commits_between(0, manifest.version))
        return self._changes

    def file_history(self) -> FileHistory:
        """Return the history in the log if it begins no later than the version's base, otherwise that in the store."""
        manifest, context = self.manifest, self._context
        with suppress(DeltaTableNotFoundError, CorruptLogError):
            listing = context.table_log.list()
            begins_early = any(start <= manifest.base.last for start in listing.starts_before(manifest.version))
            if begins_early and is_version_of(manifest, context.table_log.store, listing):
                found = file_history(context, listing, manifest.version)
                if found is not None:
                    return found
        base = self._live_of(self.spark_rows.base_of(manifest))
        return FileHistory(version=manifest.base.last, files=base, events=self._changes)

    def known_versions(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of `versions_rows`: the stored versions. Does not read the log."""
        manifests = self.stored.read_sound_manifests(self.stored.stored_versions().current)
        times = commit_times(manifests)
        for manifest in manifests:
            problems = self.stored.missing_files([manifest])
            yield {
                "version": manifest.version,
                "ms": times[manifest.version],
                "loadable": not problems,
                "why_not": next((f"{url}: {problem}" for url, problem in problems.items()), None),
            }

    def log_files(self) -> Sequence[FileStatus]:
        """Return the files of the log segment."""
        return (*self.segment.deltas, *self.segment.checkpoint_provider.files)

    def referenced_files(self, *, every_commit: bool) -> ReferencedFiles:
        """Return the files that the table's current log references. It may have been replaced or deleted."""
        try:
            return referenced_files(self._context, every_commit=every_commit)
        except DeltaTableNotFoundError:
            return ReferencedFiles(files=(), tombstones=(), unread=LOG_IS_GONE)

    def log_context(self, options: ScanOptions | None = None) -> TableContext:
        """Return the objects that read the table's log, which may be gone or another one. options: as for `scanned`."""
        table = self.scanned(options)
        log = TableLog(table.store, self.log_path)
        return TableContext(engine=self.engine, table_log=log, files=table.spark_files, options=SnapshotOptions())

    @once
    def _context(self) -> TableContext:
        return self.log_context()

    def _answer(self, question: Question, driver: Callable[[], T], spark: Callable[[SparkSession], T]) -> T:
        with self._reading():
            size = self.manifest.rows
            return self.engine.answer({question: size}, work=f"{size:,} rows read", driver=driver, spark=spark).value

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise CorruptStoreError naming a file of the version that is missing or that Spark cannot read."""
        _ = self._files_exist
        with translated(*self.read_files):
            yield

    @once
    def _files_exist(self) -> None:
        if self.check_files:
            self.stored.check_files([self.manifest])

    def _checked(self, rows: DataFrame) -> DataFrame:
        if self.check_pages:
            rows.write.format("noop").mode("overwrite").save()
        return rows

    @property
    def _non_file(self) -> NonFileActions:
        return NonFileActions.of(self.computed_state)

    @property
    def _live(self) -> DataFrame:
        if self.manifest.plain_parquet is not None:
            return self.spark_rows.parquet.read_file(self.manifest.plain_parquet.all_files, ADD)
        return self._live_of(self.spark_rows.state_of(self.manifest))

    def _live_of(self, files: DataFrame | None) -> DataFrame:
        return self.spark_rows.parquet.no_rows(ADD) if files is None else live_files(files)

    def _tombstones(self, retention: Retention | None) -> DataFrame:
        if self.manifest.plain_parquet is not None and retention is None:
            return self.spark_rows.parquet.read_file(self.manifest.plain_parquet.tombstones, REMOVE)
        files = self.spark_rows.state_of(self.manifest)
        if files is None:
            return self.spark_rows.parquet.no_rows(REMOVE)
        return unexpired_tombstones(files, retention or self.retention)

    @property
    def _changes(self) -> DataFrame | None:
        return self.spark_rows.changes(self.manifest.changes, self.number)

    def _state_in_arrow(self) -> pa.Table:
        schema = to_arrow_schema(STATE)
        parts = [
            pa.table({"add": self.arrow("all_files").to_struct_array()}),
            pa.table({"remove": self.arrow("tombstones").to_struct_array()}),
            pa.Table.from_pylist(list(self._non_file.rows()), schema),
        ]
        columns = [pa.chunked_array([_column(part, field) for part in parts], field.type) for field in schema]
        return pa.table(columns, schema=schema)


def _column(rows: pa.Table, field: pa.Field) -> pa.Array:
    if field.name not in rows.column_names:
        return pa.nulls(rows.num_rows, field.type)
    return rows[field.name].combine_chunks().cast(field.type)
