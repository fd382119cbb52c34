"""The partitions that OPTIMIZE would compact, with the number of files before and after. Computed in the driver.

The rules are those of Delta's `OptimizeTableCommand`. A file is eligible if it is smaller than the target size, or if
its deletion vector deletes more than 5 % of its rows (or of an unknown number of rows). The eligible files of a
partition, smallest first, fill bins of at most the target size. A bin of two files or more becomes one file. A bin of
one file is rewritten only if the file has a deletion vector.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import starmap
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame

from deltasnap_core.protocol.properties.table_config import target_file_size_bytes
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.rules.file_actions import values_of
from deltasnap_core.rules.texts.sql_text import quoted, sql_type
from deltasnap_core.rules.totals.num_records import num_records, num_records_sql
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.partition_values import partition_sql, partition_value, shown_value, text_of
from deltasnap_core.scan.table_columns import TableColumn
from deltasnap_core.scan.version import Rows

CANDIDATE_COLUMNS = ("size", "partitionValues", "stats", "deletionVector")
"""The columns of AddFile that the rules read."""

MAX_DELETED_RATIO = 0.05
"""A file with a greater share of deleted rows is eligible. The default of Delta's `optimize.maxDeletedRowsRatio`."""

_ESCAPES = (("\\", "\\\\"), ("'", "\\'"), ("${", "$' '{"))
"""What to replace in a literal. Spark replaces variables, such as `${env:HOME}`, but joins adjacent strings."""

_NUMBERS = (
    "files", "small_files", "small_bytes", "files_with_deletes", "rewritten_files", "rewritten_bytes", "files_after"
)  # fmt: skip


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeCandidate:
    """A partition that OPTIMIZE would compact. The numbers are those of `MetadataTables.optimize_candidates`.

    partition: by column, the text as in the log; None: null. statement: None: there is no SQL for it.
    """

    partition: Mapping[str, str | None]
    files: int
    small_files: int
    small_bytes: int | None
    files_with_deletes: int
    rewritten_files: int
    rewritten_bytes: int | None
    files_after: int
    statement: str | None


def optimize_candidates(table: ScannedTable, files: Rows) -> tuple[OptimizeCandidate, ...]:
    """Return the candidates, the largest reduction of files first. files: with CANDIDATE_COLUMNS, read on demand."""
    return candidates_of_rows(table, files) if isinstance(files, pa.Table) else candidates_of_frame(table, files)


def candidates_in_spark(table: ScannedTable, found: Sequence[OptimizeCandidate]) -> DataFrame:
    """Return candidates as a DataFrame, in the same order."""
    numbers = {name: pa.array([getattr(each, name) for each in found], pa.int64()) for name in _NUMBERS}
    statements = pa.array([each.statement for each in found], pa.string())
    texts = pa.array([[*each.partition.values()] for each in found], pa.list_(pa.string()))
    rows = arrow_rows(table.spark, pa.table({**numbers, "statement": statements, "texts": texts}))
    values = [(column, shown_value(column, f"texts[{place}]")) for place, column in enumerate(table.columns.partition)]
    return rows.selectExpr(f"{partition_sql(values)} as partition", *_NUMBERS, "statement")


def candidates_of_frame(table: ScannedTable, files: DataFrame) -> tuple[OptimizeCandidate, ...]:
    """Return the candidates as values, in the same order; one Spark job. files: with CANDIDATE_COLUMNS."""
    texts = [f"nullif({text_of(column)}, '')" for column in table.columns.partition]
    rows = files.selectExpr(
        f"cast(array({', '.join(texts)}) as array<string>) as texts",
        "coalesce(size, 0L) as size",
        "deletionVector is not null as has_vector",
        "deletionVector.cardinality as deleted",
        f"{num_records_sql('stats')} as records",
    ).toArrow()
    texts_of_files, *columns = (column.to_pylist() for column in rows.columns)
    return _candidates(table, zip(map(tuple, texts_of_files), starmap(_File, zip(*columns, strict=True)), strict=True))


def candidates_of_rows(table: ScannedTable, files: pa.Table) -> tuple[OptimizeCandidate, ...]:
    """Return the candidates as values, in the same order, without Spark. files: with CANDIDATE_COLUMNS."""
    names = [column.physical_name for column in table.columns.partition]
    records = num_records(files["stats"].combine_chunks()).to_pylist()
    found = []
    rows = values_of(files.select(["size", "partitionValues", "deletionVector"]))
    for row, of_file in zip(rows, records, strict=True):
        values, vector = row["partitionValues"] or {}, row["deletionVector"]
        deleted = None if vector is None else vector["cardinality"]
        texts = tuple(values.get(name) or None for name in names)
        found.append((texts, _File(row["size"] or 0, vector is not None, deleted, of_file)))
    return _candidates(table, found)


class _File(NamedTuple):
    """A file. has_vector: whether it has a deletion vector. deleted, records: numbers of rows; None: not stated."""

    size: int
    has_vector: bool
    deleted: int | None
    records: int | None

    @property
    def has_deletes(self) -> bool:
        """Whether its deletion vector deletes many rows."""
        if not self.has_vector or self.records is None:
            return self.has_vector
        return self.records != 0 and (self.deleted or 0) / self.records > MAX_DELETED_RATIO


def _candidates(
    table: ScannedTable, files: Iterable[tuple[tuple[str | None, ...], _File]]
) -> tuple[OptimizeCandidate, ...]:
    """Return the candidates. files: each with the texts of its partition values."""
    target = target_file_size_bytes(table.metadata.configuration)
    partitions: dict[tuple[str | None, ...], list[_File]] = defaultdict(list)
    for texts, file in files:
        partitions[texts].append(file)
    found = (_candidate(table, texts, each, target) for texts, each in partitions.items())
    return tuple(sorted((each for each in found if each.rewritten_files), key=_order))


def _long(total: int) -> int | None:
    return total if -(1 << 63) <= total < 1 << 63 else None


def _order(found: OptimizeCandidate) -> tuple[int, bool, int, str]:
    """Return a key for the largest reduction of files first, then the most bytes (null last)."""
    size = found.rewritten_bytes
    return found.files_after - found.files, size is None, -(size or 0), found.statement or ""


def _candidate(
    table: ScannedTable, texts: Sequence[str | None], files: Sequence[_File], target: int
) -> OptimizeCandidate:
    small = [file.size for file in files if file.size < target]
    eligible = [file for file in files if file.size < target or file.has_deletes]
    rewritten_files, rewritten_bytes, bins = _packed(eligible, target)
    return OptimizeCandidate(
        partition={column.name: text for column, text in zip(table.columns.partition, texts, strict=True)},
        files=len(files),
        small_files=len(small),
        small_bytes=_long(sum(small)),
        files_with_deletes=sum(file.has_deletes for file in files),
        rewritten_files=rewritten_files,
        rewritten_bytes=_long(rewritten_bytes),
        files_after=len(files) - rewritten_files + bins,
        statement=_statement(table, texts),
    )


def _packed(files: Iterable[_File], target: int) -> tuple[int, int, int]:
    """Return the files and the bytes in the bins that are rewritten, and the number of these bins."""
    rewritten: list[tuple[int, int]] = []
    count, filled, has_vector = 0, 0, False
    sizes = sorted((max(file.size, 0), file.has_vector) for file in files)
    for size, is_vector in (*sizes, (target + 1, False)):  # the last one only ends the bin before it
        if count and size <= target - filled:
            count, filled = count + 1, filled + size
            continue
        if count > 1 or (count and has_vector):
            rewritten.append((count, filled))
        count, filled, has_vector = 1, size, is_vector
    return sum(count for count, _ in rewritten), sum(filled for _, filled in rewritten), len(rewritten)


def _statement(table: ScannedTable, texts: Sequence[str | None]) -> str | None:
    """Return the statement that compacts a partition.

    None: a value has no SQL literal, or Spark would replace a part of the path, or of a column's name.
    """
    columns = table.columns.partition
    path = redacted(table.table_path).removeprefix("file://").replace("`", "``")
    conditions = [_condition(column, text) for column, text in zip(columns, texts, strict=True)]
    known = [condition for condition in conditions if condition is not None]
    if len(known) < len(conditions) or any("${" in name for name in (path, *(column.name for column in columns))):
        return None
    return f"OPTIMIZE delta.`{path}`" + (f" WHERE {' AND '.join(known)}" if known else "")


def _condition(column: TableColumn, text: str | None) -> str | None:
    """Return the condition that a column has the value of a text in the log; None: its type has no literal."""
    if text is None:
        return f"{quoted(column.name)} IS NULL"
    is_text = column.data_type in ("string", "collated")
    if column.data_type == "binary" or not (is_text or partition_value(column)):
        return None
    literal = f"'{reduce(lambda escaped, each: escaped.replace(*each), _ESCAPES, text)}'"
    return f"{quoted(column.name)} = {literal if is_text else f'cast({literal} as {sql_type(column.data_type)})'}"
