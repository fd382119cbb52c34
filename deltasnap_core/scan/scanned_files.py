"""ScannedFiles: the files that a scan selects from, for any source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from pyspark.sql import DataFrame

from deltasnap_core.rules.texts.statistics_schema import StatisticPath

T = TypeVar("T")


class ScannedFiles(Protocol):
    """The files of a table."""

    def frame(self) -> DataFrame:
        """Return the files as a DataFrame for the caller, with the columns of AddFile."""

    def run(self, statistics: frozenset[StatisticPath], query: Callable[[DataFrame], T]) -> T:
        """Return the result of a query over the files.

        The query gets a DataFrame with the columns of AddFile, and perhaps PARSED (see `chosen_files`).
        statistics: those that the query reads. Errors: CorruptLogError or CorruptStoreError for a file that Spark
        cannot read.
        """

    def totals(self) -> tuple[int, int] | None:
        """Return the number and the bytes of the files; None: unknown without a query."""
