"""Groups the rows of DataFrames."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, functions as F

_IS_KEPT = "spark.sql.retainGroupColumns"
_GROUP = "__deltasnap_group"


def aggregated(rows: DataFrame, by: Sequence[str | Column], *values: Column) -> DataFrame:
    """Return a row for each group: the columns to group by, then the aggregates, whatever the session omits."""
    columns = [F.col(each) if isinstance(each, str) else each for each in by]
    if str(rows.sparkSession.conf.get(_IS_KEPT, "true")).lower() == "true":
        return rows.groupBy(*columns).agg(*values)
    names = [f"{_GROUP}{number}" for number in range(len(columns))]  # a server may keep them all the same
    groups = rows.groupBy(*(column.alias(name) for column, name in zip(columns, names, strict=True)))
    return groups.agg(*columns, *values).drop(*names)
