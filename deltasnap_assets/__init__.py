"""The Dagster app on `deltasnap_core`: each version of each configured Delta table as a set of assets.

The code location is `deltasnap_assets.definitions:defs`. In your own project:

    from deltasnap_assets import LatestVersion, build_definitions, load_settings

The public names are in `__init__.pyi`. They are imported on first use: importing the package loads neither Dagster nor
PySpark.
"""

from __future__ import annotations

import lazy_loader

from deltasnap_core import __version__ as __version__

try:
    import fcntl  # noqa: F401  # only systems without file locks of processes, such as Windows, do not have it
except ImportError:
    raise ImportError("deltasnap_assets runs on Linux and macOS. On Windows, use it in WSL.") from None

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
