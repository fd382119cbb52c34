"""Scan: the files of a version that may contain the requested rows, and the rows themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasnap_core.errors import DataFileError, UnsupportedSettingError
from deltasnap_core.once import once
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.replay.fallback import Fallback, Readable
from deltasnap_core.replay.spark.session.spark_failures import (
    SPARK_FAILURES,
    file_read,
    is_about_files,
    setting_that_refuses_dates,
    spark_cause,
    translated,
)
from deltasnap_core.rules.texts.statistics_schema import StatisticPath
from deltasnap_core.scan.collected_rows import collected_rows
from deltasnap_core.scan.file_lookup import FileLookup
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.planning import ScanReport, can_evaluate, chosen_files, report_of
from deltasnap_core.scan.predicate_analysis import checked_skipping
from deltasnap_core.scan.predicates.spark_text import spark_text
from deltasnap_core.scan.row_reader import RowReader
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.data_skipping import Skipping, skipping_of

T = TypeVar("T")

_MOST_ROWS = 2**31 - 1
"""The highest limit that Spark accepts."""


class ScannedFiles(Readable, Protocol):
    """The files that a scan selects from, for any source. Immutable."""

    @property
    def read_files(self) -> tuple[Sequence[str], Sequence[str]]:
        """The files of a log and of a store that Spark reads for them: an error names one of them."""
        ...

    @property
    def all_files_with_stats(self) -> DataFrame:
        """The files as a DataFrame for the caller, with the columns of AddFile."""
        ...

    def files_with(self, statistics: frozenset[StatisticPath]) -> DataFrame:
        """Return the files for a query that runs now: the columns of AddFile, and perhaps PARSED (see `chosen_files`).

        statistics: those that the query reads. Errors: CorruptLogError.
        """
        ...


@safe_repr
class Scan:
    """A planned read of rows of one version of a table. Immutable; threads may share it.

    The predicate is checked when the scan is created. Files are selected, and rows read, on demand.
    """

    def __init__(
        self,
        table: ScannedTable,
        versions: Fallback[ScannedFiles],
        *,
        where: str | None,
        columns: Sequence[str] | None = None,
        totals: tuple[int, int] | None = None,
    ) -> None:
        """Create a scan.

        versions: the files of the version; without damaged files of its log, if a query meets them.
        totals:  the number and the bytes of the files; None: unknown without a query.
        where:   a condition on the table's columns, in SQL.
        columns: names of columns or, with dots, of fields; None: all.
        Errors: PredicateError, a ValueError; ValueError for an unknown column.
        """
        self._table = table
        self._versions = versions
        self._totals = totals
        self.where = where
        self.columns = None if columns is None else table.columns.selected(columns)
        self._checked = Skipping() if where is None else checked_skipping(table, where)

    def __repr__(self) -> str:
        return f"Scan(version={self._table.version}, where={self.where!r}, columns={self.columns})"

    @once
    def files(self) -> DataFrame:
        """The files that may contain rows for which the predicate is true, with the columns of ALL_FILES_SCHEMA."""
        return chosen_files(self._versions.run(lambda files: files.all_files_with_stats), self._skipping)

    @once
    def report(self) -> ScanReport:
        """The numbers of files and bytes that remain, and the conditions that selected them; at most one Spark job.

        Errors: CorruptLogError, CorruptStoreError.
        """
        return self._run(partial(report_of, skipping=self._skipping, totals=self._totals))

    def to_df(self) -> DataFrame:
        """Return the rows. The call selects the files in a Spark job; Spark reads the rows when the DataFrame runs.

        The columns are the selected ones, or those of the table in its order, with the types of its schema.
        Errors: DataFileNotFoundError naming a missing file; DataPathError; CorruptLogError for a damaged deletion
        vector or an invalid partition value; UnsupportedSettingError if the session changes values; and as `report`.
        """
        return self._rows_of(self._run(self._chosen))

    def to_arrow(self) -> pa.Table:
        """Return all rows, in memory. Errors: as `take`."""
        return self._collected(self.to_df())

    def take(self, count: int) -> pa.Table:
        """Return `count` rows, in memory; fewer if there are no more. They have no order.

        Without a predicate, Spark reads at most `count` files, without deletion vectors, if these have enough rows.
        Errors: ValueError for a negative count; PredicateError for a predicate that fails for some row; DataFileError
        for a file that Spark cannot read or that has a text that is not UTF-8; UnsupportedSettingError; and as `to_df`,
        for the files that are read.
        """
        if count < 0:
            raise ValueError(f"Expected 0 rows or more, found {count}")
        count = min(count, _MOST_ROWS)
        if self.where is None and (self._totals is None or self._totals[0] > count):
            some = self._run(partial(self._some, count))
            if some:
                rows = self._collected(self._rows_of(some).limit(count))
                if rows.num_rows == count:
                    return rows
        return self._collected(self.to_df().limit(count))

    def _collected(self, rows: DataFrame) -> pa.Table:
        try:
            return collected_rows(rows, self.where)
        except DataFileError as error:
            raise self._unreadable(None, error.reason) from error
        except SPARK_FAILURES as error:
            if (setting := setting_that_refuses_dates(error)) is not None:
                reason = "with it, Spark refuses dates before 1582-10-15 and times before 1900 in data files"
                raise UnsupportedSettingError(setting=f"{setting}=EXCEPTION", reason=reason) from error
            if not is_about_files(error):
                raise
            raise self._unreadable(file_read(error), spark_cause(error)) from error

    def _unreadable(self, file: str | None, reason: str) -> DataFileError:
        return DataFileError(
            path=None if file is None else redacted(file),
            table=redacted(self._table.table_path),
            version=self._table.version,
            reason=reason,
        )

    def _chosen(self, files: DataFrame) -> list[DataFile]:
        return FileLookup(self._table).found_in(chosen_files(files, self._skipping))

    def _some(self, count: int, files: DataFrame) -> list[DataFile]:
        return FileLookup(self._table).found_in(files.where("deletionVector is null").limit(count))

    def _rows_of(self, files: Sequence[DataFile]) -> DataFrame:
        FileLookup(self._table).warn_of_repeated(files)
        rows = RowReader(self._table, self._skipping.pushed).read(files)
        if self.where is not None:
            rows = rows.where(spark_text(self.where))
        return rows if self.columns is None else rows.select(*self.columns)

    @once
    def _skipping(self) -> Skipping:
        """The file conditions. Conditions that fail on the values of some partition only filter rows."""
        checked = self._checked
        if self.where is None or not checked.may_fail:
            return checked
        if self._versions.run(partial(_answer, frozenset(), partial(can_evaluate, skipping=checked))):
            return checked
        return skipping_of(self.where, self._table.columns, may_fail=False)

    def _run(self, query: Callable[[DataFrame], T]) -> T:
        return self._versions.run(partial(_answer, self._skipping.statistics_read, query))


def _answer(statistics: frozenset[StatisticPath], query: Callable[[DataFrame], T], files: ScannedFiles) -> T:
    """Return the result of a query over files. statistics: those that it reads."""
    with translated(*files.read_files):
        return query(files.files_with(statistics))
