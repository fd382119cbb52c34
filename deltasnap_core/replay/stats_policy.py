"""StatsPolicy: how much of the statistics of files is read. No Spark."""

from __future__ import annotations

from enum import Enum


class StatsPolicy(Enum):
    """What of the statistics of files is read: the largest column of most logs by far.

    ALL:         every action whole, as the log has it.
    NUM_RECORDS: no more of each action than the digest is made of; `stats` then holds the number of records alone.
    NONE:        every action, with `stats` null.
    """

    ALL = "all"
    NUM_RECORDS = "num_records"
    NONE = "none"
