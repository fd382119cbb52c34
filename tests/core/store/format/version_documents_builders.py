"""Builders for the tests of version documents."""

from __future__ import annotations

from deltasnap_core.store.format.manifest import DataSet, VersionManifest
from tests.builders import LOG_PATH
from tests.core.store.manifests import GENERATION


def manifest_of(version: int) -> VersionManifest:
    return VersionManifest(
        table="events",
        version=version,
        generation=GENERATION,
        table_id="table-id",
        log_path=LOG_PATH,
        timestamp=version,
        min_file_retention_timestamp=0,
        base=DataSet(first=version, last=version, files=()),
    )
