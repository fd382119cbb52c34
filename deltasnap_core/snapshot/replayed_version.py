"""ReplayedVersion: the file actions of one version, replayed from its log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltasnap_core.errors import (
    ActionNotFoundError,
    CorruptLogError,
    UnsupportedProtocolError,
    UnsupportedServerError,
)
from deltasnap_core.log.commits.commit_reader import read_commits
from deltasnap_core.log.history.delta_history_manager import DeltaHistory, DeltaHistoryManager
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits, asks_catalog
from deltasnap_core.log.listing.log_listing import LogListing, list_log
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.log.version_log import VersionLog
from deltasnap_core.once import once
from deltasnap_core.protocol.actions import AddFile
from deltasnap_core.protocol.properties.retention import KEEP_ALL, Retention
from deltasnap_core.protocol.properties.table_config import deleted_file_retention_ms
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.protocol.table_features import metadata_to_read
from deltasnap_core.redaction import logger_of
from deltasnap_core.replay.driver.full_actions import live_adds
from deltasnap_core.replay.driver.held_files import action_count
from deltasnap_core.replay.engine import Answer, Question, actions_text
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.known_state import KnownState
from deltasnap_core.replay.spark.reading.action_reader import PARSED, ActionReader
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE
from deltasnap_core.replay.spark.session.local_rows import no_rows
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.session.state_cache import StateCache
from deltasnap_core.replay.spark.state_deltas import changes_of_versions
from deltasnap_core.replay.spark.state_reconstruction import (
    live_files,
    reconciled_files,
    state_actions,
    unexpired_tombstones,
)
from deltasnap_core.rules.file_actions import values_of
from deltasnap_core.rules.texts.statistics_schema import StatisticPath, StatsPolicy
from deltasnap_core.scan.changes.changed_rows import change_data
from deltasnap_core.scan.changes.live_files import live_files_in_driver, live_files_on_spark
from deltasnap_core.scan.scan_options import ScanOptions
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.tables.log_tables import listed_versions
from deltasnap_core.scan.tables.vacuum_candidates import why_unread
from deltasnap_core.scan.version import FileHistory, ReadFiles, ReferencedFiles, Rows, in_pieces
from deltasnap_core.snapshot.computed_state import compute_state
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.urls import join_url

_REASON = "file actions as a DataFrame"
_OF_COMMITS = "metadata tables"
_log = logger_of(__name__)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ReplayedVersion:
    """A `Version` of a log: its file actions are replayed. Immutable; each DataFrame is created once.

    A member that meets a damaged checkpoint raises an error; `without` returns the version that goes on without it.
    See `Snapshot` for the rows and errors.

    min_file_retention_timestamp: None: use the table's property.
    cache:       of `actions`; None: Spark does not cache it.
    known:       the computed state of an earlier version, used if the log continues that version; None: unknown.
    kept_counts: the name of Spark's cache for the counted files, which are kept to follow later versions; None: keep
                 none.
    """

    context: TableContext
    log: VersionLog
    min_file_retention_timestamp: int | None = None
    cache: StateCache | None = None
    known: KnownState | None = None
    kept_counts: str | None = None

    def without(self, error: CorruptLogError | UnsupportedServerError) -> ReplayedVersion:
        """Return the same version without the checkpoint that a query could not read. Errors: VersionLog.without."""
        return replace(self, log=self.log.without(error), known=self.best_known)

    @property
    def number(self) -> int:
        """The version."""
        return self.log.version

    @property
    def log_path(self) -> str:
        """URL of the `_delta_log` folder."""
        return self.log.segment.log_path

    @property
    def segment(self) -> LogSegment:
        """The log files of the version."""
        return self.log.segment

    @property
    def facts(self) -> VersionLog:
        """The log, for everything that needs no replay. Once the log itself was read, it decides; else the checksum."""
        return self.log.read() if self.log.is_loaded else self.log

    @property
    def now_ms(self) -> int:
        """When the version was opened (ms)."""
        return self.log.now_ms

    @property
    def retention(self) -> Retention:
        """Which tombstones the version has."""
        chosen = self.min_file_retention_timestamp
        return Retention.after(self.log.read().min_file_retention_timestamp if chosen is None else chosen)

    @property
    def read_files(self) -> ReadFiles:
        """The files of the log that a query reads, and none of a store."""
        return self.log.replayable.files, ()

    def scanned(self, options: ScanOptions | None = None) -> ScannedTable:
        """Return the facts about the version that a scan needs."""
        return self._scanned if options is None else replace(self._scanned, options=options)

    @once
    def _scanned(self) -> ScannedTable:
        log = self.log.read()  # a scan reads it anyway, and the schema decides which rows it returns
        return ScannedTable(
            sessions=self.context.engine.sessions,
            table_path=self.context.table_log.table_path,
            version=self.number,
            metadata=metadata_to_read(log.protocol, log.metadata),
            store=self.context.table_log.store,
            spark_files=self.context.files,
            place=log.place_of_metadata,
        )

    def state(self) -> Answer[SnapshotState]:
        """Return the computed state, always from the log."""
        return Answer(value=self.computed.state, computed_by=self.computed.computed_by)

    @once
    def computed(self) -> KnownState:
        """The computed state, with the files that were counted."""
        log = replace(self.log.replayable, non_file=self.log.non_file)
        computed = compute_state(self.context, log, self.retention, self.known, self.kept_counts)
        object.__setattr__(self, "known", None)  # the new state has its reusable parts: free the rest
        return computed

    @property
    def best_known(self) -> KnownState | None:
        """The computed state; if not computed yet, that of an earlier version; None: neither is known."""
        return self.computed if ReplayedVersion.computed.is_computed(self) else self.known

    def file_actions(self) -> DataFrame | None:
        """Return the reconciled file actions (FULL), including expired tombstones; None: there are none."""
        return self._reconciled(StatsPolicy.ALL)

    @once
    def actions(self) -> DataFrame:
        """The reconstructed state as actions."""
        files = self._files
        actions = state_actions(self._session, files, self.log.non_file, self.retention)
        return actions if self.cache is None else self.cache.cached(actions)

    @once
    def all_files(self) -> DataFrame:
        """The live files, with the columns of AddFile."""
        if self.cache is not None and self.cache.is_cached:
            return self.actions.where("add.path is not null").select("add.*")
        return self._live(self._files)

    @once
    def all_files_with_stats(self) -> DataFrame:
        """The live files with their statistics, even if `all_files` has none."""
        return self.all_files if self.context.options.load_stats else self._live(self._reconciled(StatsPolicy.ALL))

    def files(self, columns: Sequence[str] | None = None, *, skipping: frozenset[StatisticPath] = frozenset()) -> Rows:
        """Return the live files for a query that runs now: in Arrow if they are few, otherwise in Spark.

        Columns: those of AddFile, and PARSED if a checkpoint has the statistics for `skipping` as values. PARSED is for
        Spark only, which reads it three times as fast as JSON. The driver decodes whole actions. If a checkpoint has
        both, it uses the JSON: the structs of parts and commits have no common type in Arrow. Writers must keep both
        equal.
        """
        count = action_count(self.log.replayable)
        rows = self.context.engine.answer(
            {Question.ROWS: count},
            work=actions_text(count, "read"),
            driver=self._files_in_driver,
            spark=partial(self._files_on_spark, skipping),
        ).value
        return rows if columns is None else rows.select(list(columns))

    def files_in_pieces(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the live files in Arrow, in pieces that the driver can hold."""
        return in_pieces(self.files(columns))

    def changed_files(self, since: int, columns: Sequence[str]) -> None:
        """Unknown: all files are read."""

    def live_files(self, wanted: pa.StringArray) -> pa.Table:
        """Return the live files with the wanted path keys. The driver reads them as long as it may count all files."""
        count = action_count(self.log.loaded)
        return self.context.engine.answer(
            {Question.COUNT: count},
            work=actions_text(count, "read"),
            driver=partial(self._live_files_in_driver, wanted),
            spark=partial(self._live_files_on_spark, wanted),
        ).value

    def read_live_files(self) -> list[AddFile]:
        """Return the live files as values, with their statistics. Errors: CorruptLogError."""
        log = self.log.replayable
        with translated(log.files):
            files = reconciled_files(self.context.reader(self._session), log)
            rows = [] if files is None else values_of(live_files(files).toArrow())
        try:
            return [AddFile.from_json(row) for row in rows]
        except ValueError as error:
            raise CorruptLogError(path=self.log.segment.log_path, reason=str(error)) from error

    def tombstones(self, retention: Retention | None = None) -> DataFrame:
        """Return the tombstones that a retention (None: the version's) keeps, with the columns of RemoveFile."""
        files, retention = self._files, retention or self.retention
        return no_rows(self._session, REMOVE) if files is None else unexpired_tombstones(files, retention)

    def commits(self, first: int = 0) -> list[DeltaHistory]:
        """Return the commits from a version up to this one that still exist, newest first."""
        return self._history.get_history(start=first, end=self.number)

    def events(self) -> DataFrame | None:
        """Return the file actions of the commits that still exist. See `Version`."""
        return events_of_commits(self.context, tuple(self._listing().commits.values()))

    def file_history(self) -> FileHistory:
        """Return the changes of the files, from the earliest version whose later commits all exist."""
        found = file_history(self.context, self._listing(), self.number, self.log.catalog)
        return found or FileHistory(version=self.number, files=self.all_files_with_stats, events=None)

    def known_versions(self) -> Iterator[dict[str, Any]]:
        """Return the rows of `versions_rows`: the versions up to this one in the log."""
        return listed_versions(self._listing(), self._history.commit_timestamps(end=self.number))

    def log_files(self) -> Collection[FileStatus]:
        """Return the files of the log. Commits that its catalog ratified count."""
        published = self.context.table_log.store.list_from(join_url(self.log_path, ""))
        return {file.path: file for file in (*published, *self._listing().commits.values())}.values()

    def referenced_files(self, *, every_commit: bool) -> ReferencedFiles:
        """Return the files that the newest version in the log references. Commits of its catalog count."""
        return referenced_files(self.context, self.log, every_commit=every_commit)

    @property
    def _history(self) -> DeltaHistoryManager:
        return DeltaHistoryManager(self.context.table_log.store, self.log_path, catalog=self.log.catalog)

    def _listing(self) -> LogListing:
        return list_log(self.context.table_log.store, self.log_path, last=self.number, catalog=self.log.catalog)

    @property
    def _session(self) -> SparkSession:
        return self.context.session(_OF_COMMITS)

    @once
    def _files(self) -> DataFrame | None:
        return self._reconciled(self.context.options.stats)

    def _reconciled(self, stats: StatsPolicy) -> DataFrame | None:
        log = self.log.replayable  # first: without a session, an unsupported protocol is the error to report
        with translated(log.files):
            files = self._replayed(self.context.reader(self._session, stats))
            if self.context.options.check_pages and files is not None:
                files.write.format("noop").mode("overwrite").save()
            return files

    def _replayed(self, reader: ActionReader) -> DataFrame | None:
        return reconciled_files(reader, self.log.replayable, partitions=self.context.options.snapshot_partitions)

    def _live(self, files: DataFrame | None) -> DataFrame:
        return no_rows(self._session, ADD) if files is None else live_files(files)

    def _files_in_driver(self) -> Rows:
        return live_adds(self.context.table_log.store, self.log.replayable, self.log_path)

    def _live_files_in_driver(self, wanted: pa.StringArray) -> pa.Table:
        return live_files_in_driver(self.context.table_log.store, self.log.loaded, self.log_path, wanted)

    def _live_files_on_spark(self, wanted: pa.StringArray, session: SparkSession) -> pa.Table:
        return live_files_on_spark(self.context.reader(session, StatsPolicy.NONE), self.log.loaded, wanted)

    def _files_on_spark(self, statistics: frozenset[StatisticPath], session: SparkSession) -> Rows:
        checkpoint = self.log.replayable.checkpoint
        parts = () if checkpoint is None else checkpoint.files_with_file_actions
        if not statistics or all(part.stats_parsed is None for part in parts):
            return self.all_files_with_stats
        files = self._replayed(self.context.reader(session, parsed=statistics))
        return self.all_files_with_stats if files is None else live_files(files, PARSED)


def file_history(
    context: TableContext, listing: LogListing, version: int, catalog: CatalogCommits = NO_CATALOG
) -> FileHistory | None:
    """Return the file history of a listed version; None: no version to start from can be read.

    It starts at the earliest version whose later commits all exist. If deltasnap cannot read that one, it starts at
    the next one.
    """
    for start in listing.starts_before(version):
        try:
            if start < 0:
                files = no_rows(context.session(_OF_COMMITS), ADD)
            else:
                log = context.table_log.at(start, catalog=catalog)
                files = Fallback(ReplayedVersion(context=context, log=log)).run(lambda version: version.all_files)
        except (ActionNotFoundError, CorruptLogError, UnsupportedProtocolError) as error:
            _log.warning("The history of files does not start at version %d: %s", start, error)
            continue
        events = events_of_commits(context, listing.commits_between(start + 1, version))
        return FileHistory(version=start, files=files, events=events)
    return None


def events_of_commits(context: TableContext, commits: tuple[FileStatus, ...]) -> DataFrame | None:
    """Return the file actions of commits by version, see `changes_of_versions`. None: there are none."""
    batch = read_commits(context.table_log.store, commits)
    actions = context.reader(context.session(_OF_COMMITS)).commit_actions(batch)
    return None if actions is None else changes_of_versions(actions)


def referenced_files(context: TableContext, known: VersionLog | None = None, *, every_commit: bool) -> ReferencedFiles:
    """Return the files that the newest version in the log references.

    known:        the log of a version whose files the caller has; None: none. Commits that its catalog ratified count.
    every_commit: read every commit that the log still has. This finds tombstones that a checkpoint dropped too early,
                  and files of change data.
    Errors: CorruptLogError; StorageError.
    Source: PROTOCOL.md, Catalog-managed tables (maintenance needs the commits that are not published).
    """
    catalog = NO_CATALOG if known is None else known.catalog
    ratified = replace(catalog, max_version=None)  # commits published since then count too
    newest = context.table_log.latest(catalog=ratified)
    if known is not None and newest.segment == known.segment:
        newest, others = known, []
    else:
        others = [Fallback(ReplayedVersion(context=context, log=newest))]
    is_known = catalog.is_known or asks_catalog(context.table_log.store)
    found = ReferencedFiles(
        files=[each.run(lambda version: version.all_files) for each in others],
        tombstones=[each.run(lambda version: version.tombstones(KEEP_ALL)) for each in others],
        unread=why_unread(newest.replayable.non_file.protocol, is_catalog_known=is_known),
        retention_ms=deleted_file_retention_ms(newest.read().configuration),
    )
    if not every_commit:
        return found
    store = context.table_log.store
    commits = list_log(store, context.table_log.log_path, catalog=ratified).commits
    batch = read_commits(store, tuple(commits.values()))
    actions = context.reader(context.session("files that the log names")).commit_actions(batch, ("remove",))
    removed = [] if actions is None else [actions.where("remove is not null").select("remove.*")]
    recorded = [(rows.path, rows.version, commits[rows.version].modification_time) for rows in change_data(batch)]
    return replace(found, tombstones=[*found.tombstones, *removed], change_data=recorded)
