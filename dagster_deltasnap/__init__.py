"""The public names of `deltasnap_assets`, under the import name that users of Dagster expect."""

from __future__ import annotations

from deltasnap_assets import (
    DeltaTableAsset,
    DeltaTableSnapshots,
    DeltaTableSnapshotsComponent,
    LatestVersion,
    __version__,
    build_definitions,
    expectation_check,
    load_settings,
    versions_of_time_window,
)

__all__ = [
    "DeltaTableAsset",
    "DeltaTableSnapshots",
    "DeltaTableSnapshotsComponent",
    "LatestVersion",
    "__version__",
    "build_definitions",
    "expectation_check",
    "load_settings",
    "versions_of_time_window",
]
