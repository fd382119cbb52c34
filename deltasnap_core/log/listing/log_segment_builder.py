"""Builds log segments: reads the hint, lists the log, and returns a LogSegment."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import NoReturn

from deltasnap_core.errors import DeltaTableNotFoundError, NoFilesystemError, VersionNotFoundError
from deltasnap_core.log.listing.catalog_commits import NO_CATALOG, CatalogCommits
from deltasnap_core.log.listing.checkpoint_provider import CheckpointProvider
from deltasnap_core.log.listing.log_listing import LogListing, list_log, table_path
from deltasnap_core.log.listing.log_segment import LogSegment
from deltasnap_core.protocol.log_files.file_names import LAST_CHECKPOINT
from deltasnap_core.protocol.log_files.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.ranges import VersionRanges
from deltasnap_core.redaction import logger_of, redacted
from deltasnap_core.storage.log_store import LogStore
from deltasnap_core.storage.urls import join_url

_log = logger_of(__name__)

# Without a usable hint, a checkpoint is searched for in this many versions below the requested one, and only then from
# 0. This is one page of an S3 listing; writers create a checkpoint every 10 to 100 commits.
_LOOK_BACK_VERSIONS = 1000

# The largest part of a hint is the schema of the checkpoint. A larger file is not a hint.
_MAX_HINT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True, repr=False)
class LogSegmentBuilder:
    """Builds the log segments of one table. It stores nothing between calls, so threads may share it.

    log_path:            URL of the `_delta_log` folder.
    catalog:             the commits of the catalog of a catalog-managed table.
    exclude_checkpoints: names of top-level checkpoint files that are unreadable. Another or an older checkpoint, or the
                         commits alone, are used instead.
    """

    store: LogStore
    log_path: str
    catalog: CatalogCommits = field(default=NO_CATALOG, kw_only=True)
    exclude_checkpoints: frozenset[str] = field(default=frozenset(), kw_only=True)

    def read_hint(self) -> LastCheckpointInfo | None:
        """Return the parsed `_last_checkpoint`; None: it is missing, or not usable (with a warning).

        A broken hint never stops a load: a broken or too large file, a folder, a FIFO or a file that the storage
        refuses counts as missing.
        Errors: NoFilesystemError, because then no file of the log can be read.
        Source: PROTOCOL.md, Last Checkpoint File. Delta's `getCheckpointInfo`, `readLastCheckpointFile`.
        """
        try:
            return self.parse_hint()
        except FileNotFoundError:
            return None
        except NoFilesystemError:
            raise  # no file of the log can be read
        except (OSError, ValueError) as error:
            path = join_url(self.log_path, LAST_CHECKPOINT)
            _log.warning("The hint %s is ignored: %s", redacted(path), error)
            return None

    def parse_hint(self) -> LastCheckpointInfo:
        """Return the parsed `_last_checkpoint`. Errors: FileNotFoundError; StorageError; ValueError if it is broken.

        `read_hint` is the version with a fallback.
        """
        with self.store.open(join_url(self.log_path, LAST_CHECKPOINT)) as file:
            content = file.read(_MAX_HINT_BYTES + 1)
        if len(content) > _MAX_HINT_BYTES:
            raise ValueError(f"expected {_MAX_HINT_BYTES} bytes at most")
        return LastCheckpointInfo.parse(content)

    def build(
        self,
        version: int | None = None,
        *,
        hint: LastCheckpointInfo | None = None,
        checkpoint_version: int | None = None,
    ) -> LogSegment:
        """Return the segment of a version (None: the latest), from the best checkpoint for it.

        hint: the result of `read_hint`. With a valid hint, the log is listed once, from its checkpoint on. A wrong
              hint, as after a rollback, costs a second listing and a warning.
        checkpoint_version: of a checkpoint to list from without a hint.
        Errors: DeltaTableNotFoundError (neither commits nor a complete checkpoint), VersionNotFoundError (stating the
        existing versions), VersionGapError (naming the missing commits), StorageError.
        Delta's `getLogSegmentForVersion`, `getSnapshotAtInit`.
        """
        if version is not None:
            check_versions(version)
        hinted = hint.version if hint else checkpoint_version
        start = _start_of_listing(self.catalog.max_version if version is None else version, hinted)
        if segment := self._segment(version, first=start):
            return segment
        if start == hinted:
            path = redacted(self.log_path)
            _log.warning("The hint in %s is ignored: there is no checkpoint at version %d or later", path, start)
        return self._segment(version) or self._raise_not_found(version)

    def update(self, previous: LogSegment, *, keep_checkpoint: bool = False) -> LogSegment:
        """Return the latest segment, from one listing that starts at the checkpoint of an earlier segment.

        The result equals `previous` if nothing changed. If the log was rewritten (`LogSegment.continues` detects this),
        the result is the segment of the log as it is now, perhaps of an earlier version.
        keep_checkpoint: keep the known checkpoint while it exists, so that its loaded data stays valid.
        Errors: as `build`. Delta's `getUpdatedLogSegment`.
        """
        known = previous.checkpoint_provider
        start = _start_of_listing(self.catalog.max_version, max(known.version, 0))
        if segment := self._segment(first=start, prefer=known if keep_checkpoint else None):
            return segment
        path = redacted(self.log_path)
        _log.warning("The checkpoint of version %d of %s is gone", known.version, path)
        return self.build(hint=self.read_hint())

    def list_versions(self, first: int, last: int | None = None) -> LogListing:
        """Return a listing from which every version from first to last (None: the latest) can be built.

        It starts at a checkpoint not after `first`, or at version 0. It takes one listing, or two if there is no recent
        checkpoint.
        Errors: DeltaTableNotFoundError if there is neither a commit nor a checkpoint; StorageError.
        """
        check_versions(first)
        start = _start_of_listing(first, None)
        listing = self._list(start, last)
        if start > 0 and listing.best_checkpoint(first).is_empty:
            listing = self._list(0, last)
        if listing.latest_version is None:
            raise DeltaTableNotFoundError(path=table_path(self.log_path))
        return listing

    def segment_of(self, listing: LogListing, version: int) -> LogSegment:
        """Return the segment of a version from a listing of `list_versions`. Errors: as `build`."""
        if not listing.has_version(version):
            self._raise_not_found(version)
        return LogSegment.from_listing(listing, version)

    def _segment(
        self, version: int | None = None, *, first: int = 0, prefer: CheckpointProvider | None = None
    ) -> LogSegment | None:
        """Return the segment of a version from a listing that starts at `first`; None: list from an earlier version."""
        wanted = self.catalog.max_version if version is None else version
        first = first if wanted is None else min(first, wanted)
        listing = self._list(first, wanted)
        target = listing.latest_version if wanted is None else wanted
        if target is None:
            return None
        if not listing.has_version(target):
            self._raise_not_found(target)
        checkpoint = _checkpoint_for(target, listing, prefer)
        if checkpoint.is_empty and first > 0:
            return None
        return LogSegment.from_listing(listing, target, checkpoint)

    def _raise_not_found(self, version: int | None) -> NoReturn:
        """Raise the error for a version that does not exist. Lists the whole log to state the existing versions."""
        path = table_path(self.log_path)
        listing = self._list(0, None)
        if version is None or listing.latest_version is None:
            raise DeltaTableNotFoundError(path=path)
        versions = listing.reconstructable_versions()
        raise VersionNotFoundError(
            path=path,
            version=version,
            earliest=next(iter(versions), None),
            latest=listing.latest_version,
            available=VersionRanges.of(versions).text() if versions else None,
        )

    def _list(self, first: int, last: int | None) -> LogListing:
        """Return the log files of the versions first to last. Errors: DeltaTableNotFoundError."""
        try:
            listing = list_log(self.store, self.log_path, first=first, last=last, catalog=self.catalog)
        except FileNotFoundError as error:
            raise DeltaTableNotFoundError(path=table_path(self.log_path)) from error
        return listing.without_checkpoints(self.exclude_checkpoints)


def check_versions(*versions: object) -> None:
    """Raise ValueError unless each argument is a version: an integer of 0 or more."""
    for version in versions:
        if not (isinstance(version, Integral) and int(version) >= 0):
            raise ValueError(f"Expected a version of 0 or more, found {version!r}")


def _start_of_listing(version: int | None, checkpoint: int | None) -> int:
    """Return the version to list from: that of the known checkpoint if usable, otherwise 1000 below the version."""
    if checkpoint is not None and (version is None or checkpoint <= version):
        return checkpoint
    return 0 if version is None else max(version - _LOOK_BACK_VERSIONS, 0)


def _checkpoint_for(version: int, listing: LogListing, prefer: CheckpointProvider | None) -> CheckpointProvider:
    if prefer is not None and (prefer.is_empty or prefer in listing.checkpoints):
        return prefer
    return listing.best_checkpoint(version)
