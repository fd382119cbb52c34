"""DailyRows: the rows that the commits of a log added, by days of 24 hours before a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from deltasnap_core.log.commits.commit_reader import COMMITS_AT_ONCE, read_commits
from deltasnap_core.storage.log_store import FileStatus, LogStore

_DAY_MS = 24 * 3_600_000
_FILE = ["commit_version", "path"]


@dataclass(frozen=True, repr=False, kw_only=True)
class DailyRows:
    """The rows that commits added in days of 24 hours before a time. Day 0 ends then, day 1 a day before.

    commits, times_ms: the commits of a log with their times (ms since the epoch), by version.
    """

    store: LogStore
    commits: Mapping[int, FileStatus]
    times_ms: Mapping[int, int]
    now_ms: int

    @property
    def whole_days(self) -> int:
        """The number of days since the first commit that the log still has."""
        return max((self.now_ms - min(self.times_ms.values(), default=self.now_ms)) // _DAY_MS, 0)

    def of(self, day: int) -> int | None:
        """Return the rows that commits added in a day; None: a file does not state its number of rows.

        The added files of a commit count if the commit changes data: those of OPTIMIZE do not. Nor does a file that its
        commit only gives another deletion vector. Reads the commits of the day. Errors: CorruptLogError, StorageError.
        """
        last = self.now_ms - day * _DAY_MS
        versions = [version for version, time in self.times_ms.items() if last - _DAY_MS < time <= last]
        total = 0
        for start in range(0, len(versions), COMMITS_AT_ONCE):
            batch = read_commits(self.store, [self.commits[v] for v in versions[start : start + COMMITS_AT_ONCE]])
            changing = pa.array([commit.version for commit in batch.commits if commit.has_data_change], pa.int64())
            if (measures := batch.measures) is None:
                return None
            of_data = measures.filter(pc.is_in(measures["commit_version"], changing))
            is_removed = of_data["deleted_at"].is_valid()
            removed, added = of_data.filter(is_removed), of_data.filter(pc.invert(is_removed))
            added = added.join(removed.select(_FILE), _FILE, join_type="left anti")
            if added["records"].null_count:
                return None
            total += pc.sum(added["records"]).as_py() or 0
        return total
