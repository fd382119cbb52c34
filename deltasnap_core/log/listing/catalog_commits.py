"""The commits that the catalog of a catalog-managed table has ratified, and the options that ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from deltasnap_core.protocol.log_files.file_names import LogFileKind, ParsedLogPath
from deltasnap_core.redaction import safe_repr
from deltasnap_core.storage.fsspec_log_store import FsspecLogStore
from deltasnap_core.storage.log_store import FileStatus, LogStore
from deltasnap_core.storage.temporary_options import TemporaryOptions

_COMMIT_KINDS = (LogFileKind.COMMIT, LogFileKind.STAGED_COMMIT)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogCommits:
    """The commits that a catalog ratified. An empty value means that no catalog was queried.

    log_tail:    ratified commits, ascending without a gap, published or in `_staged_commits`. They replace published
                 commits of the same version. Delta Kernel's `withLogData`.
    max_version: the latest version of the table. Later commits are ignored, and this version must exist. None: the
                 table is not catalog-managed, or no catalog was queried. Delta Kernel's `withMaxCatalogVersion`.
    Errors: ValueError for a log tail with a gap, or with a file that is not a commit.
    Source: PROTOCOL.md, Catalog-managed tables.
    """

    log_tail: tuple[FileStatus, ...] = ()
    max_version: int | None = None

    def __post_init__(self) -> None:
        versions = list(self.by_version())
        for earlier, later in pairwise(versions):
            if later != earlier + 1:
                raise ValueError(f"Expected a log tail without gaps, found version {later} after {earlier}")
        if len(versions) != len(self.log_tail):
            raise ValueError("The log tail has two commits of one version")

    @property
    def is_known(self) -> bool:
        """Whether a catalog was queried."""
        return bool(self.log_tail) or self.max_version is not None

    def by_version(self) -> Mapping[int, FileStatus]:
        """Return the ratified commits by version, in the order given."""
        found: dict[int, FileStatus] = {}
        for status in self.log_tail:
            parsed = ParsedLogPath.parse(status.name)
            if parsed is None or parsed.kind not in _COMMIT_KINDS:
                raise ValueError(f"Expected a commit in the log tail, found {status.name}")
            found[parsed.version] = status
        return found


NO_CATALOG = CatalogCommits()
_NEVER_MS = 1 << 62


class CatalogOptions(TemporaryOptions):
    """Storage options of a table that its catalog manages. Each listing of its log asks for the ratified commits."""

    def __init__(self, options: Mapping[str, Any], ratified: Callable[[], CatalogCommits]) -> None:
        """Create options. ratified: asks the catalog for the commits as they are now. Errors of it: CatalogError."""
        super().__init__(lambda: (options, _NEVER_MS))
        self.ratified = ratified


def ratified_by(store: LogStore) -> CatalogCommits:
    """Return the commits that the catalog of a table has ratified now, if the store asks it. Errors: CatalogError."""
    options = store.storage_options if isinstance(store, FsspecLogStore) else None
    return options.ratified() if isinstance(options, CatalogOptions) else NO_CATALOG


def asks_catalog(store: LogStore) -> bool:
    """Return whether the listings of a store have the commits that a catalog ratified."""
    return isinstance(store, FsspecLogStore) and isinstance(store.storage_options, CatalogOptions)
