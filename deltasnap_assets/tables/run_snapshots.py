"""The state shared by the assets of a run: a Spark session, a snapshot store, and the log of each table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltasnap_assets.checks.compaction import Compaction
from deltasnap_assets.quantities import DAY_MS
from deltasnap_assets.runs.condition.poll_findings import PollFindings
from deltasnap_assets.runs.condition.poll_records import record
from deltasnap_assets.runs.condition.taken_names import check_name
from deltasnap_assets.runs.memory import ListedLog
from deltasnap_assets.runs.planning.data_version import last_data_change
from deltasnap_assets.runs.planning.partitions import contiguous
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.located import located, use_session
from deltasnap_assets.settings.store_place import check_located
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.fact_queries import MANY_ROWS, FactQueries, OnProgress
from deltasnap_assets.tables.held_versions import HeldVersions
from deltasnap_assets.tables.run_conditions import RunConditions
from deltasnap_core import (
    DeltaLog,
    LogSegment,
    SnapshotOptions,
    SnapshotState,
    SnapshotStore,
    VersionGapError,
    VersionManifest,
    VersionNotFoundError,
)
from deltasnap_core.errors import StoredVersionNotFoundError
from deltasnap_core.support import DataChange, EngineUse, LogListing, SparkProvider, Trends

_FEW_ROWS, _MOST_COLUMNS = 1_000, 500
"""The totals of columns of a smaller table are not recorded, because they are quickly found again. Those of more
columns would make the document of the last poll large, which each tick reads.
"""


class RunSnapshots:
    """The Spark session, the snapshot store and the logs of the tables, each created on first use.

    One object serves one run: each listing, stored version and result is fetched once and reused for the next asset.
    versions: the stored ones. conditions: of the logs. facts: about the files of stored versions.
    """

    def __init__(
        self,
        settings: Settings,
        sessions: SparkProvider,
        listed_logs: Mapping[str, ListedLog] | None = None,
        *,
        queries_ahead: bool = False,
        engine: EngineUse | None = None,
    ) -> None:
        """listed_logs: by table, a recent listing of its log. engine: None: the configured one.

        queries_ahead: whether the run will need all facts about its newest version. They are then computed as soon as
        that version is stored, while Dagster records the events of earlier assets.
        """
        self._checked_names = set[str]()
        self._settings = settings
        self._sessions = sessions
        use_session(settings.tables, sessions)
        self._listed_logs = dict(listed_logs or {})
        self._queries_ahead = queries_ahead
        self._engine: EngineUse = engine or settings.spark.engine
        self.versions = HeldVersions(settings, sessions, self._engine)
        self._data_changes: dict[tuple[str, int], DataChange] = {}
        self._trends: dict[tuple[str, int], Trends] = {}
        self.conditions = RunConditions(settings, self.versions, self.listing)
        self.facts = FactQueries(self.versions)

    @property
    def store(self) -> SnapshotStore:
        """The configured store."""
        return self.versions.store

    def table(self, name: str) -> TableSettings:
        """Return the settings of a table."""
        return self._settings.table(name)

    def has_table(self, name: str) -> bool:
        """Return whether a table is configured."""
        return any(table.name == name for table in self._settings.tables)

    def log(self, table: TableSettings) -> DeltaLog:
        """Return the log of a table. Errors: CatalogError, and those of `check_located`."""
        check_located(self._settings, table)
        table, options = located(table), SnapshotOptions(engine=self._engine)
        return DeltaLog.for_table(self._sessions, table.path, table.storage_options, options=options)

    def listing(self, table: TableSettings) -> LogListing:
        """Return the listing of a table's log. The log is listed once per run, unless the run writes a checkpoint."""
        if table.name not in self._listed_logs:
            self._listed_logs[table.name] = ListedLog(listing=log_of(table).list(), common=None)
        return self._listed_logs[table.name].listing

    def list_again(self, table: TableSettings) -> None:
        """Forget the listing of a table's log, which the run has changed."""
        self._listed_logs.pop(table.name, None)

    def ensure_stored(
        self, table: TableSettings, versions: Sequence[int], progress: OnProgress
    ) -> dict[int, VersionManifest]:
        """Return the manifests of versions. Versions that are not stored are written first.

        Errors: the errors of reading the log and of the store; those of `check_name`.
        """
        if table.name not in self._checked_names:
            check_name(self.store, table, self.store.polls.read(table.name))
            self._checked_names.add(table.name)
        if wanted := self.versions.not_held(table.name, versions):  # `write_versions` writes only those not stored
            stored = self.store.write_versions(
                table.name,
                self.log(table),
                wanted,
                materialize_as=table.materialize_as,
                on_progress=progress,
                listing=self.listing(table),
                common=self._listed_logs[table.name].common,
            )
            if not stored.common.is_continued:
                progress(f"Table {table.name}: {stored.common}", 0, len(stored))
            self.versions.add(table.name, stored.current, stored)
            self.conditions.add(table.name, stored.common, stored.findings)
        if self._queries_ahead:
            self.facts.start(table)
        return self.versions.manifests(table.name, versions)

    def close(self) -> None:
        """Stop the computations that were started ahead."""
        self.facts.close()

    def stored_versions(self, table: TableSettings) -> list[int]:
        """Return the current stored versions, ascending, including the ones of this run."""
        return list(self.versions.names(table.name))

    def state_if_stored(self, table: TableSettings, version: int | None) -> SnapshotState | None:
        """Return the stored computed state of a version; None: not stored. version: None: there is none."""
        if version is None or version not in self.versions.names(table.name):
            return None
        return self.versions.states(table.name, [version])[version]

    def data_change(self, table: TableSettings, version: int) -> DataChange:
        """Return the last version up to a stored one that changes data."""
        if (table.name, version) not in self._data_changes:
            names = self.versions.names(table.name)
            found = last_data_change(self._settings, table, self.listing(table), version, names)
            known = DataChange(version=found, known_to=version, generation=names[version].generation)
            self._data_changes[table.name, version] = known
        return self._data_changes[table.name, version]

    def compaction(self, table: TableSettings, version: int) -> Compaction | None:
        """Return which partitions of the newest stored version OPTIMIZE would compact; None: unknown.

        For large versions it is an estimate, because the exact answer reads every file of each new version.
        """
        manifest = self.versions.manifests(table.name, [version])[version]
        if manifest.rows <= MANY_ROWS:
            return Compaction.exact(self.store.tables(table.name, manifest).optimize_candidate_values())
        return self.facts.of(table).files.compaction

    def column_trends(self, table: TableSettings, version: int) -> Trends:
        """Return the nulls and the extremes of the columns of a stored version.

        New files are those written in the 24 hours before its commit, by full hours. Only the files that changed since
        the version of the recorded totals are read, if that suffices.
        """
        if (table.name, version) not in self._trends:
            manifest, poll = self.versions.manifests(table.name, [version])[version], self.store.polls.read(table.name)
            recorded = {} if poll is None or poll.column_totals is None else poll.column_totals
            known = recorded if recorded.get("generation") == manifest.generation else None
            tables = self.store.tables(table.name, manifest)
            totals = tables.column_totals(manifest.timestamp - DAY_MS, known)
            trends = self._trends[table.name, version] = totals.trends()
            if manifest.rows > _FEW_ROWS and len(trends) <= _MOST_COLUMNS:
                found = PollFindings(column_totals={"generation": manifest.generation, **totals.to_json()})
                record(self.store, table, found, self.versions.names(table.name))
        return self._trends[table.name, version]

    def log_segments(self, table: TableSettings, versions: Sequence[int]) -> dict[int, LogSegment]:
        """Return the log segments of versions, from the log; from the store if the log no longer has them."""
        log, listing = log_of(table), self.listing(table)
        segments: dict[int, LogSegment] = {}
        for first, last in contiguous(versions):
            try:
                segments |= log.range(first, last, listing).segments()
            except (VersionNotFoundError, VersionGapError) as error:
                try:
                    manifests = self.versions.manifests(table.name, range(first, last + 1))
                    segments |= self.store.table(table.name).log_segments(manifests.values())
                except StoredVersionNotFoundError:
                    raise error from None
        return segments
