"""FileBreakdown in Spark: one pass over the reconciled files. Counterpart: `replay/driver/file_breakdowns.py`."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from deltasnap_core.protocol.properties.retention import Retention
from deltasnap_core.replay.spark.reading.action_reader import MEASURED_ADD, MEASURED_REMOVE
from deltasnap_core.replay.spark.reading.file_action_layout import FULL
from deltasnap_core.replay.spark.reading.schemas import ADD, REMOVE
from deltasnap_core.replay.spark.session.grouping import aggregated
from deltasnap_core.rules.totals.aggregates import sums_sql
from deltasnap_core.rules.totals.file_breakdown import (
    BREAKDOWN_MEASURES,
    BREAKDOWN_SUMS,
    MAX_PARTITIONS,
    MAX_RANKED_FILES,
    MAX_TIMES,
    FileBreakdown,
    FileGroup,
    SizedFile,
    bin_grouping_sql,
)
from deltasnap_core.rules.totals.measures import MEASURES

BREAKDOWN_FILE_ACTIONS = StructType(
    [
        StructField("add", StructType([*MEASURED_ADD, ADD["partitionValues"]])),
        StructField("remove", StructType([*MEASURED_REMOVE, REMOVE["size"]])),
    ]
)
"""The fields of file actions that the measures and a breakdown need."""

_MAX_GROUPS = 50_000
_NEEDED = ("size", "deleted_at")


def breakdown_measures_sql() -> list[str]:
    """Return the columns of BREAKDOWN_MEASURES, as SQL over FULL."""
    return [f"{sql} as {name}" for name, sql in BREAKDOWN_MEASURES.items()]


def file_breakdown(files: DataFrame | None, retention: Retention) -> FileBreakdown:
    """Return the breakdown of some files, from two scans.

    files: reconciled file actions (FULL, with the fields of BREAKDOWN_FILE_ACTIONS); None: no files.
    """
    if files is None:
        return FileBreakdown.of(())
    columns = [*(f"{MEASURES[name]} as {name}" for name in _NEEDED), *breakdown_measures_sql()]
    rows = FULL.unexpired(files, retention).selectExpr(*columns)
    live = rows.where("deleted_at is null").select("file_path", "size")
    first = MAX_RANKED_FILES + 1
    largest = live.orderBy(F.desc("size"), "file_path").limit(first).withColumn("is_largest", F.lit(True))
    smallest = live.orderBy("size", "file_path").limit(first).withColumn("is_largest", F.lit(False))
    named: dict[bool, list[SizedFile]] = {True: [], False: []}
    for row in largest.union(smallest).collect():
        named[row.is_largest].append((row.file_path, row.size))
    grouped = rows.selectExpr(*bin_grouping_sql(), "size", "removed_size", "deleted_at")
    together = _groups(_summed(grouped, "size_bin", "partition", "removed_at").limit(_MAX_GROUPS + 1))
    if len(together) <= _MAX_GROUPS:
        return FileBreakdown.of_groups(together, largest=named[True], smallest=named[False])
    files_only, gone = grouped.where("removed_at is null"), grouped.where("removed_at is not null")
    by_partition = _summed(files_only, "partition").orderBy(F.expr("high_bytes * 4294967296d + low_bytes").desc())
    partitions = _groups(by_partition.limit(MAX_PARTITIONS + 1))
    has_all = len(partitions) <= MAX_PARTITIONS
    return FileBreakdown.of_groups(
        [*_groups(_summed(files_only, "size_bin")), *_groups(_summed(gone, "removed_at").limit(MAX_TIMES + 1))],
        partitions=partitions,
        num_partitions=None if has_all else _num_partitions(files_only),
        largest=named[True],
        smallest=named[False],
    )


def _num_partitions(files: DataFrame) -> int:
    # No values and no map are one partition, as in `partition_of`.
    return files.selectExpr("coalesce(partition, array()) as partition").distinct().count()


def _summed(rows: DataFrame, *by: str) -> DataFrame:
    return aggregated(rows, by, F.expr("sum(1) as rows"), *map(F.expr, sums_sql(summed=BREAKDOWN_SUMS)))


def _groups(rows: DataFrame) -> list[FileGroup]:
    return [FileGroup.of_row(row.asDict()) for row in rows.collect()]
