"""Whether the log of a table is still the one that was stored, and up to which version.

What the log says decides, never the table id alone: a backup restored keeps that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from deltasnap_core.errors import ActionNotFoundError, CorruptLogError, CorruptStoreError
from deltasnap_core.log.commit_batch import LARGE_COMMIT_BYTES
from deltasnap_core.log.commit_digest import digest_of, digest_of_file
from deltasnap_core.log.log_listing import LogListing
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.store.format.layout import ManifestName
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.format.version_documents import DELTAS, deltas_of, last_commit_file_of
from deltasnap_core.store.stored_table import StoredTable, name_of


class LogRelation(Enum):
    """How the log of a table stands to what is stored of it."""

    NEW = "new"
    """Nothing is stored."""
    SAME = "same"
    """The log is the one that was stored, perhaps with more commits, perhaps without old ones."""
    ROLLED_BACK = "rolled back"
    """The log is a beginning of the one that was stored: its latest versions are gone."""
    FORKED = "forked"
    """The log has other commits than those stored, from some version on."""
    RECREATED = "recreated"
    """The log has nothing in common with what is stored."""


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class CommonVersion:
    """Up to where what is stored of a table is what its log says.

    version:       the last stored version that is one of the log; None: none is.
    table_id:      the id of the table at that version, as it is stored; None: there is none such.
    in_force:      the versions that are stored and count, ascending.
    latest_in_log: the last version of the log.
    """

    relation: LogRelation
    version: int | None
    table_id: str | None = None
    in_force: tuple[int, ...] = field(default=(), repr=False)
    latest_in_log: int

    @property
    def latest_stored(self) -> int | None:
        """The last version in force in the store; None: nothing is stored."""
        return self.in_force[-1] if self.in_force else None

    @property
    def is_continued(self) -> bool:
        """Whether the log goes on from what is stored; otherwise the versions after `version` are to be stored anew."""
        return self.relation in (LogRelation.NEW, LogRelation.SAME)

    def __str__(self) -> str:
        if self.is_continued:
            return f"the log is {self.relation.value}"
        up_to = "nothing in common" if self.version is None else f"version {self.version} in common"
        return f"the log was {self.relation.value}: {up_to}, stored up to {self.latest_stored}"


def find_common_version(
    stored: StoredTable,
    in_force: Sequence[ManifestName],
    log: TableLog,
    listing: LogListing,
    held: Iterable[VersionManifest] = (),
) -> CommonVersion:
    """Return up to where the versions in force are those of a log.

    Where nothing changed that costs the newest manifest, its list of commits and its commit; only where the log is
    another one, some more of them.
    in_force: the stored versions that count, ascending. listing: of the log, to its end. held: manifests at hand.
    Errors: CorruptLogError.
    """
    if in_force and listing.first > in_force[-1].version:
        listing = log.builder.list_versions(0)
    comparison = _Comparison(
        stored=stored,
        in_force=in_force,
        log=log,
        listing=listing,
        held={name_of(manifest): manifest for manifest in held},
    )
    relation, version = comparison.result()
    return CommonVersion(
        relation=relation,
        version=version,
        table_id=comparison.table_id(version),
        in_force=tuple(name.version for name in in_force),
        latest_in_log=-1 if listing.latest_version is None else listing.latest_version,
    )


def is_version_of(
    manifest: VersionManifest, store: LogStore, listing: LogListing, *, verify: bool = True
) -> bool | None:
    """Return whether a stored version is the one that a listed log has; None: the log does not tell.

    verify: compare the digest of the commit (of one that is large or whose digest is not known, size and time);
            otherwise believe its size. A clock that went back, or a restore that kept times, makes time no proof.
    """
    commit, stored = listing.commits.get(manifest.version), last_commit_file_of(manifest)
    if commit is None or stored is None:
        return _has_same_checkpoint(manifest, listing)
    if commit.size != stored.size:
        return False
    is_same_time = commit.modification_time == stored.modification_time
    identity = None if manifest.identity is None else manifest.identity.commit
    if not verify or (is_same_time and (identity is None or commit.size > LARGE_COMMIT_BYTES)):
        return True
    return identity is not None and _digest(store, commit) == identity.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """What is stored of a table beside its log."""

    stored: StoredTable
    in_force: Sequence[ManifestName]
    log: TableLog
    listing: LogListing
    held: dict[ManifestName, VersionManifest]

    def table_id(self, version: int | None) -> str | None:
        """Return the id that the table has at a version, as it is stored."""
        names = [name for name in self.in_force if name.version == version]
        return next((manifest.table_id for manifest in self._manifests(names)), None)

    def result(self) -> tuple[LogRelation, int | None]:
        """Return how the log stands to what is stored, and the last version they have in common (None: none)."""
        if not self.in_force:
            return LogRelation.NEW, None
        latest = -1 if self.listing.latest_version is None else self.listing.latest_version
        is_shorter = self.in_force[-1].version > latest
        same = self._is_newest_same()
        if same:
            kept = max(name.version for name in self.in_force if name.version <= latest)
            return LogRelation.ROLLED_BACK if is_shorter else LogRelation.SAME, kept
        if same is None and not is_shorter and self._is_cleaned_up():
            return LogRelation.SAME, self.in_force[-1].version
        version = None if same is None else self._last_same()
        return (LogRelation.RECREATED if version is None else LogRelation.FORKED), version

    def _comparable(self) -> list[ManifestName]:
        in_log = {*self.listing.commits, *(checkpoint.version for checkpoint in self.listing.checkpoints)}
        return [name for name in self.in_force if name.version in in_log]

    def _is_newest_same(self) -> bool | None:
        """Whether the newest version that can be compared with the log is the same there; None: none can."""
        answers = (self._is_same(name) for name in reversed(self._comparable()))
        return next((answer for answer in answers if answer is not None), None)

    def _last_same(self) -> int | None:
        """Return the last version that is the same in the log: all before it are, since a log only grows."""
        if self.listing.first and not self._is_same(self._comparable()[0]):
            return replace(self, listing=self.log.builder.list_versions(0))._last_same()
        names = self._comparable()
        low, high = 0, len(names)
        while low < high:
            middle = (low + high) // 2
            if self._is_same(names[middle]):
                low = middle + 1
            else:
                high = middle
        return names[low - 1].version if low else None

    def _is_same(self, name: ManifestName) -> bool | None:
        """Whether a version and the commits before it, back to its checkpoint, are those of the log; None: unknown."""
        for manifest in self._manifests([name]):
            same = is_version_of(manifest, self.log.store, self.listing)
            return self._has_same_commits(manifest) if same else same
        return None

    def _has_same_commits(self, manifest: VersionManifest) -> bool:
        own, listed = last_commit_file_of(manifest), self.listing.commits
        if own is None or manifest.version not in listed:
            return True
        # Where the table was copied without times, those of all commits are others: sizes then have to do.
        is_copied = own.modification_time != listed[manifest.version].modification_time
        touched = []
        for version, commit in self._deltas(manifest).items():
            found = listed.get(version, commit)
            if found.size != commit.size:
                return False
            if found.modification_time != commit.modification_time and not is_copied:
                touched.append(version)
        names = [name for name in self.in_force if name.version in touched]
        known = {found.version: found for found in self._manifests(names)}
        return all(v in known and is_version_of(known[v], self.log.store, self.listing) for v in touched)

    def _manifests(self, names: Sequence[ManifestName]) -> list[VersionManifest]:
        missing = [name for name in names if name not in self.held]
        self.held.update({name_of(manifest): manifest for manifest in self.stored.read_sound_manifests(missing)})
        return [self.held[name] for name in names if name in self.held]

    def _deltas(self, manifest: VersionManifest) -> dict[int, FileStatus]:
        try:
            return deltas_of(manifest, self.stored.read_documents([manifest], [DELTAS]))
        except (CorruptStoreError, KeyError, TypeError, ValueError):
            return {}  # told where the version is read

    def _is_cleaned_up(self) -> bool:
        """Whether a log that has none of the stored versions any more can be a later state of the one stored.

        The table is the same and the commits are later: more there is not to go by.
        """
        for manifest in self._manifests([self.in_force[-1]]):
            earliest = min((file.modification_time for file in self.listing.commits.values()), default=None)
            if earliest is not None and earliest < manifest.timestamp:
                return False
            try:
                return self.log.latest().metadata.id == manifest.table_id
            except (ActionNotFoundError, CorruptLogError):
                return False
        return False


def _has_same_checkpoint(manifest: VersionManifest, listing: LogListing) -> bool | None:
    known = {} if manifest.identity is None else manifest.identity.checkpoint_files
    for checkpoint in listing.checkpoints:
        found = {file.name: (file.size, file.modification_time) for file in checkpoint.files}
        if checkpoint.version == manifest.version and found.keys() == known.keys():
            return found == known
    return None


def _digest(store: LogStore, commit: FileStatus) -> str | None:
    try:
        if commit.size <= LARGE_COMMIT_BYTES:
            return digest_of(store.read_bytes(commit.path))
        return digest_of_file(store, commit.path)
    except FileNotFoundError:
        return None
