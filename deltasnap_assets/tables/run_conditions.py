"""RunConditions: the condition of each table of a run, examined once, without the commits that the run has read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from deltasnap_assets.runs.condition.poll_findings import known_faults
from deltasnap_assets.runs.due import reads_of_run
from deltasnap_assets.runs.planning.log_status import compared_with_stored, what_is_stored
from deltasnap_assets.runs.planning.plan import Stored
from deltasnap_assets.runs.stores import log_of
from deltasnap_assets.settings.config import Settings
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.held_versions import HeldVersions
from deltasnap_core import (
    DeltaSnapError,
    ProblemKind,
    TableCondition,
    VersionRanges,
)
from deltasnap_core.support import (
    CommitFindings,
    CommonVersion,
    LogListing,
    SoundVersion,
    system_clock,
)


class RunConditions:
    """The conditions of tables, by name. `reads_of_run` decides what is read.

    The commits that the run has stored are not read again, but their faults count.
    """

    def __init__(
        self, settings: Settings, versions: HeldVersions, listing: Callable[[TableSettings], LogListing]
    ) -> None:
        """listing: returns the listing of a table's log in this run."""
        self._settings = settings
        self._versions = versions
        self._listing = listing
        self._found: dict[str, TableCondition] = {}
        self._continued: dict[str, CommonVersion] = {}
        self._findings: dict[str, CommitFindings] = {}

    def add(self, table_name: str, common: CommonVersion, findings: CommitFindings) -> None:
        """Remember what storing versions found. common: how the log related to the stored versions before."""
        if common.is_continued:
            self._continued[table_name] = common
        self._findings.setdefault(table_name, CommitFindings()).merge(findings, findings.versions)

    def of(self, table: TableSettings) -> TableCondition:
        """Return the condition of a table. Only of its log, if its store or its listing fails."""
        if table.name not in self._found:
            try:
                found = self._examined(table)
            except DeltaSnapError:
                found = log_of(table).condition()
            self._found[table.name] = found
        return self._found[table.name]

    def _examined(self, table: TableSettings) -> TableCondition:
        listing, known = self._listing(table), self._compared(table)
        findings = self._findings.get(table.name, CommitFindings())
        # Without the versions that this run has stored, unless it has stored all of them.
        before = replace(known, versions=known.versions - findings.versions or known.versions)
        is_comparable = any(each.version in findings.versions for each in listing.checkpoints[:1])
        poll = self._versions.store.polls.read(table.name)
        reads = reads_of_run(poll, system_clock(), before, listing.newest_checkpoint, is_comparable=is_comparable)
        found = log_of(table).condition(
            listing,
            first=reads.first,
            read_pages=reads.read_pages,
            known=replace(findings, sound=reads.sound, newest_sound=self._newest_of(table.name, reads.sound)),
        )
        found = found.without(ProblemKind.WRONG_CHECKSUM)  # `checksum_agrees` reports it
        if not found.is_complete:
            found = found.with_known_faults(known_faults(poll))
        return compared_with_stored(self._settings, table, found, known)

    def _newest_of(self, table_name: str, stored: VersionRanges) -> SoundVersion | None:
        if not stored:
            return None
        version = stored.runs[-1][1]
        state = self._versions.states(table_name, [version])[version]
        manifest = self._versions.manifests(table_name, [version])[version]
        return SoundVersion(
            version=version, protocol=state.protocol, metadata=state.metadata, timestamp=manifest.timestamp
        )

    def _compared(self, table: TableSettings) -> Stored:
        continued = self._continued.get(table.name)
        if continued is None:
            return what_is_stored(self._settings, table, self._listing(table))
        return Stored(common=continued, versions=frozenset(self._versions.names(table.name)))
