"""The Dagster app over `deltasnap_core`: each version of each tracked Delta table as a set of assets.

The code location is `deltasnap_assets.definitions:defs`.
"""

from __future__ import annotations
