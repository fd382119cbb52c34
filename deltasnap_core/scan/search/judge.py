"""Judge: whether versions hold an expectation. It reads each data file once, not each version.

A version has the matching rows of its live files. So the number of a version is a sum over its files, and what is known
of a file with its deletion vector holds for all versions that have it, as long as the columns of the predicate are the
same. Files that cannot have a matching row, by their statistics and partition values, are not read at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import compress

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window, functions as F

from deltasnap_core.errors import (
    ActionNotFoundError,
    CorruptLogError,
    CorruptStoreError,
    DataFileError,
    DataFileNotFoundError,
    DataPathError,
    PredicateError,
    StoredVersionNotFoundError,
    UnsupportedProtocolError,
    VersionGapError,
    VersionNotFoundError,
)
from deltasnap_core.log.listing.log_listing import table_path
from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.replay.spark.session.spark_failures import SPARK_FAILURES
from deltasnap_core.rules.file_actions import KEY_FIELDS, vector_ids
from deltasnap_core.rules.paths import canonical_paths, path_keys
from deltasnap_core.scan.files.data_file import DataFile
from deltasnap_core.scan.physical_schema import OWN_PREFIX
from deltasnap_core.scan.scan import Scan
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.search.expectation import Expectation
from deltasnap_core.scan.table_version import TableVersion
from deltasnap_core.scan.version import Rows, Version

_COPIES = f"{OWN_PREFIX}copies"

UNREADABLE = (
    ActionNotFoundError,
    CorruptLogError,
    CorruptStoreError,
    DataFileError,
    DataFileNotFoundError,
    DataPathError,
    PredicateError,
    StoredVersionNotFoundError,
    UnsupportedProtocolError,
    VersionGapError,
    VersionNotFoundError,
)
"""Errors of one version, which others need not have: its log, its data files, or its columns."""

FileId = tuple[str, str | None]
"""The path of a data file in the log, and the id of its deletion vector."""
Match = tuple[DataFile, int]
"""A data file, and the number of its matching rows, at least 1."""


@safe_repr
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _LiveFiles:
    """The files of a version that may have matching rows, or all of them.

    meaning: see `meaning_of`. ids: of these files. unknown: of those whose rows are unknown, in order. files: the
    unknown ones; in Arrow, it was not checked yet whether they may have matching rows.
    """

    scan: Scan
    meaning: object
    ids: Sequence[FileId]
    unknown: Sequence[FileId]
    files: pa.Table | Sequence[DataFile]


class Judge:
    """Judges versions of one table. It remembers the matching rows of each file; not for several threads."""

    def __init__(self, expectation: Expectation) -> None:
        self._expectation = expectation
        self._known: dict[tuple[object, FileId], Match | None] = {}

    def judgement(self, version: TableVersion) -> Judgement:
        """Return whether a version holds the expectation. Errors: those of a scan of the version."""
        number, files_read = self._number(version)
        return Judgement(
            version=version.version, number=number, holds=self._expectation.holds(number), files_read=files_read
        )

    def matching_files(self, version: TableVersion) -> dict[FileId, Match]:
        """Return the data files of a version with matching rows. Errors: as `judgement`."""
        return {match[0].key: match for match in self._matches(version)[0]}

    def learn(self, versions: Iterable[TableVersion]) -> None:
        """Read the data files of several versions at once. Errors of some version are left to `judgement`."""
        if self._expectation.unique or self._expectation.file is not None:
            return
        groups: dict[object, list[_LiveFiles]] = defaultdict(list)
        listed: set[tuple[object, FileId]] = set()
        for version in versions:
            with suppress(*UNREADABLE):
                live = self._live_files(version, listed)
                listed.update((live.meaning, each) for each in live.unknown)
                groups[live.meaning].append(live)
        for group in groups.values():
            with suppress(*UNREADABLE, *SPARK_FAILURES):
                self._read(group)

    def _number(self, version: TableVersion) -> tuple[int, int]:
        expected = self._expectation
        if expected.file is not None:
            (key,) = path_keys(pa.array([expected.file]), version.path).to_pylist()
            (table,) = canonical_paths(pa.array([table_path(version.path)]), version.path).to_pylist()
            wanted = pa.array({key, f"{table}/{key}", key.removeprefix(f"{table}/")}, pa.string())
            return version.versions.run(lambda found: found.live_files(wanted)).num_rows, 0
        if expected.unique:
            scan, key = version.scan(expected.where), _key_of(version, expected)
            copies = aggregated(_with_key(scan, key), key, F.count(F.lit(1)).alias(_COPIES)).where(f"{_COPIES} > 1")
            found = scan.collected(aggregated(copies, (), F.count(F.lit(1)).alias(_COPIES)))
            return int(found[_COPIES][0].as_py()), 0
        matches, files_read = self._matches(version)
        return sum(number for _, number in matches), files_read

    def _matches(self, version: TableVersion) -> tuple[list[Match], int]:
        """Return the files with matching rows, and how many files were read for that."""
        live = self._live_files(version)
        files_read = self._read([live])
        found = (self._known[live.meaning, each] for each in live.ids)
        return [each for each in found if each is not None], files_read

    def _live_files(self, version: TableVersion, listed: Collection[tuple[object, FileId]] = ()) -> _LiveFiles:
        """Return the files of a version. listed: files that are known soon."""
        scan = version.scan(self._expectation.where)
        meaning, rows = meaning_of(version.scanned_table(), scan.where or ""), version.versions.run(_files)
        if isinstance(rows, pa.Table):
            ids, files = _ids(rows), rows
        else:
            files = scan.data_files()  # too many for this process: Spark selects those that may match
            ids = [file.key for file in files]
        is_new = [key not in self._known and key not in listed for key in ((meaning, each) for each in ids)]
        unknown = (
            files.filter(pa.array(is_new, pa.bool_())) if isinstance(files, pa.Table) else [*compress(files, is_new)]
        )
        return _LiveFiles(scan=scan, meaning=meaning, ids=ids, unknown=[*compress(ids, is_new)], files=unknown)

    def _read(self, group: Sequence[_LiveFiles]) -> int:
        """Read the unknown files of versions with one meaning, and return their number."""
        meaning, scan = group[-1].meaning, group[-1].scan
        files: list[DataFile] = []
        tables: list[pa.Table] = []
        for live in group:
            if isinstance(live.files, pa.Table):
                tables.append(live.files)
            else:
                files += live.files
        if any(table.num_rows for table in tables):
            files += scan.files_among(pa.concat_tables(tables))
        counts = scan.counts(files) if files else []
        matches = {file.key: (file, number) for file, number in zip(files, counts, strict=True) if number}
        self._known |= {(meaning, each): matches.get(each) for live in group for each in live.unknown}
        return len(files)


def _files(version: Version) -> Rows:
    return version.files()


def _ids(files: pa.Table) -> list[FileId]:
    vectors = files["deletionVector"].combine_chunks()
    ids = vector_ids(*(pc.struct_field(vectors, name) for name in KEY_FIELDS))
    return list(zip(files["path"].to_pylist(), ids.to_pylist(), strict=True))


def meaning_of(table: ScannedTable, where: str | None = None) -> object:
    """Return the columns that a predicate may name (None: all), with their types and where they are.

    If those of two versions are equal, a file that both have has the same matching rows in both.
    """
    partition = {column.name for column in table.columns.partition}
    text = "*" if where is None else where.lower()
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
    """Return the `unique` columns in SQL. Errors: PredicateError if the version lacks one, or cannot compare it."""
    table, names = version.scanned_table(), ", ".join(expectation.unique)
    try:
        key = table.columns.selected(expectation.unique)
        _ = table.no_rows.orderBy(*key).schema
    except ValueError as error:
        raise PredicateError(predicate=names, position=None, reason=str(error)) from error
    except SPARK_FAILURES as error:
        raise PredicateError(predicate=names, position=None, reason="maps and variants are not compared") from error
    return key
