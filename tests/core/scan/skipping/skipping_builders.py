"""Builders for the tests of skipping."""

from __future__ import annotations

import json
from typing import Any

from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.scan.table_columns import TableColumns
from tests.builders import field

FIELDS = [
    field("id", "long"),
    field("x", "double"),
    field("name", "string"),
    field("at", "timestamp"),
    field("wall", "timestamp_ntz"),
    field("on_day", "date"),
    field("price", "decimal(10,2)"),
    field("huge", "decimal(20,2)"),
    field("flag", "boolean"),
    field("raw", "binary"),
    field("widened", "double", **{"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}),
    field("s", {"type": "struct", "fields": [field("a", "integer"), field("b.c", "string")]}),
    field("must", {"type": "struct", "fields": [field("a", "integer")]}, nullable=False),
    field("items", {"type": "array", "elementType": "integer", "containsNull": True}),
    field("single", "float"),
    field("day", "date"),
    field("region", "string"),
]


def columns(fields: list[dict[str, Any]] = FIELDS, **metadata: Any) -> TableColumns:
    schema = json.dumps({"type": "struct", "fields": fields})
    return TableColumns(Metadata(id="t", schema_string=schema, partition_columns=("day", "region"), **metadata))
