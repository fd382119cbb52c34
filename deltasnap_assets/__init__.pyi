from .all_definitions import build_definitions as build_definitions
from .component import DeltaTableSnapshots as DeltaTableSnapshots
from .runs.planning.latest_version import LatestVersion as LatestVersion
from .settings.loading import load_settings as load_settings

__version__: str
