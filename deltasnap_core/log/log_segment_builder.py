"""Hint -> listing -> LogSegment."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

from deltasnap_core.errors import DeltaTableNotFoundError, VersionNotFoundError
from deltasnap_core.log.checkpoint_provider import CheckpointProvider, EmptyCheckpointProvider
from deltasnap_core.log.log_listing import LogListing, list_log, table_path
from deltasnap_core.log.log_segment import LogSegment
from deltasnap_core.protocol.file_names import LAST_CHECKPOINT
from deltasnap_core.protocol.last_checkpoint_info import LastCheckpointInfo
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.urls import join_url

logger = logging.getLogger(__name__)

# Without a usable hint a checkpoint is looked for among so many versions below the one asked for, and only then
# from 0 on. One page of an S3 listing; writers leave a checkpoint every 10 to 100 commits.
_LOOK_BACK_VERSIONS = 1000


class LogSegmentBuilder:
    """Finds the log segments of one table; keeps nothing between two calls, so threads may share it.

    The arguments that several methods take:

    log_tail:             ratified commits that a catalog knows of, ascending without a gap, published or in
                          `_staged_commits`; they stand in for published commits of the same version.
    max_catalog_version:  the latest version of a catalog-managed table: later commits do not count, earlier ones
                          must be there. None: not catalog-managed, or no catalog to ask.
    exclude_checkpoints:  names of top-level checkpoint files found unreadable: another or an older checkpoint, or
                          the commits alone, are taken instead.
    """

    def __init__(self, store: LogStore, log_path: str) -> None:
        """`log_path`: URL of the `_delta_log` folder."""
        self.store = store
        self.log_path = log_path

    def read_hint(self) -> LastCheckpointInfo | None:
        """What `_last_checkpoint` says; None where there is none, or, with a warning, where it is broken.

        Source: PROTOCOL.md, Last Checkpoint File.
        """
        path = join_url(self.log_path, LAST_CHECKPOINT)
        try:
            content = self.store.read_bytes(path)
        except FileNotFoundError:
            return None
        try:
            return LastCheckpointInfo.parse(content)
        except ValueError as error:
            logger.warning("The broken hint %s is ignored: %s", path, error)
            return None

    def build(
        self,
        version: int | None = None,
        *,
        hint: LastCheckpointInfo | None = None,
        log_tail: Sequence[FileStatus] = (),
        max_catalog_version: int | None = None,
        exclude_checkpoints: frozenset[str] = frozenset(),
    ) -> LogSegment:
        """The segment of a version (None: the latest one), from the best checkpoint for it on.

        `hint`: with a good one the log is listed once, from there on; one that leads nowhere costs a second
        listing and a warning.

        Raises DeltaTableNotFoundError (neither commits nor a complete checkpoint), VersionNotFoundError (stating
        the versions there are), VersionGapError (naming the commits missing), ValueError (a broken log tail).
        """
        if version is not None and version < 0:
            raise ValueError(f"A version is 0 or more, not {version}")
        search = _Search(self, tuple(log_tail), max_catalog_version, exclude_checkpoints)
        start = _start_of_listing(version, None if exclude_checkpoints else hint)
        if segment := search.segment(version, first=start):
            return segment
        if hint and start == hint.version:
            logger.warning("The hint of %s leads nowhere: no checkpoint at %d or later", self.log_path, start)
        return search.segment(version) or search.refuse(version)

    def update(
        self,
        previous: LogSegment,
        *,
        keep_checkpoint: bool = False,
        log_tail: Sequence[FileStatus] = (),
        max_catalog_version: int | None = None,
        exclude_checkpoints: frozenset[str] = frozenset(),
    ) -> LogSegment:
        """The latest segment, by one listing from the checkpoint of an earlier one on.

        Equal to `previous` where nothing changed. With `keep_checkpoint` a newer checkpoint is not taken while the
        known one is still there, so that what was loaded from it stays of use. Where the log is not what it was
        (`LogSegment.continues` tells), this is the segment as it now is, of an earlier version perhaps.
        Raises as `build`.
        """
        search = _Search(self, tuple(log_tail), max_catalog_version, exclude_checkpoints)
        known = previous.checkpoint_provider
        if segment := search.segment(first=max(known.version, 0), prefer=known if keep_checkpoint else None):
            return segment
        logger.warning("The checkpoint of version %d of %s is gone", known.version, self.log_path)
        return self.build(
            hint=self.read_hint(),
            log_tail=log_tail,
            max_catalog_version=max_catalog_version,
            exclude_checkpoints=exclude_checkpoints,
        )


class _Search:
    """The listings that one call makes, all under the same conditions."""

    def __init__(
        self,
        builder: LogSegmentBuilder,
        log_tail: tuple[FileStatus, ...],
        max_catalog_version: int | None,
        exclude_checkpoints: frozenset[str],
    ) -> None:
        self._builder = builder
        self._log_tail = log_tail
        self._max_catalog_version = max_catalog_version
        self._exclude_checkpoints = exclude_checkpoints

    def segment(
        self,
        version: int | None = None,
        *,
        first: int = 0,
        prefer: CheckpointProvider | EmptyCheckpointProvider | None = None,
    ) -> LogSegment | None:
        """The segment of a version from what is listed from `first` on; None: to be looked for further down."""
        asked = self._max_catalog_version if version is None else version
        first = first if asked is None else min(first, asked)
        listing = self._list(first, asked)
        target = listing.latest_version if asked is None else asked
        if target is None:
            return None
        if not listing.has_version(target):
            self.refuse(target)
        checkpoint = _checkpoint_for(target, listing, prefer)
        if checkpoint.is_empty and first > 0:
            return None
        return LogSegment.try_new(
            log_path=listing.log_path,
            version=target,
            commits=listing.commits,
            checkpoint=checkpoint,
            compactions=listing.compactions,
            checksums=listing.checksums,
        )

    def refuse(self, version: int | None) -> NoReturn:
        """Raise for a version that is not there: what there is instead takes a listing of the whole log."""
        path = table_path(self._builder.log_path)
        listing = self._list(0, None)
        if version is None or listing.latest_version is None:
            raise DeltaTableNotFoundError(path=path)
        earliest = next(iter(listing.reconstructable_versions()), None)
        raise VersionNotFoundError(path=path, version=version, earliest=earliest, latest=listing.latest_version)

    def _list(self, first: int, last: int | None) -> LogListing:
        limits = [limit for limit in (last, self._max_catalog_version) if limit is not None]
        try:
            return list_log(
                self._builder.store,
                self._builder.log_path,
                first=first,
                last=min(limits, default=None),
                log_tail=self._log_tail,
                exclude_checkpoints=self._exclude_checkpoints,
            )
        except FileNotFoundError as error:
            raise DeltaTableNotFoundError(path=table_path(self._builder.log_path)) from error


def _start_of_listing(version: int | None, hint: LastCheckpointInfo | None) -> int:
    """The version to list from: the hint's checkpoint where it can serve, else some way below the version."""
    if hint and (version is None or hint.version <= version):
        return hint.version
    return 0 if version is None else max(version - _LOOK_BACK_VERSIONS, 0)


def _checkpoint_for(
    version: int, listing: LogListing, prefer: CheckpointProvider | EmptyCheckpointProvider | None
) -> CheckpointProvider | EmptyCheckpointProvider:
    if prefer is not None and (prefer.is_empty or (prefer in listing.checkpoints and prefer.version <= version)):
        return prefer
    return listing.best_checkpoint(version)
