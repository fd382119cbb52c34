"""Whether the log of a table is still the one that was stored, and up to which version.

What the log says decides, never the table id alone: a backup restored keeps that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from deltasnap_core.errors import ActionNotFoundError, CorruptLogError
from deltasnap_core.log.commit_batch import LARGE_COMMIT_BYTES
from deltasnap_core.log.commit_digest import digest_of, digest_of_file
from deltasnap_core.log.log_listing import LogListing
from deltasnap_core.log.log_range import list_range
from deltasnap_core.log.table_log import TableLog
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.store.layout import ManifestName
from deltasnap_core.store.manifest import VersionManifest
from deltasnap_core.store.stored_table import StoredTable
from deltasnap_core.store.version_documents import last_commit_file_of


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonVersion:
    """Up to where what is stored of a table is what its log says.

    version:       the last stored version that is one of the log; None: none is.
    latest_stored: the last version in force in the store; None: nothing is stored.
    latest_in_log: the last version of the log.
    """

    relation: LogRelation
    version: int | None
    latest_stored: int | None
    latest_in_log: int

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
    stored: StoredTable, in_force: Sequence[ManifestName], log: TableLog, listing: LogListing
) -> CommonVersion:
    """Return up to where the versions in force are those of a log.

    Where nothing changed that costs one manifest; where the files' times did, as by copying the table, one commit
    more; only where the log is another one, some more of both.
    in_force: the stored versions that count, ascending. listing: of the log, to its end.
    Errors: CorruptLogError.
    """
    latest = listing.latest_version if listing.latest_version is not None else -1

    def common(relation: LogRelation, version: int | None) -> CommonVersion:
        newest = in_force[-1].version if in_force else None
        return CommonVersion(relation=relation, version=version, latest_stored=newest, latest_in_log=latest)

    if not in_force:
        return common(LogRelation.NEW, None)
    if listing.first > in_force[-1].version:
        listing = list_range(log.builder, 0)
    told = {*listing.commits, *(checkpoint.version for checkpoint in listing.checkpoints)}
    comparable = [name for name in in_force if name.version in told]
    newest, same = _newest_comparable(stored, comparable, log.store, listing)
    is_shorter = in_force[-1].version > latest
    if same:
        kept = max(name.version for name in in_force if name.version <= latest)
        return common(LogRelation.ROLLED_BACK if is_shorter else LogRelation.SAME, kept)
    if newest is None:
        if not is_shorter and _is_cleaned_up(stored, in_force[-1], log, listing):
            return common(LogRelation.SAME, in_force[-1].version)
        return common(LogRelation.RECREATED, None)
    if listing.first and not _is_same(stored, comparable[0], log.store, listing):
        listing = list_range(log.builder, 0)
        comparable = [name for name in in_force if listing.has_version(name.version)]
    version = _last_same(stored, comparable, log.store, listing)
    return common(LogRelation.RECREATED if version is None else LogRelation.FORKED, version)


def is_version_of(
    manifest: VersionManifest, store: LogStore, listing: LogListing, *, verify: bool = True
) -> bool | None:
    """Return whether a stored version is the one that a listed log has; None: the log does not tell.

    verify: where size alone speaks for it, compare the digest of the commit; otherwise believe it.
    """
    commit, stored = listing.commits.get(manifest.version), last_commit_file_of(manifest)
    if commit is None or stored is None:
        return _has_same_checkpoint(manifest, listing)
    if commit.size != stored.size:
        return False
    if commit.modification_time == stored.modification_time or not verify:
        return True
    identity = None if manifest.identity is None else manifest.identity.commit
    return identity is not None and _digest(store, commit) == identity.digest


def _newest_comparable(
    stored: StoredTable, names: Sequence[ManifestName], store: LogStore, listing: LogListing
) -> tuple[ManifestName | None, bool]:
    """Return the newest version that can be compared with the log, and whether it is the same there."""
    for name in reversed(names):
        same = _is_same(stored, name, store, listing)
        if same is not None:
            return name, same
    return None, False


def _last_same(stored: StoredTable, names: Sequence[ManifestName], store: LogStore, listing: LogListing) -> int | None:
    """Return the last version that is the same in the log: all before it are, since a log only grows."""
    low, high = 0, len(names)
    while low < high:
        middle = (low + high) // 2
        if _is_same(stored, names[middle], store, listing):
            low = middle + 1
        else:
            high = middle
    return names[low - 1].version if low else None


def _is_same(stored: StoredTable, name: ManifestName, store: LogStore, listing: LogListing) -> bool | None:
    for manifest in stored.read_sound_manifests([name]):
        return is_version_of(manifest, store, listing)
    return None


def _has_same_checkpoint(manifest: VersionManifest, listing: LogListing) -> bool | None:
    known = {} if manifest.identity is None else manifest.identity.checkpoint_files
    for checkpoint in listing.checkpoints:
        found = {file.name: (file.size, file.modification_time) for file in checkpoint.files}
        if checkpoint.version == manifest.version and found.keys() == known.keys():
            return found == known
    return None


def _is_cleaned_up(stored: StoredTable, newest: ManifestName, log: TableLog, listing: LogListing) -> bool:
    """Whether a log that has none of the stored versions any more can be a later state of the one stored.

    The table is the same and the commits are later: more there is not to go by.
    """
    for manifest in stored.read_sound_manifests([newest]):
        earliest = min((file.modification_time for file in listing.commits.values()), default=None)
        if earliest is not None and earliest < manifest.timestamp:
            return False
        try:
            return log.latest().metadata.id == manifest.table_id
        except (ActionNotFoundError, CorruptLogError):
            return False
    return False


def _digest(store: LogStore, commit: FileStatus) -> str | None:
    try:
        if commit.size <= LARGE_COMMIT_BYTES:
            return digest_of(store.read_bytes(commit.path))
        return digest_of_file(store, commit.path)
    except FileNotFoundError:
        return None
