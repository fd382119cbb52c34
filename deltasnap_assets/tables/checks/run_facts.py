"""RunFacts: the facts that the checks of a run use, from the log and the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import dagster as dg

from deltasnap_assets.checks.commits import recent_commit_times
from deltasnap_assets.checks.compaction import Compaction
from deltasnap_assets.checks.facts import CountedFiles
from deltasnap_assets.runs.planning.names import PARTITION_TAG, RANGE_END_TAG, RANGE_START_TAG, selects_versions
from deltasnap_assets.runs.planning.partitions import version_of
from deltasnap_assets.runs.stores import daily_rows_of, history_of, log_of
from deltasnap_assets.settings.table_settings import TableSettings
from deltasnap_assets.tables.changes import schema_changes
from deltasnap_assets.tables.run_snapshots import RunSnapshots
from deltasnap_core import (
    LogSegment,
    SnapshotState,
    TableCondition,
    VersionChecksum,
)
from deltasnap_core.errors import StoredVersionNotFoundError
from deltasnap_core.support import (
    ChecksumDifference,
    ColumnTrend,
    DailyRows,
    LogListing,
    asks_catalog,
    compare_time_with_log,
    compare_with_log,
    once,
    properties_in_force,
    read_checksum,
    system_clock,
)

HISTORY = 30
"""The number of stored versions before a run's first version that define the usual range."""


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """`TableFacts` of a run.

    versions: the versions of the run.
    """

    table: TableSettings
    snapshots: RunSnapshots
    versions: Sequence[int]

    @property
    def newest(self) -> int:
        """The newest stored version. Errors: StoredVersionNotFoundError."""
        stored = self.snapshots.stored_versions(self.table)
        if not stored:
            raise StoredVersionNotFoundError(store=self.snapshots.store.root, table=self.table.name, version=None)
        return stored[-1]

    @property
    def state(self) -> SnapshotState:
        return self.snapshots.versions.states(self.table.name, [self.newest])[self.newest]

    @property
    def segment(self) -> LogSegment:
        return log_of(self.table).latest_of(self.snapshots.listing(self.table)).segment

    @property
    def counted(self) -> CountedFiles:
        return self.snapshots.facts.of(self.table)

    @property
    def compaction(self) -> Compaction | None:
        """The partitions that OPTIMIZE would compact. Not cached: only a failing check uses it."""
        return self.snapshots.compaction(self.table, self.newest)

    @property
    def condition(self) -> TableCondition:
        """The condition of the table, the same as on the table's page of this run."""
        return self.snapshots.conditions.of(self.table)

    @property
    def checkpoint_known_sound(self) -> bool:
        return not self.condition.pages_read  # see `reads_of_run`

    @property
    def loadable_state(self) -> SnapshotState | None:
        return self.snapshots.state_if_stored(self.table, self.condition.latest)

    @property
    def is_catalog_known(self) -> bool:
        return asks_catalog(log_of(self.table).store)

    @property
    def commit_times_ms(self) -> list[int]:
        listing = self.snapshots.listing(self.table)
        latest = self.snapshots.state_if_stored(self.table, listing.latest_version)
        return recent_commit_times(history_of(self.table, listing, latest))

    @property
    def listing(self) -> LogListing:
        return self.snapshots.listing(self.table)

    @property
    def configuration(self) -> Mapping[str, str]:
        """The properties in the stored state, or if it is not stored, in the log."""
        state = self.snapshots.state_if_stored(self.table, self.listing.latest_version)
        if state is not None and state.metadata is not None:
            return properties_in_force(state.protocol, state.metadata)
        return log_of(self.table).latest_of(self.listing).configuration

    @property
    def engine(self) -> str | None:
        stored = self.snapshots.stored_versions(self.table)[-1:]
        manifests = self.snapshots.versions.manifests(self.table.name, stored)
        infos = [each.commit.info for each in manifests.values() if each.commit is not None]
        return next((info.engine_info for info in infos if info is not None), None)

    @property
    def now_ms(self) -> int:
        return system_clock()

    @property
    def daily_rows(self) -> DailyRows:
        return self._rows_up_to(self.now_ms)

    @property
    def rows_of_last_day(self) -> int | None:
        """The rows that commits added in the 24 hours up to the newest stored version; None: unknown."""
        newest = self.newest
        time = self.snapshots.versions.manifests(self.table.name, [newest])[newest].timestamp
        rows = self._rows_up_to(time)
        # The log may date a commit later than its file, so that times increase.
        return replace(rows, now_ms=rows.times_ms.get(newest, time)).of(0)

    def _rows_up_to(self, time_ms: int) -> DailyRows:
        listing = self.snapshots.listing(self.table)
        latest = self.snapshots.state_if_stored(self.table, listing.latest_version)
        return daily_rows_of(self.table, listing, latest, time_ms)

    @property
    def columns(self) -> tuple[ColumnTrend, ...]:
        return self.snapshots.column_trends(self.table, self.newest)

    @property
    def columns_version(self) -> int:
        return self.newest

    @once
    def late_checksum(self) -> int | None:
        stored = self.snapshots.stored_versions(self.table)[-2:]
        if len(stored) < 2 or stored[1] not in self.versions:
            return None
        before = stored[0]
        is_known = self.snapshots.versions.manifests(self.table.name, [before])[before].checksum_file is not None
        return None if is_known or before not in self.snapshots.listing(self.table).checksums else before

    @once
    def _checksums(self) -> dict[int, VersionChecksum | None]:
        """The checksum of each version that has one; None: it cannot be read."""
        log_store = log_of(self.table).store
        versions = {*self.versions, *self.snapshots.stored_versions(self.table)[-1:]}
        manifests = self.snapshots.versions.manifests(self.table.name, sorted(versions))
        files = {v: file for v, manifest in manifests.items() if (file := manifest.checksum_file) is not None}
        if (late := self.late_checksum) is not None:
            files[late] = self.snapshots.listing(self.table).checksums[late]
        found = {version: read_checksum(log_store, file) for version, file in files.items()}
        gone = {v for v, file in files.items() if found[v] is None and log_store.status(file.path) is None}
        return {version: checksum for version, checksum in found.items() if version not in gone}

    @property
    def unreadable_checksums(self) -> list[int]:
        return [version for version, checksum in self._checksums.items() if checksum is None]

    @property
    def checksum_differences(self) -> dict[int, tuple[ChecksumDifference, ...]]:
        found = {version: checksum for version, checksum in self._checksums.items() if checksum is not None}
        manifests = self.snapshots.versions.manifests(self.table.name, list(found))
        states = self.snapshots.versions.states(self.table.name, list(found))
        differences = {}
        for version, checksum in found.items():
            identity = manifests[version].identity
            commit = None if identity is None else identity.commit  # without one, the time of the version is another
            differences[version] = compare_with_log(checksum, states[version])
            if commit is not None:
                differences[version] += compare_time_with_log(checksum, commit.in_commit_timestamp)
        return differences

    @once
    def states(self) -> dict[int, SnapshotState]:
        stored = self.snapshots.stored_versions(self.table)
        earlier = [version for version in stored if version < min(self.versions, default=0)][-HISTORY:]
        found = {v: self.snapshots.state_if_stored(self.table, v) for v in (*earlier, *self.versions)}
        return {version: state for version, state in found.items() if state is not None}

    @property
    def schema_changes(self) -> dict[int, tuple[str, ...]]:
        changes = {}
        for earlier, later in pairwise(sorted(self.states)):
            before, after = self.states[earlier].metadata, self.states[later].metadata
            if later in self.versions and before is not None and after is not None:
                changes[later] = tuple(schema_changes(before, after))
        return changes


def versions_of_run(context: dg.AssetCheckExecutionContext, snapshots: RunSnapshots, table: TableSettings) -> list[int]:
    """Return the stored versions of the run; the newest stored version if the run selects none."""
    tags, stored = context.run.tags, snapshots.stored_versions(table)
    if not selects_versions(tags):
        return list(stored[-1:])
    if PARTITION_TAG in tags:
        first = last = version_of(tags[PARTITION_TAG], table.name)
    else:
        first, last = (version_of(tags[tag], table.name) for tag in (RANGE_START_TAG, RANGE_END_TAG))
    return [version for version in stored if first <= version <= last]
