"""Writes a run of consecutive versions of a table into the store: data, then documents; manifests are the caller's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from deltasnap_core.log.commit_batch import CommitBatch
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.log_range import (
    LogRange,
    commit_timestamps,
    range_actions,
    retention_timestamp,
    without_expired_transactions,
)
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.replay.computed_state import FileTotals, compute_state, counted_files
from deltasnap_core.replay.state_reconstruction import unexpired_tombstone
from deltasnap_core.replay.version_range import RangeBase, RangeVersion, changes_of_versions, replay_range
from deltasnap_core.snapshot.state_computation import is_small, reconciled_files
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.store.change_sets import ChangePolicy
from deltasnap_core.store.commit_facts import CommitFacts
from deltasnap_core.store.layout import BASE, CHANGES, new_folder
from deltasnap_core.store.manifest import DataSet, VersionChanges, VersionManifest
from deltasnap_core.store.stored_rows import StoredRows
from deltasnap_core.store.stored_table import StoredTable
from deltasnap_core.store.version_documents import VersionDocuments, computed_state_of, non_file_actions_of

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many versions are done, and how many there are."""

_BYTES_AN_ACTION = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWriter:
    """Writes versions of one generation of a table. What it returns counts as stored once it is committed.

    rows, counted_rows: the generation's data: whole, and only what the computed state counts.
    """

    stored: StoredTable
    generation: str
    context: TableContext
    logged: LogRange
    rows: StoredRows
    counted_rows: StoredRows
    policy: ChangePolicy
    progress: Progress

    def write_first(self, version: int, loaded: LoadedLog | None = None) -> VersionManifest:
        """Write a version with a base of its own.

        loaded: the log of the version, where it is read already. Errors: those of reading the log.
        """
        self.progress(f"Writing the base of version {version}", 0, 1)
        loaded = loaded or self.logged.load(version)
        commits = self._commits_of(loaded)
        timestamp = commit_timestamps(self.logged, {version: loaded.non_file}, commits.infos)[version]
        files = reconciled_files(self.context.reader(), loaded)
        base = self.rows.write_base(files, new_folder(BASE, version, version), version)
        threshold = retention_timestamp(loaded.non_file, timestamp)
        draft = self._manifest(version, timestamp, loaded.non_file, base, threshold)
        rows = self.counted_rows.state_of(draft)
        state = compute_state(
            None if rows is None else counted_files(rows),
            without_expired_transactions(loaded.non_file, timestamp),
            min_file_retention_timestamp=threshold,
        )
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
        commits = CommitFacts.of(self.logged.loader.store, batch)
        documents = self.stored.read_documents([previous])
        known = computed_state_of(previous, documents)
        actions = range_actions(self.logged, non_file_actions_of(known), batch, first, last)
        timestamps = commit_timestamps(self.logged, actions.states, commits.infos)
        self.progress(f"Writing what versions {first} to {last} changed", 0, count)
        sets = self._write_changes(previous, batch, last)
        self.progress(f"Computing the state of versions {first} to {last}", 0, count)
        retention = {v: retention_timestamp(state, timestamps[v]) for v, state in actions.states.items()}
        changes = self._changes_since(previous, sets, last)
        until = max(retention.values())
        keys = self.rows.keys_in_play(previous, changes, previous.min_file_retention_timestamp, until)
        start = RangeBase(
            version=previous.version,
            files=self.counted_rows.state_of(previous, keys),
            non_file=non_file_actions_of(known),
            computed_state=known,
            min_file_retention_timestamp=previous.min_file_retention_timestamp,
        )
        versions = replay_range(start, changes, actions.by_version, retention, broadcast=is_small(batch))
        shared, identity = VersionDocuments(previous, documents), previous.identity
        manifests = []
        for version in versions:
            non_file, timestamp = actions.states[version.version], timestamps[version.version]
            draft = self._manifest(
                version.version, timestamp, non_file, previous.base, version.min_file_retention_timestamp, sets
            )
            kept = without_expired_transactions(non_file, timestamp)
            state = FileTotals.of(version.computed_state).state(kept)
            segment = self.logged.segments[version.version]
            complete = commits.added_to(shared.added_to(draft, state, segment), identity, segment)
            identity = complete.identity
            manifests.append(replace(complete, version_changes=_version_changes(version)))
        manifests[-1] = self._rebased(manifests[-1])
        self.stored.write_documents(self.generation, shared.new)
        self.progress(f"Wrote versions {first} to {last}", count, count)
        return manifests

    def _commits_of(self, loaded: LoadedLog) -> CommitFacts:
        """Return what the commit of a version is, read again only where a checkpoint stood in for it."""
        store, version = self.logged.loader.store, loaded.version
        batch = loaded.batch.after(version - 1)
        if not batch.files and self.logged.has_commit(version):
            batch = self.logged.read_commits(version, version)
        return CommitFacts.of(store, batch)

    def _write_changes(self, previous: VersionManifest, batch: CommitBatch, last: int) -> tuple[DataSet, ...]:
        """Write the changes of new commits, together with earlier ones where those are to be merged."""
        rows = batch.lines_matching('"(add|remove)"').num_rows
        rows += sum(commit.size // _BYTES_AN_ACTION for commit in batch.large)
        kept, merged = self._sets_to_merge(previous, rows)
        first = merged[0].first if merged else previous.version + 1
        commits = self.context.reader().commit_actions(batch)
        changes = None if commits is None else changes_of_versions(commits)
        earlier = self.rows.changes(merged, previous.version)
        if earlier is not None:
            changes = earlier if changes is None else earlier.unionByName(changes)
            rows += sum(data_set.rows for data_set in merged)
        return (*kept, self.rows.write_changes(changes, new_folder(CHANGES, first, last), first, last, rows))

    def _sets_to_merge(self, previous: VersionManifest, rows: int) -> tuple[tuple[DataSet, ...], tuple[DataSet, ...]]:
        """Split the sets of changes into those that stay and those that are written again with `rows` new ones."""
        sets = previous.changes
        count = self.policy.sets_to_merge([data_set.rows for data_set in sets], rows)
        if sets and sets[-1].last > previous.version:
            count = max(count, 1)  # it goes on past the version that is followed: only its beginning is of use
        return sets[: len(sets) - count], sets[len(sets) - count :]

    def _changes_since(self, previous: VersionManifest, sets: tuple[DataSet, ...], last: int) -> DataFrame | None:
        changes = self.counted_rows.changes(sets[-1:], last)
        return None if changes is None else changes.where(F.col("version") > previous.version)

    def _rebased(self, manifest: VersionManifest) -> VersionManifest:
        """Return a version on a base of its own in place of its changes, when those have grown enough.

        Tombstones that have expired are left behind, as by a checkpoint.
        """
        if not self.policy.is_base_due(base_rows=manifest.base.rows, change_rows=manifest.change_rows):
            return manifest
        state, version = self.rows.state_of(manifest), manifest.version
        if state is not None:
            is_kept = unexpired_tombstone(manifest.min_file_retention_timestamp)
            state = state.where(f"add.path is not null or ({is_kept})")
        return replace(
            manifest, base=self.rows.write_base(state, new_folder(BASE, version, version), version), changes=()
        )

    def _manifest(
        self,
        version: int,
        timestamp: int,
        non_file: NonFileActions,
        base: DataSet,
        threshold: int,
        sets: tuple[DataSet, ...] = (),
    ) -> VersionManifest:
        return VersionManifest(
            table=self.stored.name,
            version=version,
            generation=self.generation,
            table_id=non_file.metadata.id if non_file.metadata else "",
            log_path=self.context.log.log_path,
            timestamp=timestamp,
            min_file_retention_timestamp=threshold,
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
