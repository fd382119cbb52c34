"""Skips files of row changes whose partition values show that they have no requested rows."""

from __future__ import annotations

import pyarrow as pa

from deltasnap_core.replay.spark.session.local_rows import arrow_rows
from deltasnap_core.scan.changes.changed_rows import ChangedRows
from deltasnap_core.scan.predicate_analysis import checked_skipping
from deltasnap_core.scan.scanned_table import ScannedTable


def rows_in_partitions(table: ScannedTable, rows: list[ChangedRows], where: str) -> list[ChangedRows]:
    """Return the rows whose partition values do not rule out a condition; at most one Spark job.

    table: with the columns that the condition may use, and the partition columns of the files.
    Errors: PredicateError.
    """
    if not table.metadata.partition_columns:
        return rows
    checked = checked_skipping(table, where)
    skipping = checked.sure or checked
    if skipping.partitions is None:
        return rows
    values = [list((each.partition_values or {}).items()) for each in rows]
    numbered = {
        "number": pa.array(range(len(rows)), pa.int64()),
        "partitionValues": pa.array(values, pa.map_(pa.string(), pa.string())),
    }
    files = arrow_rows(table.spark, pa.table(numbered))
    found = files.where(f"coalesce({skipping.partitions}, true)").select("number").toArrow()
    return [rows[number] for number in sorted(found["number"].to_pylist())]
