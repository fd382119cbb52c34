"""The partitions that OPTIMIZE would compact, with the number of files before and after. In SQL and in Python.

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
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from deltasnap_core.protocol.properties.table_config import target_file_size_bytes
from deltasnap_core.redaction import redacted, safe_repr
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.rules.file_actions import values_of
from deltasnap_core.rules.texts.sql_text import long_sum_sql, quoted, sql_type, string_sql
from deltasnap_core.rules.totals.num_records import num_records, num_records_sql
from deltasnap_core.scan.scanned_table import ScannedTable
from deltasnap_core.scan.skipping.partition_values import partition_sql, partition_value, shown_value, text_of
from deltasnap_core.scan.table_columns import TableColumn

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


def optimize_candidates(table: ScannedTable, files: DataFrame) -> DataFrame:
    """Return the candidates, the largest reduction of files first. files: the live files, with statistics."""
    values = [
        (column, shown_value(column, f"texts.t{number}")) for number, column in enumerate(table.columns.partition)
    ]
    return _candidates(table, files).selectExpr(f"{partition_sql(values)} as partition", *_NUMBERS, "statement")


def candidates_of_frame(table: ScannedTable, files: DataFrame) -> tuple[OptimizeCandidate, ...]:
    """Return the candidates as values, in the same order. Spark computes them. files: with CANDIDATE_COLUMNS."""
    names = [column.name for column in table.columns.partition]
    rows = _candidates(table, files).toArrow().to_pylist()
    return tuple(
        OptimizeCandidate(
            partition=dict(zip(names, (row["texts"] or {}).values(), strict=True)),
            statement=row["statement"],
            **{name: row[name] for name in _NUMBERS},
        )
        for row in rows
    )


def candidates_of_rows(table: ScannedTable, files: pa.Table) -> tuple[OptimizeCandidate, ...]:
    """Return the candidates as values, in the same order. The driver computes them. files: with CANDIDATE_COLUMNS."""
    columns, target = table.columns.partition, target_file_size_bytes(table.metadata.configuration)
    records = num_records(files["stats"].combine_chunks()).to_pylist()
    partitions: dict[tuple[str | None, ...], list[_File]] = defaultdict(list)
    rows = values_of(files.select(["size", "partitionValues", "deletionVector"]))
    for file, of_file in zip(rows, records, strict=True):
        values, vector = file["partitionValues"] or {}, file["deletionVector"]
        texts = tuple(values.get(column.physical_name) or None for column in columns)
        has_deletes = vector is not None and _has_many_deletes(vector["cardinality"], of_file)
        partitions[texts].append(_File(file["size"] or 0, vector is not None, has_deletes))
    found = (_candidate(table, texts, each, target) for texts, each in partitions.items())
    return tuple(
        sorted(
            (each for each in found if each.rewritten_files),
            key=lambda each: (
                each.files_after - each.files,
                *_largest_first(each.rewritten_bytes),
                each.statement or "",
            ),
        )
    )


class _File(NamedTuple):
    """A file. has_vector: whether it has a deletion vector. has_deletes: whether that deletes many rows."""

    size: int
    has_vector: bool
    has_deletes: bool


def _long(total: int) -> int | None:
    return total if -(1 << 63) <= total < 1 << 63 else None


def _largest_first(size: int | None) -> tuple[bool, int]:
    """Return the key of Spark's order: the largest first, null last."""
    return size is None, -(size or 0)


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


def _candidates(table: ScannedTable, files: DataFrame) -> DataFrame:
    """Return texts (struct of the partition values in the log: t0, t1, ...), _NUMBERS (longs), statement (string).

    Without partition columns, texts is null.
    """
    target, columns = target_file_size_bytes(table.metadata.configuration), table.columns.partition
    texts = [f"nullif({text_of(column)}, '') as t{number}" for number, column in enumerate(columns)]
    sizes = files.selectExpr(
        # Not every server groups by a struct without fields.
        f"struct({', '.join(texts)}) as texts" if texts else "cast(null as string) as texts",
        "coalesce(size, 0L) as size",
        "deletionVector is not null as has_vector",
        f"(deletionVector is not null and {_has_many_deletes_sql()}) as has_deletes",
    )
    packed_file = "struct(greatest(size, 0L) as size, has_vector)"
    by_partition = aggregated(
        sizes,
        ["texts"],
        F.expr("count(1) as files"),
        F.expr(f"count_if(size < {target}L) as small_files"),
        F.expr(f"{long_sum_sql(f'if(size < {target}L, size, 0L)')} as small_bytes"),
        F.expr("count_if(has_deletes) as files_with_deletes"),
        F.expr(f"collect_list(if(size < {target}L or has_deletes, {packed_file}, null)) as eligible"),
    )
    packed = by_partition.withColumn("packed", F.expr(_packed_sql("eligible", target)))
    return (
        packed.where("packed.rewritten_files > 0")
        .selectExpr(
            "texts",
            "files",
            "small_files",
            "small_bytes",
            "files_with_deletes",
            "packed.rewritten_files",
            "packed.rewritten_bytes",
            "files - packed.rewritten_files + packed.bins as files_after",
            f"{_statement_sql(table)} as statement",
        )
        .orderBy(F.expr("files_after - files"), F.desc("rewritten_bytes"), "statement")
    )


def _has_many_deletes(deleted: int | None, records: int | None) -> bool:
    """Return whether a file has enough deleted rows to be eligible. None: not stated."""
    return records is None or (records != 0 and (deleted or 0) / records > MAX_DELETED_RATIO)


def _has_many_deletes_sql() -> str:
    records = num_records_sql("stats")
    ratio = f"try_divide(deletionVector.cardinality, {records})"
    return f"({records} is null or coalesce({ratio}, 0D) > {MAX_DELETED_RATIO}D)"


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


def _packed_sql(files: str, target: int) -> str:
    """Return SQL for a struct of the same longs: rewritten_files, rewritten_bytes, bins. files: of size, has_vector."""
    is_rewritten = "d.n > 1 or (d.n = 1 and d.has_vector)"
    closed = (
        f"d.rewritten_files + if({is_rewritten}, d.n, 0L) as rewritten_files, "
        f"try_add(d.rewritten_bytes, if({is_rewritten}, d.filled, 0L)) as rewritten_bytes, "
        f"d.bins + if({is_rewritten}, 1L, 0L) as bins"
    )
    start = "0L as filled, 0L as n, false as has_vector, 0L as rewritten_files, 0L as rewritten_bytes, 0L as bins"
    begin = f"struct(f.size as filled, 1L as n, f.has_vector as has_vector, {closed})"
    put = (
        "struct(d.filled + f.size as filled, d.n + 1L as n, d.n = 0 and f.has_vector as has_vector, "
        "d.rewritten_files, d.rewritten_bytes, d.bins)"
    )
    step = f"if(f.size > {target}L - d.filled, {begin}, {put})"
    return f"aggregate(sort_array({files}), struct({start}), (d, f) -> {step}, d -> struct({closed}))"


def _start(table: ScannedTable) -> str | None:
    """Return the begin of the statement; None: Spark would replace a part of the path, or of a column's name."""
    path = redacted(table.table_path).removeprefix("file://").replace("`", "``")
    names = (column.name for column in table.columns.partition)
    return None if any("${" in name for name in (path, *names)) else f"OPTIMIZE delta.`{path}`"


def _cast(column: TableColumn) -> tuple[str, str] | None:
    """Return the SQL before and after a text in a literal of a column's type; None: the type has no literal."""
    if column.data_type in ("string", "collated"):
        return "'", "'"
    if column.data_type == "binary" or partition_value(column) is None:
        return None
    return "cast('", f"' as {sql_type(column.data_type)})"


def _statement(table: ScannedTable, texts: Sequence[str | None]) -> str | None:
    """Return the statement that compacts a partition; None: a value has no SQL literal, or as `_start`."""
    if (start := _start(table)) is None:
        return None
    conditions = []
    for column, text in zip(table.columns.partition, texts, strict=True):
        name, around = quoted(column.name), _cast(column)
        if text is None:
            conditions.append(f"{name} IS NULL")
        elif around is None:
            return None
        else:
            escaped = reduce(lambda escaped, each: escaped.replace(*each), _ESCAPES, text)
            conditions.append(f"{name} = {around[0]}{escaped}{around[1]}")
    return f"{start} WHERE {' AND '.join(conditions)}" if conditions else start


def _statement_sql(table: ScannedTable) -> str:
    """Return SQL for the same statement, from the texts t0, t1, ..."""
    if (start := _start(table)) is None:
        return "cast(null as string)"
    parts = [string_sql(start)]
    for number, column in enumerate(table.columns.partition):
        name, around, text = quoted(column.name), _cast(column), f"texts.t{number}"
        value = "cast(null as string)"
        if around is not None:
            escaped = text
            for old, new in _ESCAPES:
                escaped = f"replace({escaped}, {string_sql(old)}, {string_sql(new)})"
            value = f"concat({string_sql(f'{name} = {around[0]}')}, {escaped}, {string_sql(around[1])})"
        is_null = f"when {text} is null then {string_sql(f'{name} IS NULL')}"
        parts += [string_sql(" AND " if number else " WHERE "), f"case {is_null} else {value} end"]
    return f"concat({', '.join(parts)})"
