"""ScannedFiles: the files that a scan chooses from, wherever they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame

from deltasnap_core.replay.statistics_schema import StatisticPath

T = TypeVar("T")


class Asking(Protocol):
    """Runs a query over the files, and tells what Spark cannot read of them as CorruptLogError or CorruptStoreError.

    statistics: which the query asks for. The frame has the columns of AddFile, or with PARSED as chosen_files takes it.
    """

    def __call__(self, statistics: frozenset[StatisticPath], query: Callable[[DataFrame], T], /) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFiles:
    """Files of a table.

    frame:  gives them as a frame to hand out, with the columns of AddFile.
    ask:    runs a query over them.
    totals: gives how many there are and their bytes; None: not known without a look at them.
    """

    frame: Callable[[], DataFrame]
    ask: Asking
    totals: Callable[[], tuple[int, int] | None] = lambda: None
