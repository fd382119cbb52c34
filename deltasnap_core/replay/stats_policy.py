"""StatsPolicy: which statistics of files are read. No Spark."""

from __future__ import annotations

from enum import Enum


class StatsPolicy(Enum):
    """Which statistics of files are read. They are by far the largest column of most logs.

    ALL:         every action with all its fields, as in the log.
    NUM_RECORDS: only the fields that the measures need; `stats` is read only for the number of records.
    NONE:        every action, with `stats` null.
    """

    ALL = "all"
    NUM_RECORDS = "num_records"
    NONE = "none"
