"""The state shared by the assets of a run: a Spark session, a snapshot store, and the log of each table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from deltasnap_assets.checks.compaction import Compaction
from deltasnap_assets.checks.facts import FileFacts, TombstoneFacts
from deltasnap_assets.runs.condition.poll_findings import known_faults
from deltasnap_assets.runs.due import reads_of_run
from deltasnap_assets.runs.log_handover import ListedLog
from deltasnap_assets.runs.planning.log_status import compared_with_stored, what_is_stored
from deltasnap_assets.runs.planning.partitions import contiguous
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.config import Settings, TableSettings
from deltasnap_assets.spark.session.run_session import RunSession
from deltasnap_assets.tables.fact_queries import FactQueries, OnProgress
from deltasnap_assets.tables.held_versions import HeldVersions
from deltasnap_core import (
    CommitFindings,
    CommonVersion,
    DeltaHistoryManager,
    DeltaLog,
    DeltaSnapError,
    FaultKind,
    LogListing,
    LogSegment,
    ManifestName,
    SnapshotOptions,
    SnapshotState,
    SnapshotStore,
    SoundVersion,
    StoredVersionNotFoundError,
    TableCondition,
    VersionGapError,
    VersionLog,
    VersionManifest,
    VersionNotFoundError,
    VersionRanges,
    properties_in_force,
    system_clock,
)

_MAX_EXAMINED_ROWS = 50_000
"""Up to this many files and tombstones, the advice on small files is exact: it reads the files of each version."""


class RunSnapshots:
    """The Spark session, the snapshot store and the logs of the tables, each created on first use.

    One object serves one run: each listing, stored version and result is fetched once and reused for the next asset.
    """

    def __init__(
        self,
        settings: Settings,
        sessions: RunSession,
        listed_logs: Mapping[str, ListedLog] | None = None,
        *,
        queries_ahead: bool = False,
        check_name: Callable[[TableSettings], None] = lambda _: None,
    ) -> None:
        """listed_logs: by table, a recent listing of its log.

        queries_ahead: whether the run will need all facts about its newest version. They are then computed as soon as
        that version is stored, while Dagster records the events of earlier assets.
        check_name: called once for each table before its stored versions are used. Raises if they are of another table.
        """
        self._check_name = check_name
        self._checked_names = set[str]()
        self._settings = settings
        self._sessions = sessions
        self._listed_logs = dict(listed_logs or {})
        self._conditions: dict[str, TableCondition] = {}
        self._continued: dict[str, CommonVersion] = {}
        self._findings: dict[str, CommitFindings] = {}
        self._queries_ahead = queries_ahead
        self._versions = HeldVersions(settings, sessions)
        self._facts = FactQueries(self._versions)

    @property
    def store(self) -> SnapshotStore:
        """The configured store."""
        return self._versions.store

    def table(self, name: str) -> TableSettings:
        """Return the settings of a table."""
        return self._settings.table(name)

    def log(self, table: TableSettings) -> DeltaLog:
        """Return the log of a table."""
        options = SnapshotOptions(engine=self._settings.spark.engine)
        return DeltaLog.for_table(self._sessions, table.path, table.storage_options, options=options)

    def listing(self, table: TableSettings) -> LogListing:
        """Return the listing of a table's log. The log is listed once per run."""
        if table.name not in self._listed_logs:
            self._listed_logs[table.name] = ListedLog(listing=log_of(table).list(), common=None)
        return self._listed_logs[table.name].listing

    def history(self, table: TableSettings) -> DeltaHistoryManager:
        """Return the history of a table, from the listing of this run."""
        listing = self.listing(table)
        stored = None if listing.latest_version is None else self.state_if_stored(table, listing.latest_version)
        if stored is None or stored.metadata is None:
            return self.log(table).context.table_log.history_of(listing)
        configuration = properties_in_force(stored.protocol, stored.metadata)
        return self.log(table).context.table_log.history_of(listing, lambda: configuration)

    def condition(self, table: TableSettings) -> TableCondition:
        """Return the condition of a table, from the listing of this run. Reads what `reads_of_run` decides.

        The commits that this run has stored are not read again, but their faults count.
        """
        if table.name not in self._conditions:
            try:
                found = self._condition(table)
            except DeltaSnapError:
                found = log_of(table).condition()
            self._conditions[table.name] = found
        return self._conditions[table.name]

    def _condition(self, table: TableSettings) -> TableCondition:
        listing, known = self.listing(table), self._compared(table)
        findings = self._findings.get(table.name, CommitFindings())
        before = replace(known, versions=known.versions - findings.versions)  # this run
        before = before if before.versions else known
        is_comparable = any(each.version in findings.versions for each in listing.checkpoints[:1])  # since this run
        poll = self.store.polls.read(table.name)
        reads = reads_of_run(poll, system_clock(), before, listing.newest_checkpoint, is_comparable=is_comparable)
        found = log_of(table).condition(
            listing,
            first=reads.first,
            sound=reads.sound,
            newest_sound=self._newest_of(table, reads.sound),
            read_pages=reads.read_pages,
            findings=findings,
        )
        found = found.without(FaultKind.WRONG_CHECKSUM)  # `checksum_agrees` reports it
        if not found.is_complete:
            found = found.with_known_faults(known_faults(poll))
        return compared_with_stored(self._settings, table, found, known)

    def _newest_of(self, table: TableSettings, stored: VersionRanges) -> SoundVersion | None:
        if not stored:
            return None
        version = stored.runs[-1][1]
        state, manifest = self.states(table, [version])[version], self.manifests(table, [version])[version]
        return SoundVersion(
            version=version, protocol=state.protocol, metadata=state.metadata, timestamp=manifest.timestamp
        )

    def _compared(self, table: TableSettings) -> Stored:
        """Return the stored versions of a table, compared with its log."""
        continued = self._continued.get(table.name)
        if continued is None:
            return what_is_stored(self._settings, table, self.listing(table))
        return Stored(common=continued, versions=frozenset(self.current_names(table)))

    def latest(self, table: TableSettings) -> VersionLog:
        """Return the log at the table's latest version, from the listing of this run."""
        return self.log(table).context.table_log.latest_of(self.listing(table))

    def ensure_stored(
        self, table: TableSettings, versions: Sequence[int], progress: OnProgress
    ) -> dict[int, VersionManifest]:
        """Return the manifests of versions. Versions that are not stored are written first.

        Errors: the errors of reading the log and of the store; TakenNameError.
        """
        if table.name not in self._checked_names:
            self._check_name(table)
            self._checked_names.add(table.name)
        if missing := self._versions.missing(table.name, versions):
            stored = self.store.write_versions(
                table.name,
                self.log(table),
                missing,
                materialize_as=table.materialize_as,
                on_progress=progress,
                listing=self.listing(table),
                common=self._listed_logs[table.name].common,
            )
            if not stored.common.is_continued:
                progress(f"Table {table.name}: {stored.common}", 0, len(stored))
            self._versions.add(table.name, stored.current, stored)
            if stored.common.is_continued:
                self._continued[table.name] = stored.common
            self._findings.setdefault(table.name, CommitFindings()).merge(stored.findings, stored.findings.versions)
        if self._queries_ahead:
            self._facts.start(table.name, max(versions))
        return self._versions.manifests(table.name, versions)

    def close(self) -> None:
        """Stop the computations that were started ahead."""
        self._facts.close()

    def ensure_states(
        self, table: TableSettings, versions: Sequence[int], progress: OnProgress
    ) -> dict[int, SnapshotState]:
        """Return the computed states of versions. Versions that are not stored are written first."""
        self.ensure_stored(table, versions, progress)
        return self.states(table, versions)

    def stored_versions(self, table: TableSettings) -> list[int]:
        """Return the current stored versions, ascending, including the ones of this run."""
        return list(self.current_names(table))

    def current_names(self, table: TableSettings) -> Mapping[int, ManifestName]:
        """Return the manifest names of the stored versions, ascending, including the ones of this run."""
        return self._versions.names(table.name)

    def manifests(self, table: TableSettings, versions: Sequence[int]) -> dict[int, VersionManifest]:
        """Return the manifests of stored versions. Errors: StoredVersionNotFoundError."""
        return self._versions.manifests(table.name, versions)

    def states(self, table: TableSettings, versions: Sequence[int]) -> dict[int, SnapshotState]:
        """Return the computed states of stored versions. Errors: StoredVersionNotFoundError."""
        return self._versions.states(table.name, versions)

    def state_if_stored(self, table: TableSettings, version: int) -> SnapshotState | None:
        """Return the stored computed state of a version; None: not stored."""
        if version not in self.stored_versions(table):
            return None
        return self.states(table, [version])[version]

    def file_facts(self, table: TableSettings, version: int, progress: OnProgress | None = None) -> FileFacts:
        """Return facts about the live files of a stored version. progress: called while the files are counted."""
        return self._facts.files(table.name, version, progress)

    def tombstone_facts(self, table: TableSettings, version: int, progress: OnProgress | None = None) -> TombstoneFacts:
        """Return facts about the tombstones of a stored version, as of now. progress: as for `file_facts`."""
        return self._facts.tombstones(table.name, version, progress)

    def compaction(self, table: TableSettings, version: int) -> Compaction | None:
        """Return which partitions of a stored version OPTIMIZE would compact; None: unknown.

        For large versions it is an estimate, because the exact answer reads every file of each new version.
        """
        manifest = self.manifests(table, [version])[version]
        if manifest.rows <= _MAX_EXAMINED_ROWS:
            return Compaction.exact(self.store.optimize_candidates(table.name, manifest))
        metadata = self.states(table, [version])[version].metadata
        if metadata is None:
            return None
        files = self.file_facts(table, version)
        return Compaction.estimated(files.partitions, files.num_partitions, metadata.configuration)

    def log_segments(self, table: TableSettings, versions: Sequence[int]) -> dict[int, LogSegment]:
        """Return the log segments of versions, from the log; from the store if the log no longer has them."""
        log, listing = log_of(table), self.listing(table)
        segments: dict[int, LogSegment] = {}
        for first, last in contiguous(versions):
            try:
                segments |= log.range(first, last, listing).segments()
            except (VersionNotFoundError, VersionGapError) as error:
                try:
                    manifests = self.manifests(table, range(first, last + 1))
                    segments |= self.store.log_segments(table.name, manifests.values())
                except StoredVersionNotFoundError:
                    raise error from None
        return segments
