"""Can be imported only if Sail is installed with a PySpark that it accepts: see `constraints-sail.txt`."""

from __future__ import annotations

from importlib.metadata import version

import pysail  # noqa: F401

if not version("pyspark").startswith(("4.0.", "4.1.")):
    raise ImportError(f"Sail rejects PySpark {version('pyspark')}")
