"""Detects whether the log of a table is still the stored one, and up to which version.

The content of the log decides, never the table id alone: a restored backup keeps the id. A damaged commit proves
nothing, like a missing one: a fork begins only where a readable commit differs from the stored one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from deltasnap_core.errors import ActionNotFoundError, CorruptLogError, CorruptStoreError
from deltasnap_core.log.commits.commit_batch import LARGE_COMMIT_BYTES
from deltasnap_core.log.commits.commit_reader import digest_of, digest_of_file
from deltasnap_core.log.damaged_commit import is_damaged
from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.version_documents import DELTAS, deltas_of, last_commit_file_of
from deltasnap_core.store.versions.stored_table import StoredTable, name_of
from deltasnap_core.store.versions.stored_versions import StoredVersions


class LogRelation(Enum):
    """The relation of a table's log to its stored versions."""

    NEW = "new"
    """Nothing is stored."""
    SAME = "same"
    """The log is the stored one, perhaps with more commits, perhaps without old ones."""
    ROLLED_BACK = "rolled back"
    """The log is a prefix of the stored one: its latest versions are gone."""
    FORKED = "forked"
    """From some version on, the log has other commits than the stored ones."""
    RECREATED = "recreated"
    """The log has nothing in common with the stored versions."""


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class CommonVersion:
    """The last version that the store and the log have in common.

    version:       the last stored version that is also in the log; None: there is none. If the log was rolled back to
                   before the first stored version, the last version of the log.
    table_id:      the stored table id at that version; None: there is no such version.
    names:         the manifests of the current stored versions, ascending.
    latest_in_log: the last version of the log.
    lost:          the stored versions that the log lacks after a rollback, until it gets new commits; all of them, if
                   the table was created again and has only earlier versions. Otherwise empty.
    pruned_before: stored versions before it were pruned; 0: none. Others that are missing were lost.
    generations:   those of the current stored versions, the newest first, each with its last version that the newest
                   one shares (None: all versions).
    """

    relation: LogRelation
    version: int | None
    table_id: str | None = None
    names: tuple[ManifestName, ...] = field(default=(), repr=False)
    latest_in_log: int
    lost: VersionRanges = field(default_factory=VersionRanges)
    pruned_before: int = 0
    generations: tuple[tuple[str, int | None], ...] = field(default=(), repr=False)

    @property
    def current(self) -> tuple[int, ...]:
        """The current stored versions, ascending."""
        return tuple(name.version for name in self.names)

    @property
    def latest_stored(self) -> int | None:
        """The latest current version in the store; None: nothing is stored."""
        return self.names[-1].version if self.names else None

    @property
    def is_continued(self) -> bool:
        """Whether the log continues the stored versions; if not, the versions after `version` must be stored again."""
        return self.relation in (LogRelation.NEW, LogRelation.SAME)

    def last_shared(self, generation: str) -> int | None:
        """Return the last version that the newest generation shares with a generation, perhaps itself; None: none."""
        limits = dict(self.generations)
        if generation not in limits:
            return None
        return self.latest_in_log if (limit := limits[generation]) is None else limit

    def __str__(self) -> str:
        if self.is_continued:
            return f"the log is {self.relation.value}"
        up_to = "nothing in common" if self.version is None else f"version {self.version} in common"
        return f"the log was {self.relation.value}: {up_to}, stored up to {self.latest_stored}"


def find_common_version(
    stored: StoredTable,
    versions: StoredVersions,
    log: TableLog,
    listing: LogListing | None = None,
    held: Iterable[VersionManifest] = (),
) -> CommonVersion:
    """Return the last version that the current stored versions have in common with a log.

    If nothing changed, it reads only the newest manifest, its list of commits and its commit. If the log was
    replaced, it reads more.
    versions: all stored ones. listing: of the log, to its end; it may be older than `versions`; None: list the log.
    held:     manifests that are read already.
    Errors: DeltaTableNotFoundError, CorruptLogError.
    """
    current = versions.current
    if listing is None:
        listing = log.builder.list_versions(current[-1].version if current else 0)
    if current and listing.first > current[-1].version:
        listing = log.builder.list_versions(0)
    if current and not _reaches(listing, current[-1].version):
        # Another run may have stored commits that are newer than the listing. Only a log listed after the store is
        # known to be shorter.
        listing = log.builder.list_versions(listing.first)
    comparison = _Comparison(
        stored=stored,
        current=current,
        log=log,
        listing=listing,
        held={name_of(manifest): manifest for manifest in held},
    )
    relation, version = comparison.result()
    latest = -1 if listing.latest_version is None else listing.latest_version
    newest = versions.current_generation
    return CommonVersion(
        relation=relation,
        version=version,
        table_id=comparison.table_id(version),
        names=current,
        latest_in_log=latest,
        lost=_lost(versions, version, latest),
        pruned_before=versions.pruned_before,
        generations=() if newest is None else versions.ancestry(newest),
    )


def begin_fork(stored: StoredTable, common: CommonVersion) -> None:
    """Start a fork after a common version, as `SnapshotStore.begin_fork`, unless the store has changed since."""
    versions = stored.stored_versions()
    newest = max((name.version for name in versions.current), default=None)
    if common.version is not None and not common.is_continued and newest == common.latest_stored:
        stored.begin_fork(versions.forked_generation(common.version))


def _lost(versions: StoredVersions, common: int | None, latest: int) -> VersionRanges:
    """Return the stored versions that the log lacks, if no version can replace them yet.

    common: the last one in common. latest: the last version of the log.
    """
    current = versions.current
    ends_before_all = common is None and bool(current) and latest < current[0].version
    is_prefix = latest in (common, versions.fork_point)
    return versions.lost_after(latest) if is_prefix or ends_before_all else VersionRanges()


def is_version_of(
    manifest: VersionManifest, store: LogStore, listing: LogListing, *, verify: bool = True
) -> bool | None:
    """Return whether a stored version is the one in a listed log; None: unknown.

    A commit that differs is read, because a damaged commit proves nothing.
    verify: compare the digest of the commit. If the commit is large or its digest unknown, equal size and time suffice.
            False: compare only the size. Equal times alone prove nothing: clocks may go back, and a restore may keep
            times.
    """
    commit, stored = listing.commits.get(manifest.version), last_commit_file_of(manifest)
    if commit is None or stored is None:
        return _has_same_checkpoint(manifest, listing)
    if _is_stored_commit(manifest, store, commit, stored, verify=verify):
        return True
    return None if is_damaged(store, commit) else False


def _is_stored_commit(
    manifest: VersionManifest, store: LogStore, commit: FileStatus, stored: FileStatus, *, verify: bool
) -> bool:
    if commit.size != stored.size:
        return False
    is_same_time = commit.modification_time == stored.modification_time
    identity = None if manifest.identity is None else manifest.identity.commit
    if not verify or (is_same_time and (identity is None or commit.size > LARGE_COMMIT_BYTES)):
        return True
    return identity is not None and digest_of_commit(store, commit) == identity.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    stored: StoredTable
    current: Sequence[ManifestName]
    log: TableLog
    listing: LogListing
    held: dict[ManifestName, VersionManifest]

    def table_id(self, version: int | None) -> str | None:
        names = [name for name in self.current if name.version == version]
        return next((manifest.table_id for manifest in self._manifests(names)), None)

    def result(self) -> tuple[LogRelation, int | None]:
        """Return the relation of the log to the stored versions, and the last version in common (None: none)."""
        if not self.current:
            return LogRelation.NEW, None
        latest = -1 if self.listing.latest_version is None else self.listing.latest_version
        is_shorter = self.current[-1].version > latest
        comparable = self._comparable()
        index, same = self._newest_decided(comparable)
        if same and is_shorter:
            return LogRelation.ROLLED_BACK, comparable[index].version
        if same:
            return LogRelation.SAME, self.current[-1].version
        if same is None and not is_shorter and self._is_cleaned_up():
            return LogRelation.SAME, self.current[-1].version
        if same is None and self.current[0].version > latest and self._has_same_table_id():
            return LogRelation.ROLLED_BACK, latest
        version = None if same is None else self._last_same()
        return (LogRelation.RECREATED if version is None else LogRelation.FORKED), version

    def _comparable(self) -> list[ManifestName]:
        """Return the stored versions that have a commit or a checkpoint in the log, ascending."""
        in_log = {*self.listing.commits, *(checkpoint.version for checkpoint in self.listing.checkpoints)}
        return [name for name in self.current if name.version in in_log]

    def _newest_decided(self, names: Sequence[ManifestName]) -> tuple[int, bool | None]:
        """Return the index of the newest version that can be compared, and whether it is the same; else -1, None."""
        answers = ((index, self._is_same(names[index])) for index in reversed(range(len(names))))
        return next(((index, same) for index, same in answers if same is not None), (-1, None))

    def _last_same(self) -> int | None:
        """Return the last version that is the same in the log. All earlier ones are too, since a log only grows."""
        names, last = self._comparable(), None
        if self.listing.first and not self._is_same(names[0]):
            return replace(self, listing=self.log.builder.list_versions(0))._last_same()
        while names:
            middle = len(names) // 2
            index, same = self._newest_decided(names[: middle + 1])
            if same is False:
                names = names[:index]
            else:
                last = names[index].version if same else last
                names = names[middle + 1 :]
        return last

    def _is_same(self, name: ManifestName) -> bool | None:
        """Return whether a version and its commits, back to its checkpoint, are those of the log; None: unknown."""
        for manifest in self._manifests([name]):
            same = is_version_of(manifest, self.log.store, self.listing)
            return self._has_same_commits(manifest) if same else same
        return None

    def _has_same_commits(self, manifest: VersionManifest) -> bool:
        own, listed = last_commit_file_of(manifest), self.listing.commits
        if own is None or manifest.version not in listed:
            return True
        # If the table was copied without times, the times of all commits differ: then compare only the sizes.
        is_copied = own.modification_time != listed[manifest.version].modification_time
        changed = {
            version
            for version, (size, time) in self._deltas(manifest).items()
            if (found := listed.get(version)) is not None
            and (found.size != size or (found.modification_time != time and not is_copied))
        }
        names = [name for name in self.current if name.version in changed]
        known = {found.version: found for found in self._manifests(names)}
        return not any(self._differs(known.get(version), listed[version]) for version in changed)

    def _differs(self, stored: VersionManifest | None, commit: FileStatus) -> bool:
        """Return whether a changed commit is another one than the stored one (None: its version is not stored)."""
        if stored is None:
            return not is_damaged(self.log.store, commit)
        return is_version_of(stored, self.log.store, self.listing) is False

    def _manifests(self, names: Sequence[ManifestName]) -> list[VersionManifest]:
        missing = [name for name in names if name not in self.held]
        self.held.update({name_of(manifest): manifest for manifest in self.stored.read_sound_manifests(missing)})
        return [self.held[name] for name in names if name in self.held]

    def _deltas(self, manifest: VersionManifest) -> dict[int, tuple[int, int]]:
        try:
            return deltas_of(manifest, self.stored.read_documents([manifest], [DELTAS]))
        except (CorruptStoreError, KeyError, TypeError, ValueError):
            return {}  # reported when the version is read

    def _is_cleaned_up(self) -> bool:
        """Return whether a log without any stored version can be a later state of the stored log.

        It can if the table id is the same and all later commits have a later time. Nothing else can be compared.
        """
        for manifest in self._manifests([self.current[-1]]):
            commits = self.listing.commits.items()
            earliest = min((file.modification_time for v, file in commits if v > manifest.version), default=None)
            if earliest is not None and earliest < manifest.timestamp:
                return False
        return self._has_same_table_id() is not False

    def _has_same_table_id(self) -> bool | None:
        """Return whether the log has the stored table id; None: it is too damaged to show it."""
        for manifest in self._manifests([self.current[-1]]):
            try:
                return self.log.latest().metadata.id == manifest.table_id
            except (ActionNotFoundError, CorruptLogError):
                return None
        return False


def _reaches(listing: LogListing, version: int) -> bool:
    return listing.latest_version is not None and listing.latest_version >= version


def _has_same_checkpoint(manifest: VersionManifest, listing: LogListing) -> bool | None:
    known = {} if manifest.identity is None else manifest.identity.checkpoint_files
    for checkpoint in listing.checkpoints:
        found = {file.name: (file.size, file.modification_time) for file in checkpoint.files}
        if checkpoint.version == manifest.version and found.keys() == known.keys():
            return found == known
    return None


def digest_of_commit(store: LogStore, commit: FileStatus) -> str | None:
    """Return the SHA-256 of a commit, in hex; None: it is gone."""
    try:
        if commit.size <= LARGE_COMMIT_BYTES:
            return digest_of(store.read_bytes(commit.path))
        return digest_of_file(store, commit.path)
    except FileNotFoundError:
        return None
