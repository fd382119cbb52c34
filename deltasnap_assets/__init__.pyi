from .all_definitions import build_definitions as build_definitions
from .component import (
    DeltaTableAsset as DeltaTableAsset,
    DeltaTableSnapshots as DeltaTableSnapshots,
    DeltaTableSnapshotsComponent as DeltaTableSnapshotsComponent,
)
from .runs.planning.partitions import LatestVersion as LatestVersion
from .settings.loading import load_settings as load_settings
from .tables.assets.time_window import versions_of_time_window as versions_of_time_window
from .tables.checks.expectation_check import expectation_check as expectation_check

__version__: str
