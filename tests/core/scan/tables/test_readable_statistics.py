"""The statistics of files as a struct by column, in SQL: which fields they come from. Without Spark."""

from __future__ import annotations

import json

import sqlglot
from sqlglot import exp

from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.scan.table_columns import TableColumns
from deltasnap_core.scan.tables.readable_statistics import ReadableStatistics

PHYSICAL = "delta.columnMapping.physicalName"
INNER = {"name": "b", "type": "string", "nullable": True, "metadata": {PHYSICAL: "col-b"}}
FIELDS = [
    {"name": "id", "type": "long", "nullable": True, "metadata": {PHYSICAL: "col-id"}},
    {"name": "a", "type": {"type": "struct", "fields": [INNER]}, "nullable": True, "metadata": {PHYSICAL: "col-a"}},
    {"name": "flag", "type": "boolean", "nullable": True, "metadata": {PHYSICAL: "col-flag"}},
]
NAMES = {"delta.columnMapping.mode": "name"}


def fields() -> dict[str, dict[str, set[str]]]:
    """Return, by column and field, the statistics that its SQL reads."""
    schema = json.dumps({"type": "struct", "fields": FIELDS})
    columns = TableColumns(Metadata(id="t", schema_string=schema, partition_columns=(), configuration=NAMES)).leaves
    sql = ReadableStatistics(columns=list(columns)).values.partition(", s -> ")[2].rpartition("), 0)")[0]
    whole = sqlglot.parse_one(sql, read="spark")
    return {
        column.this.name: {field.this.name: statistics_in(field.expression) for field in column.expression.expressions}
        for column in whole.expressions
    }


def statistics_in(node: exp.Expression) -> set[str]:
    return {".".join(part.name for part in column.parts) for column in node.find_all(exp.Column)}


def test_each_column_has_its_own_statistics_by_their_names_in_data_files() -> None:
    assert fields() == {
        name: {
            "min": {f"s.minValues.{path}"},
            "max": {f"s.maxValues.{path}"},
            "null_count": {f"s.nullCount.{path}"},
        }
        for name, path in {"id": "col-id", "a.b": "col-a.col-b", "flag": "col-flag"}.items()
    }
