"""Writes consecutive versions of a table into the store: data, then documents. The caller writes the manifests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from deltasnap_core.errors import CorruptLogError
from deltasnap_core.log.commits.data_changes import UNKNOWN_SCHEMA
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.expiry_times import retention_at, times_of_expiry, without_expired_transactions
from deltasnap_core.log.loaded_log import LoadedLog
from deltasnap_core.log.log_range import LogRange
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.protocol.state.snapshot_state import SnapshotState
from deltasnap_core.replay.driver.full_actions import reconciled_actions
from deltasnap_core.replay.driver.held_files import HeldFiles, action_count
from deltasnap_core.replay.engine import Answer, Question, actions_text
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.spark.reading.file_action_layout import FULL
from deltasnap_core.replay.spark.session.spark_failures import translated
from deltasnap_core.replay.spark.state_reconstruction import reconciled_files
from deltasnap_core.replay.state_delta import StateDelta
from deltasnap_core.rules.paths import have_equal_keys
from deltasnap_core.rules.totals.aggregates import MissingSizeError
from deltasnap_core.snapshot.table_context import TableContext
from deltasnap_core.store.format.change_sets import ChangePolicy
from deltasnap_core.store.format.commit_facts import CommitFacts
from deltasnap_core.store.format.layout import BASE, CHANGES, new_folder
from deltasnap_core.store.format.manifest import DataSet, VersionChanges, VersionManifest
from deltasnap_core.store.format.version_documents import VersionDocuments
from deltasnap_core.store.rows.apply_step import ApplyResult, ApplyStep
from deltasnap_core.store.rows.driver_rows import DriverRows
from deltasnap_core.store.rows.spark_rows import SparkRows
from deltasnap_core.store.versions.stored_table import StoredTable
from deltasnap_core.store.writing.new_versions import NewVersions, read_new_versions

CountFiles = Callable[[VersionManifest, NonFileActions, Retention], StateDelta]
"""Returns the StateDelta that counts the files of a version. Errors: MissingSizeError."""

Progress = Callable[[str, int, int], None]
"""Called with a description of the step, the number of versions done, and their total number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWriter:
    """Writes versions of one generation of a table. A version is stored when the caller commits the returned manifest.

    spark_rows, driver_rows: the rows of the generation, for each engine.
    findings: receives the findings of reading commits.
    """

    stored: StoredTable
    generation: str
    context: TableContext
    log_range: LogRange
    spark_rows: SparkRows
    driver_rows: DriverRows
    findings: CommitFindings
    policy: ChangePolicy
    progress: Progress

    def write_first(self, version: int, loaded: LoadedLog | None) -> VersionManifest:
        """Write a version with its own base, and return its manifest. Spark reconstructs it, for any size.

        loaded: the log of the version, if read already. Errors: those of reading the log; SparkRequiredError.
        """
        self.progress(f"Writing the base of version {version}", 0, 1)
        log = loaded or self.log_range.load(version)
        commits, draft, state = Fallback(log).run(self._write_base)
        documents = VersionDocuments(None, {})
        segment = self.log_range.segment(version)
        manifest = documents.added_to(draft, state, segment)
        self.stored.write_documents(self.generation, documents.new)
        return commits.added_to(manifest, None, segment)

    def can_follow(self, previous: VersionManifest) -> bool:
        """Return whether `write_after` can look up the files of a version by their stored keys."""
        log_path = self.context.table_log.log_path
        return previous.generation == self.generation and have_equal_keys(previous.log_path, log_path)

    def write_after(self, previous: VersionManifest, last: int) -> list[VersionManifest]:
        """Write the versions after one that they can follow, up to `last`, and return their manifests.

        All commits must exist.
        It reads the commits in one pass, writes their changes once, and writes a base at `last` if due.
        Errors: those of reading the log; CorruptStoreError; SparkRequiredError.
        """
        first, count = previous.version + 1, last - previous.version
        self.progress(f"Reading the commits {first} to {last}", 0, count)
        documents = self.stored.read_documents([previous])
        new = read_new_versions(self.log_range, previous, documents, last, self.context.table_log.clock())
        self.findings.add(new.batch)
        kept, merged = self._sets_to_merge(previous, new.batch.num_file_actions)
        step = ApplyStep(
            previous=previous,
            batch=new.batch,
            merged=merged,
            folder=new_folder(CHANGES, merged[0].first if merged else first, last),
            non_file=without_expired_transactions(new.non_file, new.expiry_times),
            retentions=new.retentions,
        )
        self.progress(f"Writing the changes of versions {first} to {last}", 0, count)
        applied = self._applied(step)
        shared = VersionDocuments(previous, documents)
        manifests = self._manifests(new, applied, shared, kept)
        with translated(stored_files=self.spark_rows.urls(manifests[-1])):
            manifests[-1] = self._rebased(manifests[-1])
        self.stored.write_documents(self.generation, shared.new)
        self.progress(f"Wrote versions {first} to {last}", count, count)
        return manifests

    def _manifests(
        self,
        new: NewVersions,
        applied: Answer[ApplyResult],
        shared: VersionDocuments,
        kept: tuple[DataSet, ...],
    ) -> list[VersionManifest]:
        """Return the manifests of new versions. kept: the sets of changes before the new one."""
        manifests, identity, state = [], new.previous.identity, new.known
        changes, deltas = applied.value
        data = [new.previous.base, *kept, changes]
        file_actions = {commit.version: commit.file_actions for commit in new.batch.commits}
        for version, delta in sorted(deltas.items()):
            state, segment = delta.applied_to(state), self.log_range.segment(version)
            draft = replace(
                self._manifest(version, new.timestamps[version], new.non_file[version], new.retentions[version], data),
                version_changes=_version_changes(delta),
                computed_by=_computed_by(applied.computed_by, version, file_actions.get(version, 0)),
            )
            complete = new.commits.added_to(shared.added_to(draft, state, segment), identity, segment)
            identity = complete.identity
            manifests.append(complete)
        return manifests

    def _applied(self, step: ApplyStep) -> Answer[ApplyResult]:
        """Write the changes of a step, and return them with their effects, on the suitable engine."""
        sizes = {Question.APPLY: step.rows_to_write, Question.COUNT: step.rows_to_read}
        return self.context.engine.answer(
            sizes if step.batch.measures is not None else dict.fromkeys(sizes),
            work=actions_text(step.batch.num_file_actions, f"applied to version {step.previous.version}"),
            driver=partial(self.driver_rows.apply, step),
            spark=partial(self._apply_on_spark, step),
        )

    def _apply_on_spark(self, step: ApplyStep, session: SparkSession) -> ApplyResult:
        return self.spark_rows.apply(step, self.context.reader(session))

    def _write_base(self, log: LoadedLog) -> tuple[CommitFacts, VersionManifest, SnapshotState]:
        """Write the base of a version. Return the facts about its commit, a draft of its manifest, and its state."""
        version, count = log.version, action_count(log)
        with translated(log.files):
            base = self.context.engine.answer(
                {Question.RECONSTRUCT: count},
                work=actions_text(count, "read"),
                driver=partial(self._base_in_driver, log),
                spark=partial(self._base_on_spark, log),
            )
        written, count_files = base.value
        commits = self._commits_of(log)
        timestamps = self.log_range.timestamps({version: log.non_file}, commits.infos)
        time = times_of_expiry(timestamps, self.context.table_log.clock())[version]
        retention = retention_at(log.non_file, time)
        draft = self._manifest(version, timestamps[version], log.non_file, retention, [written])
        draft = replace(draft, computed_by=base.computed_by)
        in_force = log.non_file.without_expired_transactions(time)
        with translated(stored_files=self.spark_rows.urls(draft)):
            try:
                counted = count_files(draft, in_force, retention)
            except MissingSizeError as error:  # the base has the same files as the log
                raise CorruptLogError(path=log.files[0], reason=str(error)) from error
        return commits, draft, counted.applied_to(None)

    def _base_on_spark(self, log: LoadedLog, session: SparkSession) -> tuple[DataSet, CountFiles]:
        folder = new_folder(BASE, log.version, log.version)
        files = reconciled_files(self.context.reader(session), log)
        return self.spark_rows.write_base(files, folder, log.version), self.spark_rows.counted

    def _base_in_driver(self, log: LoadedLog) -> tuple[DataSet, CountFiles]:
        store, log_path = self.context.table_log.store, self.context.table_log.log_path
        folder = new_folder(BASE, log.version, log.version)
        written = self.driver_rows.write_base(reconciled_actions(store, log, log_path), folder, log.version)
        return written, partial(self._counted_in_driver, log)

    def _counted_in_driver(
        self, log: LoadedLog, _: VersionManifest, non_file: NonFileActions, retention: Retention
    ) -> StateDelta:
        table_log, in_force = self.context.table_log, replace(log, non_file=non_file)
        return HeldFiles.count(table_log.store, table_log.log_path, in_force, retention, hold=False)[1]

    def _commits_of(self, loaded: LoadedLog) -> CommitFacts:
        """Return the facts about the commit of a version. Reads it only if a checkpoint replaced it in the batch."""
        version = loaded.version
        self.findings.add(loaded.batch)
        batch = loaded.batch.after(version - 1)
        if not batch.files and self.log_range.has_commit(version):
            batch = self.log_range.read_commits(version, version)
            self.findings.add(batch)
        return CommitFacts.of(batch, UNKNOWN_SCHEMA if version else None)

    def _sets_to_merge(self, previous: VersionManifest, rows: int) -> tuple[tuple[DataSet, ...], tuple[DataSet, ...]]:
        """Return the sets of changes to keep, and those to write again with `rows` new ones."""
        sets = previous.changes
        count = self.policy.sets_to_merge([data_set.rows for data_set in sets], rows)
        if sets and sets[-1].last > previous.version:
            count = max(count, 1)  # the last set extends beyond the previous version: only its first part is valid
        return sets[: len(sets) - count], sets[len(sets) - count :]

    def _rebased(self, manifest: VersionManifest) -> VersionManifest:
        """Return a version with a new base in place of its changes, if the changes have grown enough.

        Expired tombstones are left out, as in a checkpoint.
        """
        if not self.policy.is_base_due(base_rows=manifest.base.rows, change_rows=manifest.change_rows):
            return manifest
        state, version = self.spark_rows.state_of(manifest), manifest.version
        if state is not None:
            state = FULL.unexpired(state, manifest.retention)
        return replace(
            manifest, base=self.spark_rows.write_base(state, new_folder(BASE, version, version), version), changes=()
        )

    def _manifest(
        self, version: int, timestamp: int, non_file: NonFileActions, retention: Retention, data: Sequence[DataSet]
    ) -> VersionManifest:
        """Return a draft of a manifest. data: the base, and the changes that follow it."""
        return VersionManifest(
            table=self.stored.name,
            version=version,
            generation=self.generation,
            table_id=non_file.metadata.id if non_file.metadata else "",
            log_path=self.context.table_log.log_path,
            timestamp=timestamp,
            min_file_retention_timestamp=retention.min_file_retention_timestamp,
            base=data[0],
            changes=tuple(data[1:]),
        )


def _version_changes(delta: StateDelta) -> VersionChanges:
    return VersionChanges(
        num_added_files=delta.begun["num_of_files"],
        num_removed_files=-delta.ended["num_of_files"],
        added_bytes=delta.begun["size_in_bytes"],
        removed_bytes=-delta.ended["size_in_bytes"],
    )


def _computed_by(of_range: str, version: int, actions: int) -> str:
    """Return how one version of a range was computed. For the driver, this states the number of its actions."""
    if not of_range.startswith("driver"):
        return of_range
    return f"driver: {actions_text(actions, f'applied to version {version - 1}')}"
