"""The types of the parsed columns of a checkpoint, `stats_parsed` and `partitionValues_parsed`, as SQL.

Source: PROTOCOL.md, Checkpoint Schema; Per-file Statistics. Delta's `StatisticsCollection.statsSchema`.
"""

from __future__ import annotations

from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.properties.table_config import num_indexed_cols, stats_columns
from deltasnap_core.protocol.table_features import has_feature
from deltasnap_core.rules.sql_text import sql_type, string_sql
from deltasnap_core.rules.statistics_schema import struct_type
from deltasnap_core.scan.skipping.partition_values import partition_value
from deltasnap_core.scan.table_columns import TableColumn, TableColumns

_ORDERED = {"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}


def statistics_type(metadata: Metadata, protocol: Protocol) -> str:
    """Return the SQL type of `stats_parsed`: number of records, bounds and null counts of the indexed columns.

    Column names are those in data files. Bounds exist for numbers, dates, timestamps and strings; null counts for all
    columns. `tightBounds` exists if the table supports deletion vectors.
    """
    columns = _indexed(metadata)
    ordered = {column.physical_path: sql_type(column.data_type) for column in columns if _is_ordered(column)}
    counted = {column.physical_path: "bigint" for column in columns}
    fields = ["numRecords: bigint"]
    if ordered:
        fields += [f"minValues: {struct_type(ordered)}", f"maxValues: {struct_type(ordered)}"]
    if counted:
        fields.append(f"nullCount: {struct_type(counted)}")
    if has_feature(protocol, "deletionVectors"):
        fields.append("tightBounds: boolean")
    return f"struct<{', '.join(fields)}>"


def partition_values(metadata: Metadata) -> tuple[tuple[str, str], ...]:
    """Return the name and the SQL value, over `add`, of each field of `partitionValues_parsed`, in partition order.

    Names are those in data files. An empty or invalid text becomes null.
    """
    found = []
    for column in TableColumns(metadata).partition:
        value = partition_value(column, f"add.partitionValues[{string_sql(column.physical_path[0])}]")
        if value is not None:
            found.append((column.physical_path[0], value))
    return tuple(found)


def _indexed(metadata: Metadata) -> list[TableColumn]:
    columns = TableColumns(metadata)
    partition = {column.path for column in columns.partition}
    leaves = [leaf for leaf in columns.leaves if leaf.path not in partition]
    named = stats_columns(metadata.configuration)
    if named is not None:
        wanted = [tuple(name.lower() for name in path) for path in named]
        return [leaf for leaf in leaves if any(_starts_with(leaf, path) for path in wanted)]
    most = num_indexed_cols(metadata.configuration)
    return leaves if most < 0 else leaves[:most]


def _starts_with(leaf: TableColumn, path: tuple[str, ...]) -> bool:
    return tuple(name.lower() for name in leaf.path[: len(path)]) == path


def _is_ordered(column: TableColumn) -> bool:
    return column.data_type in _ORDERED or column.data_type.startswith("decimal(")
