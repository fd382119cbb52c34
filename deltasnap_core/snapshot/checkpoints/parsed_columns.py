"""The types of the parsed columns of a checkpoint, `stats_parsed` and `partitionValues_parsed`, as SQL.

Source: PROTOCOL.md, Checkpoint Schema; Per-file Statistics. Delta's `StatisticsCollection.statsSchema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltasnap_core.protocol.actions import Metadata, Protocol
from deltasnap_core.protocol.properties.table_config import num_indexed_cols, stats_columns
from deltasnap_core.rules.texts.sql_text import let_sql, quoted, sql_type, string_sql
from deltasnap_core.rules.texts.statistics_schema import bound_sql, is_cut_character_sql, struct_type
from deltasnap_core.rules.texts.whole_json import whole_statistics_sql
from deltasnap_core.scan.skipping.partition_values import partition_value
from deltasnap_core.scan.table_columns import TableColumn, TableColumns

Leaf = tuple[tuple[str, ...], str]
"""The path of a field that is no struct, and its type."""

_BOUNDS = ("minValues", "maxValues")
_ORDERED = {"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}


def statistics_type(metadata: Metadata, protocol: Protocol) -> str:
    """Return the SQL type for reading `add.stats`: number of records, bounds and null counts of the indexed columns.

    Column names are those in data files. Bounds, as text, exist for numbers, dates, timestamps and strings, except for
    a double that was a float; null counts for all columns. `tightBounds` exists if the table supports deletion vectors.
    """
    leaves = _statistics(metadata, protocol)
    return struct_type({path: "string" if path[0] in _BOUNDS else sql_type(kind) for path, kind in leaves})


def statistics_sql(metadata: Metadata, protocol: Protocol) -> str:
    """Return SQL over `add` for `stats_parsed`. A bound that a scan ignores is null."""
    parsed = whole_statistics_sql("add.stats", statistics_type(metadata, protocol))
    return let_sql("s", parsed, _typed("s", _statistics(metadata, protocol)))


def partition_values(metadata: Metadata) -> tuple[tuple[str, str], ...]:
    """Return the name and the SQL value, over `add`, of each field of `partitionValues_parsed`, in partition order.

    Names are those in data files. An empty or invalid text becomes null.
    """
    found = []
    for column in TableColumns(metadata).partition:
        value = partition_value(column, f"add.partitionValues[{string_sql(column.physical_name)}]")
        if value is not None:
            found.append((column.physical_name, value))
    return tuple(found)


def _statistics(metadata: Metadata, protocol: Protocol) -> list[Leaf]:
    columns = _indexed(metadata)
    ordered = [(column.physical_path, column.data_type) for column in columns if _is_ordered(column)]
    bounds = [((kind, *path), data_type) for kind in _BOUNDS for path, data_type in ordered]
    counts = [(("nullCount", *column.physical_path), "long") for column in columns]
    tight = [(("tightBounds",), "boolean")] if "deletionVectors" in protocol.features else []
    return [(("numRecords",), "long"), *bounds, *counts, *tight]


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
    return not column.was_float and (column.data_type in _ORDERED or column.data_type.startswith("decimal("))


def _typed(value: str, leaves: Iterable[Leaf], kind_above: str | None = None) -> str:
    """Return SQL for a struct with parsed bounds.

    value: SQL for the struct with bounds as text. kind_above: the first name that leads to it; None: the whole struct.
    """
    fields = []
    for name, kind, below in _fields(leaves):
        field = f"{value}.{quoted(name)}"
        if kind is None:
            field = _typed(field, below, kind_above or name)
        elif kind_above in _BOUNDS:
            bound = bound_sql(field, kind, kind_above) or "null"
            # Other readers would use it as it is.
            field = f"if({is_cut_character_sql(field)}, null, {bound})" if kind == "string" else bound
        fields.append(f"{field} as {quoted(name)}")
    return f"if({value} is null, null, struct({', '.join(fields)}))"


def _fields(leaves: Iterable[Leaf]) -> Iterator[tuple[str, str | None, list[Leaf]]]:
    """Yield name, type (None: a struct) and the leaves below of each field."""
    inside: dict[str, list[Leaf]] = {}
    for (name, *rest), kind in leaves:
        inside.setdefault(name, []).append((tuple(rest), kind))
    for name, below in inside.items():
        path, kind = below[0]
        yield name, None if path else kind, below
