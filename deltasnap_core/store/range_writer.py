"""Writes a run of consecutive versions of a table into the store: data, then documents; manifests are the caller's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.log_range import (
    LogRange,
    commit_timestamps,
    range_actions,
    retention_at,
)
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.retention import Retention
from deltasnap_core.protocol.snapshot_state import SnapshotState
from deltasnap_core.replay.computed_state import compute_state, state_of_digests
from deltasnap_core.replay.driver.held_files import action_count
from deltasnap_core.replay.driver.reconciliation import with_path_keys
from deltasnap_core.replay.driver.whole_actions import UnusualError, newest_actions
from deltasnap_core.replay.spark.file_action_layout import FULL, digest
from deltasnap_core.replay.spark.spark_failures import on_ladder, translated
from deltasnap_core.replay.spark.state_computation import is_small, reconciled_files
from deltasnap_core.replay.spark.version_range import (
    RangeBase,
    RangeVersion,
    changes_of_versions,
    replay_range,
    replay_small_range,
)
from deltasnap_core.rules.aggregates import MissingSizeError
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.store.change_sets import ChangePolicy
from deltasnap_core.store.commit_facts import CommitFacts
from deltasnap_core.store.layout import BASE, CHANGES, new_folder
from deltasnap_core.store.manifest import DataSet, VersionChanges, VersionManifest
from deltasnap_core.store.small_rows import MOST_CHANGES, MOST_IN_BASE, MOST_ROWS, SmallRows, changes_of_commits
from deltasnap_core.store.stored_rows import StoredRows
from deltasnap_core.store.stored_table import StoredTable
from deltasnap_core.store.version_documents import VersionDocuments, computed_state_of, non_file_actions_of

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many versions are done, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWriter:
    """Writes versions of one generation of a table. What it returns counts as stored once it is committed.

    rows, digest_rows, small_rows: the generation's data: whole; no more than the digest is made of; without Spark.
    """

    stored: StoredTable
    generation: str
    context: TableContext
    logged: LogRange
    rows: StoredRows
    digest_rows: StoredRows
    small_rows: SmallRows
    policy: ChangePolicy
    progress: Progress

    def write_first(self, version: int, loaded: LoadedLog | None = None) -> VersionManifest:
        """Write a version with a base of its own.

        loaded: the log of the version, where it is read already. Errors: those of reading the log.
        """
        self.progress(f"Writing the base of version {version}", 0, 1)
        log = loaded or self.logged.load(version)
        commits, draft, state = on_ladder(log, self._write_base, self.logged.loader.next_rung)
        documents = VersionDocuments(None, {})
        manifest = documents.added_to(draft, state, self.logged.segments[version])
        self.stored.write_documents(self.generation, documents.new)
        return commits.added_to(manifest, None, self.logged.segments[version])

    def write_after(self, previous: VersionManifest, last: int) -> list[VersionManifest]:
        """Write the versions after one of this generation, up to `last`, whose commits are all there.

        One pass over the commits, one write of what they changed, and a base at `last` when it is worth one.
        Errors: those of reading the log; CorruptStoreError.
        """
        first, count = previous.version + 1, last - previous.version
        self.progress(f"Reading the commits {first} to {last}", 0, count)
        batch = self.logged.read_commits(first, last)
        commits = CommitFacts.of(batch)
        documents = self.stored.read_documents([previous])
        known = computed_state_of(previous, documents)
        states = range_actions(self.logged, non_file_actions_of(known), batch, first, last)
        timestamps = commit_timestamps(self.logged, states, commits.infos)
        self.progress(f"Writing what versions {first} to {last} changed", 0, count)
        with translated((commit.path for commit in batch.files), self.rows.urls(previous)):
            sets = self._write_changes(previous, batch, last)
        self.progress(f"Computing the state of versions {first} to {last}", 0, count)
        with translated(stored_files=self.rows.urls(previous, *sets)):
            versions = self._replay(previous, known, sets, states, timestamps, batch)
        shared, identity = VersionDocuments(previous, documents), previous.identity
        manifests = []
        for version in versions:
            non_file, timestamp = states[version.version], timestamps[version.version]
            draft = self._manifest(version.version, timestamp, non_file, previous.base, version.retention, sets)
            segment = self.logged.segments[version.version]
            complete = commits.added_to(shared.added_to(draft, version.computed_state, segment), identity, segment)
            identity = complete.identity
            manifests.append(replace(complete, version_changes=_version_changes(version)))
        with translated(stored_files=self.rows.urls(manifests[-1])):
            manifests[-1] = self._rebased(manifests[-1])
        self.stored.write_documents(self.generation, shared.new)
        self.progress(f"Wrote versions {first} to {last}", count, count)
        return manifests

    def _replay(
        self,
        previous: VersionManifest,
        known: SnapshotState,
        sets: tuple[DataSet, ...],
        states: Mapping[int, NonFileActions],
        timestamps: Mapping[int, int],
        batch: CommitBatch,
    ) -> tuple[RangeVersion, ...]:
        retentions = {v: retention_at(state, timestamps[v]) for v, state in states.items()}
        in_force = {v: state.without_expired_transactions(timestamps[v]) for v, state in states.items()}
        base = RangeBase(version=previous.version, computed_state=known, retention=previous.retention)
        rows = previous.base.rows + previous.change_rows + batch.num_file_actions
        if batch.file_digests is not None and rows <= self._at_most(MOST_ROWS):
            commits = with_path_keys(batch.file_digests, self.small_rows.log_path)
            return replay_small_range(base, self.small_rows.digests(previous), commits, in_force, retentions)
        changes = self._changes_since(previous, sets, max(states))
        keys = self.rows.keys_touched_or_expiring(
            previous, changes, reduce(Retention.later_of, retentions.values(), previous.retention)
        )
        files = self.digest_rows.state_of(previous, keys)
        return replay_range(base, files, changes, in_force, retentions, broadcast=is_small(batch))

    def _write_base(self, log: LoadedLog) -> tuple[CommitFacts, VersionManifest, SnapshotState]:
        """Write the base of a version, and return what is known of its commit, a draft of its manifest, its state."""
        version, folder = log.version, new_folder(BASE, log.version, log.version)
        few = self._few_actions(log)
        if few is not None:
            base = self.small_rows.write_base(few, folder, version)
        else:
            base = self.rows.write_base(reconciled_files(self.context.reader(), log), folder, version)
        commits = self._commits_of(log)
        timestamp = commit_timestamps(self.logged, {version: log.non_file}, commits.infos)[version]
        retention = retention_at(log.non_file, timestamp)
        draft = self._manifest(version, timestamp, log.non_file, base, retention)
        in_force = log.non_file.without_expired_transactions(timestamp)
        try:
            if few is not None:
                return commits, draft, state_of_digests(self.small_rows.digests(draft), in_force, retention)
            with translated(stored_files=self.rows.urls(draft)):
                rows = self.digest_rows.state_of(draft)
                return commits, draft, compute_state(None if rows is None else digest(rows), in_force, retention)
        except MissingSizeError as error:  # the base has what the log has
            raise CorruptLogError(path=log.files[0], reason=str(error)) from error

    def _few_actions(self, log: LoadedLog) -> pa.Table | None:
        """Return the newest action of each logical file (WHOLE), where they are few. None: Spark is to write them."""
        count = action_count(log)
        if count is None or count > self._at_most(MOST_IN_BASE):
            return None
        try:
            return newest_actions(self.context.log.store, log, self.context.log.log_path)
        except UnusualError:
            return None

    def _commits_of(self, loaded: LoadedLog) -> CommitFacts:
        """Return what the commit of a version is, read again only where a checkpoint stood in for it."""
        version = loaded.version
        batch = loaded.batch.after(version - 1)
        if not batch.files and self.logged.has_commit(version):
            batch = self.logged.read_commits(version, version)
        return CommitFacts.of(batch)

    def _write_changes(self, previous: VersionManifest, batch: CommitBatch, last: int) -> tuple[DataSet, ...]:
        """Write the changes of new commits, together with earlier ones where those are to be merged."""
        rows = batch.num_file_actions
        kept, merged = self._sets_to_merge(previous, rows)
        first = merged[0].first if merged else previous.version + 1
        folder = new_folder(CHANGES, first, last)
        merged_rows = sum(data_set.rows for data_set in merged)
        if rows + merged_rows <= self._at_most(MOST_CHANGES):
            few = changes_of_commits(batch, self.small_rows.log_path)
            if few is not None:
                return (*kept, self.small_rows.write_changes(few, merged, previous.version, folder, first, last))
        commits = self.context.reader().commit_actions(batch)
        changes = None if commits is None else changes_of_versions(commits)
        earlier = self.rows.changes(merged, previous.version)
        if earlier is not None:
            changes = earlier if changes is None else earlier.unionByName(changes)
        return (*kept, self.rows.write_changes(changes, folder, first, last, rows + merged_rows))

    def _at_most(self, rows: int) -> int:
        """Return of how many rows this process takes care without Spark, where that is worth it for so many."""
        return min(rows, self.context.options.local_actions)

    def _sets_to_merge(self, previous: VersionManifest, rows: int) -> tuple[tuple[DataSet, ...], tuple[DataSet, ...]]:
        """Split the sets of changes into those that stay and those that are written again with `rows` new ones."""
        sets = previous.changes
        count = self.policy.sets_to_merge([data_set.rows for data_set in sets], rows)
        if sets and sets[-1].last > previous.version:
            count = max(count, 1)  # it goes on past the version that is followed: only its beginning is of use
        return sets[: len(sets) - count], sets[len(sets) - count :]

    def _changes_since(self, previous: VersionManifest, sets: tuple[DataSet, ...], last: int) -> DataFrame | None:
        changes = self.digest_rows.changes(sets[-1:], last)
        return None if changes is None else changes.where(F.col("version") > previous.version)

    def _rebased(self, manifest: VersionManifest) -> VersionManifest:
        """Return a version on a base of its own in place of its changes, when those have grown enough.

        Tombstones that have expired are left behind, as by a checkpoint.
        """
        if not self.policy.is_base_due(base_rows=manifest.base.rows, change_rows=manifest.change_rows):
            return manifest
        state, version = self.rows.state_of(manifest), manifest.version
        if state is not None:
            state = FULL.unexpired(state, manifest.retention)
        return replace(
            manifest, base=self.rows.write_base(state, new_folder(BASE, version, version), version), changes=()
        )

    def _manifest(
        self,
        version: int,
        timestamp: int,
        non_file: NonFileActions,
        base: DataSet,
        retention: Retention,
        sets: tuple[DataSet, ...] = (),
    ) -> VersionManifest:
        return VersionManifest(
            table=self.stored.name,
            version=version,
            generation=self.generation,
            table_id=non_file.metadata.id if non_file.metadata else "",
            log_path=self.context.log.log_path,
            timestamp=timestamp,
            min_file_retention_timestamp=retention.min_file_retention_timestamp,
            base=base,
            changes=sets,
        )


def _version_changes(version: RangeVersion) -> VersionChanges:
    return VersionChanges(
        num_added_files=version.files_added,
        num_removed_files=version.files_removed,
        added_bytes=version.bytes_added,
        removed_bytes=version.bytes_removed,
    )
