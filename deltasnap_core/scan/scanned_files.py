"""ScannedFiles: the files that a scan selects from, for any source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame

from deltasnap_core.rules.statistics_schema import StatisticPath

T = TypeVar("T")


class Asking(Protocol):
    """Runs a query over the files. A file that Spark cannot read raises CorruptLogError or CorruptStoreError.

    statistics: those that the query reads. The frame has the columns of AddFile, and perhaps PARSED (`chosen_files`).
    """

    def __call__(self, statistics: frozenset[StatisticPath], query: Callable[[DataFrame], T], /) -> T: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedFiles:
    """The files of a table.

    frame:  returns them as a DataFrame for the caller, with the columns of AddFile.
    ask:    runs a query over them.
    totals: returns their number and bytes; None: unknown without a query.
    """

    frame: Callable[[], DataFrame]
    ask: Asking
    totals: Callable[[], tuple[int, int] | None]
