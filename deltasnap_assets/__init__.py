"""The Dagster app on `deltasnap_core`: each version of each configured Delta table as a set of assets.

The code location is `deltasnap_assets.definitions:defs`. In your own project:

    from deltasnap_assets import LatestVersion, build_definitions, load_settings

The names below are resolved on first use: importing the package loads neither Dagster nor PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    import fcntl  # noqa: F401  # only systems without file locks of processes, such as Windows, do not have it
except ImportError:
    raise ImportError("deltasnap_assets runs on Linux and macOS. On Windows, use it in WSL.") from None

if TYPE_CHECKING:
    from deltasnap_assets.all_definitions import build_definitions
    from deltasnap_assets.component import DeltaTableSnapshots
    from deltasnap_assets.runs.planning.latest_version import LatestVersion
    from deltasnap_assets.settings.loading import load_settings

_MODULE_OF = {
    "DeltaTableSnapshots": "component",
    "LatestVersion": "runs.planning.latest_version",
    "build_definitions": "all_definitions",
    "load_settings": "settings.loading",
}

# Listed in full instead of taken from the mapping above, because type checkers read it.
__all__ = ["DeltaTableSnapshots", "LatestVersion", "build_definitions", "load_settings"]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
