"""Reads the checkpoints and commits of a log to find out which of them are damaged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from deltasnap_core.errors import CorruptLogError, DeltaSnapError, StorageError, UnsupportedProtocolError
from deltasnap_core.log.checkpoints.checkpoint_contents import CheckpointContents, has_negative_numbers, open_checkpoint
from deltasnap_core.log.checkpoints.checkpoint_pages import page_bytes, read_every_page
from deltasnap_core.log.checksum_validation import read_checksum
from deltasnap_core.log.commits.commit_batch import EMPTY_BATCH, CommitBatch
from deltasnap_core.log.commits.commit_reader import COMMITS_AT_ONCE, read_commits
from deltasnap_core.log.condition.commit_findings import CommitFindings
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_listing import LogListing, table_path
from deltasnap_core.log.non_file_actions import NonFileActions, load_non_file_actions
from deltasnap_core.log.protocol_checks import check_no_manifest_commits
from deltasnap_core.once import once
from deltasnap_core.protocol.log_files.file_names import commit_version
from deltasnap_core.protocol.state.version_checksum import VersionChecksum
from deltasnap_core.storage.log_store import FileStatus, LogStore

_ROUNDED_MS = 1000
"""Some storages report times in milliseconds in a listing, but in seconds otherwise."""


class ExaminedFiles:
    """The files of a listed log that were read so far.

    latest: the latest version of the listing.
    broken: the checkpoints that cannot be read, and why. broken_commits: the versions of commits that cannot be read.
    states: the non-file actions of sound checkpoints, by version.
    names:  of the files of all checkpoints that were read.
    negative: the versions of sound checkpoints with a negative size or number of rows.
    counted: the newest sound checkpoint, and the number of its files; None: its pages were not read.
    replaced: the newest sound checkpoint, if its file is no longer the listed one; None: it is.
    """

    def __init__(self, store: LogStore, listing: LogListing, *, read_pages: bool, max_page_bytes: int | None) -> None:
        """Read nothing yet.

        read_pages: whether to read every page of the newest checkpoint. It becomes False if the checkpoint is larger
        than `max_page_bytes` (None: no limit).
        """
        self._store = store
        self._max_page_bytes = max_page_bytes
        self.read_pages = read_pages
        self.listing = listing
        assert listing.latest_version is not None
        self.latest = listing.latest_version
        self.broken: dict[CheckpointProvider, DeltaSnapError] = {}
        self.broken_commits: Collection[int] = ()
        self.states: dict[int, NonFileActions] = {}
        self.names: list[str] = []
        self.negative: set[int] = set()
        self.counted: tuple[CheckpointProvider, int] | None = None
        self.replaced: CheckpointProvider | None = None

    @once
    def checkpoint(self) -> CheckpointProvider | None:
        """The newest sound checkpoint; None: there is none. Read on first use."""
        return self.newest_sound_checkpoint(self.latest)

    @property
    def start(self) -> int:
        """The version after which a load reads commits; -1: it reads all."""
        return -1 if self.checkpoint is None else self.checkpoint.version

    def newest_sound_checkpoint(self, version: int) -> CheckpointProvider | None:
        """Return the newest sound checkpoint up to a version. Reads checkpoints, newest first, until one is sound."""
        found = (each for each in self.listing.checkpoints if each.version <= version)
        return next((each for each in found if self._is_sound(each)), None)

    def _is_sound(self, provider: CheckpointProvider) -> bool:
        """Read a checkpoint, and return whether it is sound. Every page is read only of the newest one."""
        if provider in self.broken or provider.version in self.states:
            return provider not in self.broken
        self.names += [file.name for file in provider.files]
        try:
            contents = open_checkpoint(self._store, provider, self.listing.log_path)
            state = load_non_file_actions(self._store, contents, EMPTY_BATCH)
            is_negative = has_negative_numbers(contents)
            if not self.states:
                self.read_pages = self.read_pages and self._is_within_limit(contents)
            if self.read_pages and not self.states:
                num_files, has_negative_number = read_every_page(self._store, contents)
                is_negative |= has_negative_number
                self.counted = provider, num_files
            if not self.states and self._is_replaced(provider.files[0]):
                self.replaced = provider
        except (CorruptLogError, StorageError) as error:
            self.broken[provider] = error
            return False
        self.states[provider.version] = state
        if is_negative:
            self.negative.add(provider.version)
        return True

    def _is_within_limit(self, contents: CheckpointContents) -> bool:
        return self._max_page_bytes is None or page_bytes(contents) <= self._max_page_bytes

    def _is_replaced(self, listed: FileStatus) -> bool:
        found = self._store.status(listed.path)
        if found is None or found.size != listed.size:
            return True
        return abs(found.modification_time - listed.modification_time) >= _ROUNDED_MS

    def is_start(self, version: int) -> bool:
        """Return whether a version has a sound checkpoint."""
        return any(self._is_sound(each) for each in self.listing.checkpoints if each.version == version)

    def refused(self, version: int) -> StorageError | None:
        """Return why the storage refused a checkpoint. A load then raises, and does not fall back to an older one."""
        found = (error for provider, error in self.broken.items() if provider.version == version)
        return next((error for error in found if isinstance(error, StorageError)), None)

    def read_checksum(self) -> VersionChecksum | None:
        """Return the checksum of the latest version; None: there is none, or it is not usable."""
        return read_checksum(self._store, self.listing.checksums.get(self.latest))

    def read_commits_from(self, first: int, known: CommitFindings) -> CommitFindings:
        """Read the commits from a version on, except those that are known. Known ones of this listing count too."""
        found = CommitFindings(sound=known.sound, newest_sound=known.newest_sound)
        found.merge(known, self.listing.commits)
        listed = {commit_version(commit.path): commit for commit in self.listing.commits_between(first, self.latest)}
        wanted = [commit for v, commit in listed.items() if v not in known.sound and v not in found.versions]
        for place in range(0, len(wanted), COMMITS_AT_ONCE):
            commits = wanted[place : place + COMMITS_AT_ONCE]
            try:
                found.add(_batch_of(self._store, commits, table_path(self.listing.log_path)))
            except (CorruptLogError, StorageError, UnsupportedProtocolError):
                self._read_one_by_one(commits, found)
        self.broken_commits = found.broken.keys()
        return found

    @property
    def is_suspect(self) -> bool:
        """Whether a file could not be read, or the newest sound checkpoint was replaced."""
        return bool(self.broken or self.broken_commits or self.replaced)

    def has_outdated(self, now: LogListing) -> bool:
        """Return whether a suspect file is gone, or another file, in a later listing."""
        commits = any(now.commits.get(version) != self.listing.commits.get(version) for version in self.broken_commits)
        suspect = [*self.broken, *([] if self.replaced is None else [self.replaced])]
        return commits or any(provider not in now.checkpoints for provider in suspect)

    def _read_one_by_one(self, commits: Iterable[FileStatus], found: CommitFindings) -> None:
        for commit in commits:
            try:
                found.add(_batch_of(self._store, [commit], table_path(self.listing.log_path)))
            except (CorruptLogError, StorageError, UnsupportedProtocolError) as error:
                version = commit_version(commit.path)
                found.versions.add(version)
                found.broken[version] = error


def _batch_of(store: LogStore, commits: Sequence[FileStatus], table: str) -> CommitBatch:
    """Return the content of commits.

    Errors: every error that prevents storing a version, except for a missing in-commit timestamp.
    """
    batch = read_commits(store, commits)
    check_no_manifest_commits(batch, table)
    return batch
