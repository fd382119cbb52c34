"""Selects files by their partition values and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, functions as F

from deltasnap_core.redaction import safe_repr
from deltasnap_core.replay.spark.reading.action_reader import PARSED
from deltasnap_core.replay.spark.session.spark_failures import SPARK_FAILURES, is_about_files
from deltasnap_core.rules.texts.sql_text import exact_sum_sql, let_sql
from deltasnap_core.rules.texts.whole_json import whole_statistics_sql
from deltasnap_core.rules.totals.num_records import num_records_sql, possible_records_sql
from deltasnap_core.scan.skipping.data_skipping import Skipping
from deltasnap_core.scan.skipping.partition_values import is_malformed, is_misspelled
from deltasnap_core.scan.table_columns import TableColumns


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ScanReport:
    """The effect of a predicate on the files of a table.

    files, bytes_in_files: of the version.
    ..._after_partitions:  what remains after the partition values are checked.
    ..._after_statistics:  what remains after the statistics are checked too; these files are read.
    used, unused: the conditions of the predicate that select files, and those that only select rows.
    """

    files: int
    bytes_in_files: int
    files_after_partitions: int
    bytes_after_partitions: int
    files_after_statistics: int
    bytes_after_statistics: int
    used: tuple[str, ...]
    unused: tuple[str, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.files_after_statistics} of {self.files} files, "
            f"{self.bytes_after_statistics} of {self.bytes_in_files} bytes "
            f"({self.files_after_partitions} files after partitions)",
            *(f"selects files: {text}" for text in self.used),
            *(f"selects rows only: {text}" for text in self.unused),
        ]
        return "\n".join(lines)


@safe_repr
@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionReport:
    """The effect that one condition of a predicate has on the files of a version, without the other conditions.

    text:      the condition, as the caller wrote it.
    files:     the files of the version.
    skipped:   the files that cannot contain a matching row; None: the condition only selects rows.
    undecided: the other files whose statistics do not decide the condition: they are missing, or cannot be used.
    """

    text: str
    files: int
    skipped: int | None = None
    undecided: int = 0

    @property
    def reason(self) -> str | None:
        """Why it skips no file; None: it skips some, or there is none."""
        if self.skipped is None:
            return "partition values and statistics cannot decide it"
        if self.skipped or not self.files:
            return None
        if self.undecided == self.files:
            return "no file has statistics that decide it"
        others = (
            "" if not self.undecided else f"; {self.undecided:,} of {self.files:,} have no statistics that decide it"
        )
        return f"by partition values and statistics, every file may contain matching rows{others}"


def chosen_files(files: DataFrame, skipping: Skipping) -> DataFrame:
    """Return the files that may contain rows for which the predicate is true.

    files: the columns of AddFile, and PARSED if the replay read `skipping.statistics_read` as values.
    """
    condition = condition_on_files(skipping, parsed=PARSED in files.columns)
    return files if condition is None else files.where(condition)


def can_evaluate(files: DataFrame, skipping: Skipping) -> bool:
    """Return whether Spark can evaluate the condition on the partition values of every file; one Spark job."""
    try:
        files.agg(F.expr(f"count_if({_by_partitions(skipping)})")).collect()
    except SPARK_FAILURES as error:
        if is_about_files(error):
            raise
        return False
    return True


def condition_on_files(skipping: Skipping, *, parsed: bool) -> str | None:
    """Return the condition as SQL over the columns of AddFile (and PARSED), never null; None: keep every file."""
    conditions = [found for found in (_by_partitions(skipping), _by_statistics(skipping, parsed)) if found]
    return " and ".join(conditions) or None


def report_of(files: DataFrame, skipping: Skipping, totals: tuple[int, int] | None) -> ScanReport:
    """Return the effect of a predicate on files; one Spark job.

    totals: the numbers of files and bytes, if known: then only files that may match are examined. If the predicate uses
            no partition values, `files` may lack some files.
    """
    by_partitions = _by_partitions(skipping) or "true"
    by_statistics = _by_statistics(skipping, parsed=PARSED in files.columns) or "true"
    if totals is not None:
        files, by_partitions = files.where(by_partitions), "true"
    tested = files.selectExpr("size", f"{by_partitions} as in_partitions", f"{by_statistics} as in_statistics")
    kept = "in_partitions and in_statistics"
    (row,) = tested.agg(
        F.count(F.lit(1)).alias("files"),
        F.expr(exact_sum_sql("size")).alias("bytes_in_files"),
        F.expr("count_if(in_partitions)").alias("files_after_partitions"),
        F.expr(exact_sum_sql("if(in_partitions, size, 0)")).alias("bytes_after_partitions"),
        F.expr(f"count_if({kept})").alias("files_after_statistics"),
        F.expr(exact_sum_sql(f"if({kept}, size, 0)")).alias("bytes_after_statistics"),
    ).collect()
    numbers = {name: int(number) for name, number in row.asDict().items()}  # of decimals
    found = ScanReport(**numbers, used=skipping.used, unused=skipping.unused)
    if totals is None:
        return found
    if skipping.partitions is None:
        found = replace(found, files_after_partitions=totals[0], bytes_after_partitions=totals[1])
    return replace(found, files=totals[0], bytes_in_files=totals[1])


def condition_reports(files: DataFrame, parts: Mapping[str, Skipping | None]) -> tuple[ConditionReport, ...]:
    """Return the effect of each condition of a predicate; one Spark job.

    files: with the columns of AddFile. parts: by condition, its own file conditions; None: it only selects rows.
    """
    tests = [_undecided_or(part) for part in parts.values() if part is not None]
    tested = files.selectExpr("true", *(f"{test} as t{number}" for number, test in enumerate(tests)))
    counts = [(f"count_if(not t{number})", f"count_if(t{number} is null)") for number in range(len(tests))]
    (row,) = tested.agg(F.count(F.lit(1)), *(F.expr(each) for pair in counts for each in pair)).collect()
    total, *numbers = map(int, row)
    found = iter(zip(numbers[::2], numbers[1::2], strict=True))
    reports = []
    for text, part in parts.items():
        skipped, undecided = (None, 0) if part is None else next(found)
        reports.append(ConditionReport(text=text, files=total, skipped=skipped, undecided=undecided))
    return tuple(reports)


def _undecided_or(skipping: Skipping) -> str:
    """Return SQL for whether a file may contain a matching row; null: its statistics do not decide it."""
    by_partitions, by_statistics = _by_partitions(skipping) or "true", skipping.statistics or "true"
    if skipping.schema is None:
        return f"({by_partitions} and {by_statistics})"
    return f"({by_partitions} and {let_sql('s', whole_statistics_sql('stats', skipping.schema), by_statistics)})"


def stated_count(files: DataFrame, columns: TableColumns) -> int | None:
    """Return the number of rows of files as the log states it; one Spark job.

    None: unknown for some file, or not possible: reading the file may raise an error.
    """
    tests = [*map(is_misspelled, columns.partition), *map(is_malformed, columns.partition)]
    stated = files.selectExpr(
        f"{num_records_sql('stats')} as records",
        "if(deletionVector is null, 0L, deletionVector.cardinality) as deleted",
        f"{' or '.join(test for test in tests if test is not None) or 'false'} as is_wrong",
    )
    (row,) = stated.agg(
        F.expr(f"count_if(is_wrong or {possible_records_sql('records', 'deleted')} is null) as unstated"),
        F.expr(f"{exact_sum_sql('records - deleted')} as count"),
    ).collect()
    return None if row["unstated"] else int(row["count"])


def _by_partitions(skipping: Skipping) -> str | None:
    return None if skipping.partitions is None else f"coalesce({skipping.partitions}, true)"


def _by_statistics(skipping: Skipping, parsed: bool) -> str | None:
    """Return the condition on the statistics. The lambda is needed so that the JSON is parsed only once."""
    if skipping.statistics is None:
        return None
    if skipping.schema is None:
        return f"coalesce({skipping.statistics}, true)"
    # Invalid JSON, or JSON of another structure, becomes null: the file is kept.
    statistics = whole_statistics_sql("stats", skipping.schema)
    if parsed:
        statistics = f"coalesce({PARSED}, {statistics})"
    # A legacy setting of the session makes `exists` false where the condition is null: the file would be lost.
    return f"exists(array({statistics}), s -> coalesce({skipping.statistics}, true))"
