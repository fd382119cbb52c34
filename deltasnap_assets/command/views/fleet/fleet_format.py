"""The formats of `deltasnap fleet`. Loads nothing: the help of the command needs it."""

from __future__ import annotations

from enum import StrEnum


class FleetFormat(StrEnum):
    """How to print a fleet."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PROMETHEUS = "prometheus"
