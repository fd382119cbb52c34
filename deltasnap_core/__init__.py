"""deltasnap_core: reads Delta Lake transaction logs with plain PySpark.

    from deltasnap_core import DeltaLog

    log = DeltaLog.for_table(spark, "/data/events")
    log.snapshot.all_files, log.get_snapshot_at(version=12).computed_state, log.history.get_history(limit=10)

The documented names are in `__init__.pyi`. They are imported on first use: importing the package, or one of its pure
modules, does not load PySpark. The errors are in `deltasnap_core.errors`.
"""

from __future__ import annotations

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
