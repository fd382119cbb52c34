"""Can be imported only if Sail is installed with a PySpark that it accepts: see `constraints-sail.txt`."""

from __future__ import annotations

from deltasnap_assets.spark.connect_check import RemoteError
from deltasnap_assets.spark.sail import sail_version

try:
    sail_version()
except RemoteError as error:
    raise ImportError(str(error)) from error
