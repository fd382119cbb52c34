"""The public names of `deltasnap_assets`, under the import name that users of Dagster expect."""

from __future__ import annotations

from deltasnap_assets import DeltaTableSnapshots, LatestVersion, __version__, build_definitions, load_settings

__all__ = ["DeltaTableSnapshots", "LatestVersion", "__version__", "build_definitions", "load_settings"]
