"""Scan: which files of a version may hold the rows asked for, and the rows themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import DataFrame

from deltasnap_core.once import once
from deltasnap_core.redaction import safe_repr
from deltasnap_core.scan.planning import (
    ScanReport,
    can_evaluate,
    chosen_files,
    report_of,
)
from deltasnap_core.scan.row_filter import checked_skipping, selected_names
from deltasnap_core.scan.rows import DataFile, RowReader
from deltasnap_core.scan.scanned_files import ScannedFiles
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping import Skipping, skipping_of

T = TypeVar("T")


@safe_repr
class Scan:
    """Rows of one version of a table: planned, not read. Immutable; threads may share it.

    The predicate is checked when the scan is made; files are chosen, and rows read, when they are asked for.
    """

    def __init__(
        self,
        table: ScannedTable,
        files: ScannedFiles,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        """files: of the version. where: a condition over the table's columns, as SQL.

        columns: names of columns or, with dots, of fields; None: all.
        Errors: PredicateError, a ValueError; ValueError on a column that the table does not have.
        """
        self._table = table
        self._all_files = files
        self.where = where
        self.columns = None if columns is None else selected_names(columns, table.columns)
        self._checked = Skipping() if where is None else checked_skipping(table, where)

    def __repr__(self) -> str:
        return f"Scan(version={self._table.version}, where={self.where!r}, columns={self.columns})"

    @once
    def files(self) -> DataFrame:
        """The files that may hold rows for which the predicate is true, with the columns of AddFile."""
        return chosen_files(self._all_files.frame(), self._skipping)

    @once
    def report(self) -> ScanReport:
        """How many files and bytes the predicate leaves, and which parts of it chose them; a job at most.

        Errors: CorruptLogError, CorruptStoreError.
        """
        skipping, totals = self._skipping, self._all_files.totals()
        return self._ask(lambda files: report_of(files, skipping, totals))

    def to_df(self) -> DataFrame:
        """Return the rows. Its first use looks up the files in a job; the rows are read as Spark reads them.

        Errors: DataFileNotFoundError naming a file that is gone; DataPathError; CorruptLogError on a deletion vector
        or a partition value, and as `report`.
        """
        skipping = self._skipping
        reader = RowReader(self._table, skipping.pushed)

        def look_up(files: DataFrame) -> list[DataFile]:
            return reader.looked_up(chosen_files(files, skipping))

        rows = reader.read(self._ask(look_up))
        if self.where is not None:
            rows = rows.where(self.where)
        return rows if self.columns is None else rows.select(*self.columns)

    @once
    def _skipping(self) -> Skipping:
        """What chooses files. A condition that fails on the values of some partition is left to the rows."""
        checked = self._checked
        if self.where is None or not checked.may_fail:
            return checked
        if self._all_files.ask(frozenset(), lambda files: can_evaluate(files, checked)):
            return checked
        return skipping_of(self.where, self._table.columns, may_fail=False)

    def _ask(self, query: Callable[[DataFrame], T]) -> T:
        return self._all_files.ask(self._skipping.fields, query)
