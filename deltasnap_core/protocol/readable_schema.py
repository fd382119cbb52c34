"""Checks whether the rows of a table can be read with its schema."""

from __future__ import annotations

from deltasnap_core.protocol.actions import Metadata
from deltasnap_core.protocol.properties.table_config import check_column_mapping_mode
from deltasnap_core.protocol.schema_text import schema_fields


def check_schema(metadata: Metadata) -> None:
    """Raise ValueError unless rows can be read: types at all levels, partition columns in the schema, column mapping.

    Source: PROTOCOL.md, Schema Serialization Format; Change Metadata; Column Mapping.
    """
    names = {field["name"].lower() for field in schema_fields(metadata.schema_string)}
    for column in metadata.partition_columns:
        if metadata.schema_string is not None and column.lower() not in names:
            raise ValueError(f"metaData.partitionColumns: expected columns of the schema, found {column!r:.80}")
    check_column_mapping_mode(metadata.configuration)
