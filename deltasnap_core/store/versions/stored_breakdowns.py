"""StoredBreakdowns: the FileBreakdown of versions that were requested, and of versions that follow these, as files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltasnap_core.redaction import logger_of
from deltasnap_core.rules.totals.file_breakdown import FileBreakdown
from deltasnap_core.store.format.breakdown_file import breakdown_bytes, breakdown_of
from deltasnap_core.store.format.manifest import VersionManifest
from deltasnap_core.store.versions.stored_table import StoredTable, name_of

_log = logger_of(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBreakdowns:
    """Reads and writes breakdowns. No manifest names their files: a missing one is counted again.

    Two writers of one file write the same content, and a file of another version is not read.
    """

    stored: StoredTable

    def read(self, manifest: VersionManifest) -> FileBreakdown | None:
        """Return the breakdown of a version; None: none is stored, or it cannot be read."""
        url = self.stored.breakdown_url(name_of(manifest))
        try:
            return breakdown_of(self.stored.storage.read(url), manifest)
        except FileNotFoundError:
            return None
        except ValueError as error:
            _log.warning("%s is counted again: %s", url, error)
            return None

    def write(self, manifest: VersionManifest, breakdown: FileBreakdown) -> None:
        """Store the breakdown of a version. Replaces an existing one."""
        content = breakdown_bytes(breakdown, manifest)
        if content is not None:
            self.stored.storage.write(self.stored.breakdown_url(name_of(manifest)), content)

    def remove(self, manifests: Iterable[VersionManifest]) -> None:
        """Remove the breakdowns of versions that have a later one."""
        self.stored.storage.delete(self.stored.breakdown_url(name_of(manifest)) for manifest in manifests)
