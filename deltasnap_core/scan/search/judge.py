"""Judge: whether versions hold an expectation. It reads each data file once, not each version.

A version has the matching rows of its live files. So the number of a version is a sum over its files, and what is known
of a file with its deletion vector holds for all versions that have it, as long as the columns of the predicate are the
same. Files that cannot have a matching row, by their statistics and partition values, are not read at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, Window, functions as F

from deltasnap_core.errors import PredicateError
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.rules.paths import path_keys
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.physical_schema import OWN_PREFIX
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.search.expectation import Expectation
from deltasnap_core.scan.table_version import TableVersion

_COPIES = f"{OWN_PREFIX}copies"

FileId = tuple[str, str | None]
"""The path of a data file in the log, and the id of its deletion vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Whether a version holds an expectation.

    number:     see `Expectation`; None: the version cannot be judged. files_read: data files that were read for it.
    holds:      None: the version cannot be judged.
    problem:    why; None: it was judged.
    """

    version: int
    number: int | None = None
    holds: bool | None = None
    files_read: int = 0
    problem: str | None = None


class Judge:
    """Judges versions of one table. It remembers the matching rows of each file; not for several threads."""

    def __init__(self, expectation: Expectation) -> None:
        self._expectation = expectation
        self._known: dict[tuple[object, FileId], int] = {}

    def judgement(self, version: TableVersion) -> Judgement:
        """Return whether a version holds the expectation. Errors: those of a scan of the version."""
        number, files_read = self._number(version)
        return Judgement(
            version=version.version, number=number, holds=self._expectation.holds(number), files_read=files_read
        )

    def matching_files(self, version: TableVersion) -> dict[FileId, tuple[DataFile, int]]:
        """Return the data files of a version with matching rows, and their number. Errors: as `judgement`."""
        found, _ = self._counted(version.scan(self._expectation.where), version.scanned_table())
        return {file.key: (file, number) for file, number in found if number}

    def _number(self, version: TableVersion) -> tuple[int, int]:
        expected = self._expectation
        if expected.file is not None:
            wanted = path_keys(pa.array([expected.file], pa.string()), version.path)
            return version.versions.run(lambda found: found.live_files(wanted)).num_rows, 0
        if expected.unique:
            scan, key = version.scan(expected.where), _key_of(version, expected)
            copies = aggregated(_with_key(scan, key), key, F.count(F.lit(1)).alias(_COPIES)).where(f"{_COPIES} > 1")
            found = scan.collected(aggregated(copies, (), F.count(F.lit(1)).alias(_COPIES)))
            return int(found[_COPIES][0].as_py()), 0
        found, files_read = self._counted(version.scan(expected.where), version.scanned_table())
        return sum(number for _, number in found), files_read

    def _counted(self, scan: Scan, table: ScannedTable) -> tuple[list[tuple[DataFile, int]], int]:
        """Return the files that may match, each with the number of its matching rows, and how many files were read."""
        meaning = _meaning(table, scan.where or "")
        files = scan.data_files()
        unknown = [file for file in files if (meaning, file.key) not in self._known]
        counts = scan.counts(unknown) if unknown else []
        self._known |= {(meaning, file.key): number for file, number in zip(unknown, counts, strict=True)}
        return [(file, self._known[meaning, file.key]) for file in files], len(unknown)


def _meaning(table: ScannedTable, where: str) -> object:
    """Return the columns that a predicate may name, with their types and where they are.

    If those of two versions are equal, a file that both have has the same matching rows in both.
    """
    partition = {column.name for column in table.columns.partition}
    text = where.lower()
    names_all = any(mark in text for mark in ("*", "${"))
    fields = [
        (field.json(), field.name in partition)
        for field in table.schema.fields
        if names_all or not field.name.isascii() or "`" in field.name or field.name.lower() in text
    ]
    return table.columns.mapping_mode, tuple(fields)


def repeated_rows(version: TableVersion, expectation: Expectation) -> DataFrame:
    """Return the rows of a version whose values of the `unique` columns other rows have too. Errors: as `judgement`."""
    key = _key_of(version, expectation)
    copies = F.count(F.lit(1)).over(Window.partitionBy(*map(F.col, key)))
    rows = _with_key(version.scan(expectation.where), key)
    return rows.withColumn(_COPIES, copies).where(f"{_COPIES} > 1").drop(_COPIES)


def _with_key(scan: Scan, key: Sequence[str]) -> DataFrame:
    """Return the rows whose key has no null."""
    return scan.to_df().where(" and ".join(f"{name} is not null" for name in key))


def _key_of(version: TableVersion, expectation: Expectation) -> tuple[str, ...]:
    """Return the `unique` columns in SQL. Errors: PredicateError if the version lacks one."""
    try:
        return version.scanned_table().columns.selected(expectation.unique)
    except ValueError as error:
        raise PredicateError(predicate=", ".join(expectation.unique), position=None, reason=str(error)) from error
