"""Makes a damaged log readable again for every reader: writes the checkpoint of a stored version after the damage.

It deletes nothing. It replaces `_last_checkpoint`, and renames a damaged checkpoint only if no newer one hides it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

from deltasnap_core.errors import ActionNotFoundError, LogChangedError, RepairRefusedError
from deltasnap_core.log.checkpoints.checkpoint_contents import open_checkpoint
from deltasnap_core.log.commits.commit_reader import COMMITS_AT_ONCE, read_commits
from deltasnap_core.log.condition.examined_files import ExaminedFiles
from deltasnap_core.log.condition.problem import Problem, pairs
from deltasnap_core.log.condition.problem_kinds import ProblemKind
from deltasnap_core.log.condition.table_condition import TableCondition
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.non_file_actions import NonFileActions
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.once import once
from deltasnap_core.protocol.log_files.file_names import commit_file
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.scan.table_version import TableVersion
from deltasnap_core.snapshot.checkpoints.checkpoint_hint import hint_of, write_hint
from deltasnap_core.snapshot.checkpoints.checkpoint_permission import check_not_protected, check_writer
from deltasnap_core.snapshot.checkpoints.checkpoint_writer import CheckpointWriter
from deltasnap_core.snapshot.checkpoints.written_checkpoint import WrittenCheckpoint
from deltasnap_core.snapshot.delta_log import DeltaLog
from deltasnap_core.storage.concurrency import map_concurrently
from deltasnap_core.storage.log_store import FileStatus
from deltasnap_core.storage.writable_files import WritableFiles
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.versions.common_version import (
    CommonVersion,
    LogRelation,
    digest_of_commit,
    find_common_version,
    is_version_of,
)
from deltasnap_core.store.versions.stored_table import StoredTable

_DAMAGED_PREFIX = ".damaged-"
_RESTORE = "Restore {file} from a backup of the log."
_NO_PROOF = "The store does not prove what was in this log. Restore the log from a backup."


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What a repair of a log writes, or wrote.

    table:       URL of the table, without credentials.
    problems:    what is wrong with the log.
    version:     of the checkpoint that every reader can start from; None: no checkpoint is needed.
    renamed:     the damaged checkpoint files of that version, each with its new name, which no reader opens.
    unreadable:  the versions that stay unreadable in the log: those before the checkpoint that need lost files.
    has_hint:    whether `_last_checkpoint` is replaced.
    checkpoint:  the written one; None: not written.
    is_written:  whether this call wrote; False: it only planned.
    """

    table: str
    problems: tuple[Problem, ...] = ()
    version: int | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    unreadable: VersionRanges = field(default_factory=VersionRanges)
    has_hint: bool = False
    checkpoint: WrittenCheckpoint | None = None
    is_written: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether there is something to write."""
        return self.version is not None or self.has_hint

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; versions as `[first, last]` pairs."""
        return {
            "table": self.table,
            "is_needed": self.is_needed,
            "is_written": self.is_written,
            "version": self.version,
            "renamed": dict(self.renamed),
            "replaces_hint": self.has_hint,
            "unreadable_versions": pairs(self.unreadable),
            "checkpoint": None if self.checkpoint is None else self.checkpoint.to_json(),
            "problems": [problem.to_json() for problem in self.problems],
        }


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LogRepair:
    """The repair of one log: see `SnapshotStore.repair`. Create it with `of`.

    listing, condition: of the whole log.
    """

    stored: StoredTable
    log: DeltaLog
    listing: LogListing
    condition: TableCondition

    @classmethod
    def of(cls, stored: StoredTable, log: DeltaLog) -> LogRepair:
        """Return the repair of a log from the stored versions of a table. Reads the whole log."""
        table_log = log.context.table_log
        listing = table_log.list()
        return cls(stored=stored, log=log, listing=listing, condition=table_log.condition(listing, first=0))

    @once
    def plan(self) -> Repair:
        """What is to be written. Errors: RepairRefusedError; those of `_check_writer`."""
        chosen = self.chosen
        if chosen is not None:
            self._check_writer(chosen)
        return Repair(
            table=self.condition.table,
            problems=self.condition.faults,
            version=None if chosen is None else chosen.version,
            renamed={file.name: name for file, name in self._renames.items()},
            unreadable=self._unreadable_before(self._latest + 1 if chosen is None else chosen.version),
            has_hint=self._is_hint_broken or (chosen is not None and chosen.version > max(self._sound, default=-1)),
        )

    def written(self, version: TableVersion | None) -> Repair:
        """Write what is planned. version: `chosen` of the store. Errors: as `plan`; those of CheckpointWriter."""
        if not self.plan.is_needed:
            return self.plan
        context, checkpoint = self.log.context, None
        storage = WritableFiles(context.table_log.log_path, context.files.storage_options)
        if version is not None and self.chosen is not None:
            read = (self.listing.commits[version.version],)
            writer = CheckpointWriter(
                context=context, storage=storage, snapshot=version, read=read, damaged=self._renames
            )
            checkpoint = writer.write()
            self._check_still_same(self.chosen)
        if self._is_hint_broken and (checkpoint is None or not checkpoint.is_hint_written):
            self._write_hint(storage)
        return replace(self.plan, checkpoint=checkpoint, is_written=True)

    def _check_same_log(self) -> None:
        """Raise RepairRefusedError unless the log is the stored one."""
        common = self._common
        if common.relation is LogRelation.NEW:
            raise self._refused(f"the store has no version of {self.stored.name}.", "Restore the log from a backup.")
        if common.relation is LogRelation.ROLLED_BACK:
            lost = common.lost or VersionRanges.of(range(self._latest + 1, (common.latest_stored or 0) + 1))
            raise self._refused(
                f"the log ends at version {self._latest}, and the store has the later versions {lost.text()}: their "
                "commits are lost.",
                f"{_RESTORE.format(file=commit_file(lost[0]))} If they were rolled back on purpose, refresh the table "
                "first.",
            )
        if common.relation is not LogRelation.SAME:
            raise self._refused(f"{common}.", _NO_PROOF)

    @once
    def chosen(self) -> VersionManifest | None:
        """The stored version of the checkpoint; None: no checkpoint is needed. Errors: RepairRefusedError."""
        if not self.condition.is_reachable:
            raise self._refused(self.condition.text, "")
        self._check_same_log()
        found = self._first_verified()
        if found is None and not self._is_readable(self._latest):
            raise self._why_none()
        if found is None or self._is_readable(found.version):
            return None
        self._check_later(found)
        return found

    def _is_readable(self, version: int) -> bool:
        """Return whether every reader can load a version: from a sound checkpoint, without any damaged file."""
        first = max(self._newest_damaged + 1, self._whole_from - 1)
        has_all_commits = self._whole_from == 0 and self._newest_damaged < 0
        return has_all_commits or any(first <= start <= version for start in self._sound)

    def _first_verified(self) -> VersionManifest | None:
        """Return the smallest stored version after all damage that is whole in log and store; None: there is none.

        If the damaged checkpoint is the newest file, that is its own version.
        """
        names = [each for each in self._common.names if each.version >= self._whole_from]
        after = [each for each in names if each.version > self._newest_damaged]
        for name in after + [each for each in names if each.version == self._newest_damaged]:
            for manifest in self.stored.read_sound_manifests([name]):
                if self._is_verified(manifest, self.listing.commits[manifest.version]):
                    return manifest
        return None

    def _is_verified(self, manifest: VersionManifest, commit: FileStatus) -> bool:
        """Return whether a commit has the stored digest, and the store has all files of the version."""
        stored = None if manifest.identity is None else manifest.identity.commit
        if stored is None or commit.size != stored.size:
            return False
        is_same = digest_of_commit(self._table_log.store, commit) == stored.digest
        return is_same and not self.stored.missing_files([manifest])

    def _check_later(self, manifest: VersionManifest) -> None:
        """Raise RepairRefusedError if a commit after a version differs from the stored one."""
        names = [name for name in self._common.names if name.version > manifest.version]
        later = self.stored.read_sound_manifests(names)
        compare = partial(is_version_of, store=self._table_log.store, listing=self.listing)
        for found, is_same in zip(later, map_concurrently(compare, later), strict=True):
            if is_same is False:
                raise self._refused(f"version {found.version} of the log is not the stored one.", _NO_PROOF)

    def _why_none(self) -> RepairRefusedError:
        """Return why no version can get the checkpoint."""
        latest = self._latest
        if self._whole_from > latest:
            advice = _RESTORE.format(file=commit_file(latest))
            earlier = max({*self.listing.commits, *self._sound} - {latest}, default=None)
            if latest in self.listing.commits and earlier is not None:
                advice += (
                    f" If there is none, move that file out of the log: version {earlier} is then the latest. "
                    f"The store keeps version {latest} until the next refresh."
                )
            return self._refused(
                f"its newest commit, of version {latest}, is damaged or missing. A checkpoint of that version would "
                "hide the commit of a writer that takes its number.",
                advice,
            )
        first = max(self._whole_from, self._newest_damaged)
        return self._refused(
            f"the store has no version from {first} to {latest} that is whole and has the commit of the log.",
            "Restore the damaged files from a backup of the log.",
        )

    def _check_writer(self, chosen: VersionManifest) -> None:
        """Raise what DeltaLog.checkpoint raises for a table whose checkpoints deltasnap must not write."""
        path, place = self._table_log.table_path, (self._table_log.log_path, None)
        stored = newest = NonFileActions.of(self.stored.computed_states([chosen])[chosen.version])
        commits = self.listing.commits_between(chosen.version + 1, self._latest)
        for start in range(0, len(commits), COMMITS_AT_ONCE):
            batch = read_commits(self._table_log.store, commits[start : start + COMMITS_AT_ONCE])
            newest = newest.advanced_by(batch)
        for version, actions in ((chosen.version, stored), (self._latest, newest)):
            if actions.protocol is None or actions.metadata is None:
                raise ActionNotFoundError(action="protocol", version=version, path=path)
            check_writer(path, version, actions.protocol, actions.metadata, place)
            if actions is newest:
                check_not_protected(path, chosen.version, actions.protocol, actions.metadata)

    def _check_still_same(self, manifest: VersionManifest) -> None:
        """Raise LogChangedError if the log was replaced while the checkpoint was written."""
        now = self._table_log.list(manifest.version).commits.get(manifest.version)
        before = self.listing.commits[manifest.version]
        if now is not None and not self._is_verified(manifest, now):
            reason = f"version {manifest.version} of the stored log, so that its new checkpoint is wrong: move it away"
            raise LogChangedError(
                path=self._table_log.log_path, file=before.name, expected=reason, found=f"{now.size} bytes"
            )

    def _write_hint(self, storage: WritableFiles) -> None:
        """Write the hint to the newest sound checkpoint."""
        listing, store = self._table_log.list(), self._table_log.store
        checkpoint = next(each for each in listing.checkpoints if each not in self._damaged)
        contents = open_checkpoint(store, checkpoint, listing.log_path)
        write_hint(storage, self._table_log, hint_of(checkpoint, contents.num_rows))

    @once
    def _renames(self) -> dict[FileStatus, str]:
        """The files of the damaged checkpoints of the chosen version, which no newer one hides, with unused names."""
        if self.chosen is None:
            return {}
        version = self.chosen.version
        damaged = [file for each in self._damaged if each.version == version for file in each.files]
        damaged += [file for empty, file in self._empty if empty == version]
        return {file: f"{_DAMAGED_PREFIX}{uuid4().hex[:8]}-{file.name}" for file in damaged}

    @once
    def _common(self) -> CommonVersion:
        return find_common_version(self.stored, self.stored.stored_versions(), self._table_log, self.listing)

    def _unreadable_before(self, end: int) -> VersionRanges:
        """Return the listed versions before one, and those between them, that need a lost or damaged commit."""
        listed = sorted(each for each in {*self.listing.commits, *self._sound} if each < end)
        readable, before = list[int](), -1
        for version in listed:
            follows = before == version - 1 and (not version or readable[-1:] == [before])
            is_whole = version in self.listing.commits and version not in self._damaged_commits
            if version in self._sound or (follows and is_whole):
                readable.append(version)
            before = version
        return VersionRanges.between(min(listed, default=end), end - 1, readable)

    @once
    def _damaged_commits(self) -> set[int]:
        """The versions of damaged commits. An empty one is not damaged if it was stored like that."""
        reported = self.condition.faults_of(ProblemKind.CORRUPT_COMMIT)
        empty = self.condition.faults_of(ProblemKind.EMPTY_COMMIT)
        found = {version for fault in reported for version in fault.where.versions}
        lost = {version for fault in empty for version in fault.where.versions if version in self.listing.commits}
        names = [name for name in self._common.names if name.version in lost]
        for manifest in self.stored.read_sound_manifests(names):
            if self._is_verified(manifest, self.listing.commits[manifest.version]):
                lost.remove(manifest.version)
        return found | lost

    @once
    def _whole_from(self) -> int:
        """The first version from which on all commits are in the log and whole; after the latest version: none is."""
        first = self._latest + 1
        while first - 1 in self.listing.commits and first - 1 not in self._damaged_commits:
            first -= 1
        return first

    @once
    def _reported(self) -> set[int]:
        """The versions of damaged, incomplete and empty checkpoints that no newer sound one hides."""
        faults = self.condition.faults_of(ProblemKind.CORRUPT_CHECKPOINT)
        return {version for fault in faults for version in fault.where.versions}

    @once
    def _damaged(self) -> tuple[CheckpointProvider, ...]:
        """The complete checkpoints that cannot be read."""
        suspect = (each for each in self.listing.checkpoints if each.version in self._reported)
        return tuple(each for each in suspect if not self._is_sound(each))

    def _is_sound(self, checkpoint: CheckpointProvider) -> bool:
        alone = replace(self.listing, checkpoints=(checkpoint,))
        files = ExaminedFiles(self._table_log.store, alone, read_pages=True, max_page_bytes=None)
        return files.is_start(checkpoint.version)

    @once
    def _empty(self) -> tuple[tuple[int, FileStatus], ...]:
        """The empty files of checkpoints, with their versions. Of an incomplete checkpoint, no reader opens a file."""
        found = (each for each, _ in self.listing.unusable_checkpoints if each.version in self._reported)
        return tuple((each.version, file) for each in found for file in each.files if not file.size)

    @once
    def _sound(self) -> tuple[int, ...]:
        """The versions of the complete checkpoints that can be read, descending."""
        return tuple(each.version for each in self.listing.checkpoints if each not in self._damaged)

    @once
    def _newest_damaged(self) -> int:
        """The version of the newest damaged checkpoint; -1: none.

        If the log has no sound checkpoint, one that only the hint names is written again: the version before it counts.
        """
        versions = [*(each.version for each in self._damaged), *(version for version, _ in self._empty)]
        if self._is_hint_broken and not self._sound:
            hint = self._table_log.builder.read_hint()
            named = self._latest if hint is None else min(hint.version, self._latest)
            versions.append(max(named - 1, 0))
        return max(versions, default=-1)

    @once
    def _is_hint_broken(self) -> bool:
        """Whether the hint is broken, or names a checkpoint after the newest sound one."""
        if self.condition.faults_of(ProblemKind.BROKEN_HINT):
            return True
        hint = self._table_log.builder.read_hint()
        return hint is not None and hint.version > max(self._sound, default=-1)

    @property
    def _latest(self) -> int:
        assert self.listing.latest_version is not None  # otherwise the condition is that of no table
        return self.listing.latest_version

    @property
    def _table_log(self) -> TableLog:
        return self.log.context.table_log

    def _refused(self, reason: str, advice: str) -> RepairRefusedError:
        return RepairRefusedError(path=redacted(self._table_log.table_path), reason=reason, advice=advice)
