"""SnapshotFiles: the live files of a snapshot, for a scan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame

from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.snapshot.snapshot_counts import SnapshotCounts
from deltasnap_core.snapshot.snapshot_frames import SnapshotFrames
from deltasnap_core.snapshot.state_replay import StateReplay

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """The live files of a snapshot, as `ScannedFiles`."""

    frames: SnapshotFrames
    counts: SnapshotCounts
    replay: StateReplay

    def frame(self) -> DataFrame:
        return self.frames.all_files_with_stats

    def run(self, statistics: frozenset[StatisticPath], query: Callable[[DataFrame], T]) -> T:
        return self.frames.run(lambda log: query(self.replay.files_to_query(log, statistics, self.frame)))

    def totals(self) -> tuple[int, int] | None:
        return self.counts.totals
