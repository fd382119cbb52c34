"""Scan: the files of a version that may contain the requested rows, and the rows themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.errors import DataFileError, UnsupportedSettingError
from deltasnap_core.once import once
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.replay.fallback import Fallback
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.spark_failures import (
    SPARK_FAILURES,
    file_read,
    is_about_files,
    setting_that_refuses_dates,
    spark_cause,
    translated,
)
from deltasnap_core.scan.collected_rows import collected_rows
from deltasnap_core.scan.file_lookup import files_to_read, warn_of_repeated
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.physical_schema import OWN_PREFIX
from deltasnap_core.scan.planning import (
    ConditionReport,
    ScanReport,
    can_evaluate,
    chosen_files,
    condition_reports,
    report_of,
    stated_count,
)
from deltasnap_core.scan.predicate_analysis import checked_skipping
from deltasnap_core.scan.predicates.spark_text import spark_text
from deltasnap_core.scan.row_reader import check_distinct, read_rows
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.data_skipping import Skipping, skipping_of
from deltasnap_core.scan.version import Files, frame_of

_FILE, _COUNT = f"{OWN_PREFIX}file", f"{OWN_PREFIX}count"
MOST_ROWS = 2**31 - 1
"""The highest limit that Spark accepts."""

_PART_BYTES = 256 << 20
"""The size of the data files that are read at a time, if the rows are read in parts."""


@safe_repr
class Scan:
    """A planned read of rows of one version of a table. Immutable; threads may share it.

    The predicate is checked when the scan is created. Files are selected, and rows read, on demand.
    """

    def __init__(
        self,
        table: ScannedTable,
        files: Fallback[Files],
        *,
        where: str | None,
        columns: Sequence[str] | None = None,
        totals: tuple[int, int] | None = None,
    ) -> None:
        """Create a scan.

        table:   the version that has the files.
        where:   a condition on the table's columns, in SQL.
        columns: names of columns or, with dots, of fields; None: all.
        totals:  the number and the bytes of the files; None: unknown without a query.
        Errors: PredicateError, a ValueError; ValueError for an unknown column.
        """
        self._table = table
        self._files = files
        self._totals = totals
        self.where = where
        self.columns = None if columns is None else table.columns.selected(columns)
        self._checked = Skipping() if where is None else checked_skipping(table, where)

    def __repr__(self) -> str:
        return f"Scan(version={self._table.version}, where={self.where!r}, columns={self.columns})"

    def select(self, columns: Sequence[str]) -> Scan:
        """Return the scan with other columns, named as in `__init__`. Errors: ValueError for an unknown column."""
        return Scan(self._table, self._files, where=self.where, columns=columns, totals=self._totals)

    @once
    def files(self) -> DataFrame:
        """The files that may contain rows for which the predicate is true, with the columns of ALL_FILES_SCHEMA."""
        return chosen_files(self._files.run(lambda files: files.all_files_with_stats), self._skipping)

    @once
    def report(self) -> ScanReport:
        """The numbers of files and bytes that remain, and the conditions that selected them; at most one Spark job.

        Errors: CorruptLogError, CorruptStoreError.
        """
        return self._files.run(self._report)

    def conditions(self) -> tuple[ConditionReport, ...]:
        """Return the effect of each condition that the predicate joins with AND; one Spark job. Errors: as `report`."""
        skipping, columns = self._skipping, self._table.columns
        found = [(text, skipping_of(text, columns)) for text in skipping.used]
        # Without conditions that Spark fails to evaluate, as in `_skipping`.
        used = {text: part if skipping is self._checked else part.sure or part for text, part in found}
        return self._files.run(partial(self._conditions, {**used, **dict.fromkeys(skipping.unused)}))

    def to_df(self) -> DataFrame:
        """Return the rows. The call selects the files in a Spark job; Spark reads the rows when the DataFrame runs.

        The columns are the selected ones, or those of the table in its order, with the types of its schema.
        Errors: DataFileNotFoundError naming a missing file; DataPathError; CorruptLogError for a damaged deletion
        vector or an invalid partition value; UnsupportedSettingError if the session changes values; and as `report`.
        """
        return self.rows_of(self.data_files())

    def to_arrow(self) -> pa.Table:
        """Return all rows, in memory. Errors: as `take`."""
        return self.collected(self.to_df())

    def take(self, count: int) -> pa.Table:
        """Return `count` rows, in memory; fewer if there are no more. They have no order.

        Without a predicate, Spark reads at most `count` files, without deletion vectors, if these have enough rows.
        Errors: ValueError for a negative count; PredicateError for a predicate that fails for some row; DataFileError
        for a file that Spark cannot read or that has a text that is not UTF-8; UnsupportedSettingError; and as `to_df`,
        for the files that are read.
        """
        if count < 0:
            raise ValueError(f"Expected 0 rows or more, found {count}")
        count = min(count, MOST_ROWS)
        if self.where is None and (self._totals is None or self._totals[0] > count):
            some = self._files.run(partial(self._some, count))
            if some:
                rows = self.collected(self.rows_of(some).limit(count))
                if rows.num_rows == count:
                    return rows
        return self.collected(self.to_df().limit(count))

    def parts(self) -> Iterator[pa.Table]:
        """Yield all rows in tables, at least one: in memory are the rows of 256 MiB of data files at a time, or of one.

        Each is read by a Spark job of its own. Errors: as `take`.
        """
        files = self.data_files()
        check_distinct(self._table, files)
        for part in _parts(files):
            yield self.collected(self.rows_of(part))

    def count(self) -> int:
        """Return the number of rows.

        Data files are not read if the predicate has only partition columns, and the log states the number of rows of
        each file: numRecords, less the rows that its deletion vector deletes. Errors: as `take`.
        """
        stated = self._files.run(self._stated_count)
        if stated is not None:
            return stated
        counted = self.collected(self.to_df().agg(F.count(F.lit(1)).alias("count")))
        return int(counted["count"][0].as_py())

    def data_files(self) -> list[DataFile]:
        """Return the files that may contain rows for which the predicate is true; one Spark job. Errors: as `to_df`."""
        return self._files.run(self._chosen)

    def files_among(self, files: pa.Table) -> list[DataFile]:
        """Return those of some files, with the columns of AddFile, that `data_files` would return; one Spark job."""
        return files_to_read(self._table, chosen_files(frame_of(files, self._table), self._skipping))

    def counts(self, files: Sequence[DataFile]) -> list[int]:
        """Return the number of rows of each of some data files for which the predicate is true; one Spark job.

        files: of versions in which the columns of the predicate are the same. Errors: as `take`.
        """
        counted = aggregated(self._numbered(files), [_FILE], F.count(F.lit(1)).alias(_COUNT))
        found = self.collected(counted)
        counts = dict(zip(found[_FILE].to_pylist(), found[_COUNT].to_pylist(), strict=True))
        return [counts.get(number, 0) for number in range(len(files))]

    def rows_by_file(self, files: Sequence[DataFile]) -> list[pa.Table]:
        """Return the rows of each of some data files, as `counts`, in memory; one Spark job. Errors: as `take`."""
        rows = self.collected(self._numbered(files))
        of_file = rows[_FILE].to_numpy()
        return [rows.filter(pa.array(of_file == number)).drop_columns([_FILE]) for number in range(len(files))]

    def rows_of(self, files: Sequence[DataFile]) -> DataFrame:
        """Return the rows of some data files, as `counts`. Errors: as `to_df`."""
        warn_of_repeated(self._table, files)
        rows = self._filtered(read_rows(self._table, files, self._skipping.pushed))
        return rows if self.columns is None else rows.select(*self.columns)

    def _stated_count(self, files: Files) -> int | None:
        if self.where is not None and not self._skipping.is_exact:
            return None
        with translated(*files.read_files):
            return stated_count(chosen_files(self._read(files), self._skipping), self._table.columns)

    def collected(self, rows: DataFrame) -> pa.Table:
        """Return rows that were derived from those of the scan, in memory. Errors: as `take`."""
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

    def _report(self, files: Files) -> ScanReport:
        with translated(*files.read_files):
            return report_of(self._read(files), self._skipping, self._totals)

    def _conditions(self, parts: Mapping[str, Skipping | None], files: Files) -> tuple[ConditionReport, ...]:
        with translated(*files.read_files):
            return condition_reports(frame_of(files.files(), self._table), parts)

    def _chosen(self, files: Files) -> list[DataFile]:
        with translated(*files.read_files):
            return files_to_read(self._table, chosen_files(self._read(files), self._skipping))

    def _some(self, count: int, files: Files) -> list[DataFile]:
        with translated(*files.read_files):
            some = self._read(files).where("deletionVector is null").limit(count)
            return files_to_read(self._table, some)

    def _can_evaluate(self, files: Files) -> bool:
        with translated(*files.read_files):
            return can_evaluate(frame_of(files.files(), self._table), self._checked)

    def _read(self, files: Files) -> DataFrame:
        return frame_of(files.files(skipping=self._skipping.statistics_read), self._table)

    def _numbered(self, files: Sequence[DataFile]) -> DataFrame:
        """Return the rows of some data files with the number of their file, from 0, in the column _FILE."""
        numbered = [replace(file, tags=(number,)) for number, file in enumerate(files)]
        return self._filtered(read_rows(self._table, numbered, self._skipping.pushed, tags=(_FILE,)))

    def _filtered(self, rows: DataFrame) -> DataFrame:
        return rows if self.where is None else rows.where(spark_text(self.where))

    @once
    def _skipping(self) -> Skipping:
        """The file conditions. Conditions that fail on the values of some partition only filter rows."""
        checked = self._checked
        if checked.sure is None or self._files.run(self._can_evaluate):
            return checked
        return checked.sure


def _parts(files: Sequence[DataFile]) -> Iterator[Sequence[DataFile]]:
    """Yield files in groups of up to _PART_BYTES, or of one file; one empty group without files."""
    part: list[DataFile] = []
    for file in files:
        if part and sum(each.size for each in (*part, file)) > _PART_BYTES:
            yield part
            part = []
        part.append(file)
    yield part
