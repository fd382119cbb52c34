"""ScannedFiles: the files that a scan chooses from, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasnap_core.log.value_ranges import ValueRange
from deltasnap_core.replay.chosen_adds import Accepting
from deltasnap_core.rules.statistics_schema import StatisticPath

T = TypeVar("T")


class Asking(Protocol):
    """Runs a query over the files, and tells what Spark cannot read of them as CorruptLogError or CorruptStoreError.

    statistics: which the query asks for. The frame has the columns of AddFile, or with PARSED as chosen_files takes it.
    """

    def __call__(self, statistics: frozenset[StatisticPath], query: Callable[[DataFrame], T], /) -> T: ...


class Choosing(Protocol):
    """Finds, in this process, files by partition values and ranges of values: `chosen_adds`. None: Spark is to."""

    def __call__(
        self, *, partitions: Sequence[str], accepting: Accepting, fields: Sequence[str], ranges: Sequence[ValueRange]
    ) -> pa.Table | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFiles:
    """Files of a table.

    frame:  gives them as a frame to hand out, with the columns of AddFile.
    ask:    runs a query over them.
    choose: finds some of them without Spark; None: nothing here does.
    totals: tells how many there are and their bytes; is told whether to look at them where that is not known, and gives
            None where it may not.
    """

    frame: Callable[[], DataFrame]
    ask: Asking
    choose: Choosing | None = None
    totals: Callable[[bool], tuple[int, int] | None] = lambda _: None
