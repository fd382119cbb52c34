"""The versions that a cleanup of the log would make unreadable. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from deltasnap_core.log.listing.log_listing import LogListing
from deltasnap_core.protocol.properties.table_config import expired_log_cleanup_enabled, log_retention_ms
from deltasnap_core.ranges import VersionRanges

_DAY_MS = 24 * 3600 * 1000


def cleanup_orphans(listing: LogListing, configuration: Mapping[str, str], now_ms: int) -> VersionRanges:
    """Return the loadable versions within the retention that lose their base if the log is cleaned up now.

    A writer cleans up when it has written a checkpoint, whatever its version. Until Delta Lake 4.0.0 it deletes commits
    and checkpoints in order of their versions, up to the first one that is not older than `delta.logRetentionDuration`
    before midnight (UTC). The versions from there up to the next checkpoint then have no base.

    listing: of the whole log. configuration: of the latest version.
    Source: Delta's `MetadataCleanup`, `BufferingLogDeletionIterator`.
    """
    if not expired_log_cleanup_enabled(configuration):
        return VersionRanges()
    cutoff = (now_ms - log_retention_ms(configuration)) // _DAY_MS * _DAY_MS
    first = _first_kept(listing, cutoff)
    base = min((each.version for each in listing.checkpoints if each.version >= first), default=None)
    loadable = listing.reconstructable_versions()
    if first == min(loadable, default=first):
        return VersionRanges()  # nothing is deleted
    return VersionRanges.of(version for version in loadable if first <= version and (base is None or version < base))


def _first_kept(listing: LogListing, cutoff_ms: int) -> int:
    """Return the version of the first file that is kept; after the latest version: none is."""
    checkpoints: dict[int, int] = {}
    for each in listing.checkpoints:
        newest = max(file.modification_time for file in each.files)
        checkpoints[each.version] = max(newest, checkpoints.get(each.version, newest))
    versions, time = sorted({*listing.commits, *checkpoints}), -1
    for version in versions:
        if (commit := listing.commits.get(version)) is not None:
            time = max(time + 1, commit.modification_time)  # times of commits increase
        if max(time, checkpoints.get(version, time)) > cutoff_ms:
            return version
    return versions[-1] + 1 if versions else 0
