"""The schema of a table as readable rows: each nested field has its own row, partition columns are marked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import dagster as dg
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from deltasnap_assets.texts import visible
from deltasnap_core import Metadata, SnapshotState
from deltasnap_core.support import PHYSICAL_NAME, parse_schema

MAX_COLUMNS = 1000

_CLUSTERING = "delta.clustering"
_SETTINGS = (
    "CURRENT_DEFAULT",
    "__CHAR_VARCHAR_TYPE_STRING",
    "delta.generationExpression",
    "delta.identity.allowExplicitInsert",
    "delta.identity.start",
    "delta.identity.step",
    "delta.invariants",
)
"""The keys in the metadata of a field that decide which values writers store. `highWaterMark` changes with each insert.

Source: PROTOCOL.md, Default Columns; Generated Columns; Identity Columns; Column Invariants.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column, or a nested field.

    name: `address.city`, `items[].price`; `labels{}.text` and `labels{key}.text` for the values and the keys of a map.
    path: identifies it: the names of the columns and fields that lead to it, `[]`, `{}` and `{key}`.
    items: whether elements of arrays (`[]`) and values of maps (`{}`) may be null, by their name below the column.
    settings: its `_SETTINGS`.
    """

    name: str
    type: str
    nullable: bool
    comment: str | None
    is_partition: bool = False
    path: tuple[str, ...] = field(default=(), compare=False)
    items: Mapping[str, bool] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)


def clustering_columns(state: SnapshotState) -> tuple[str, ...]:
    """Return the names of the clustering columns of a version; empty: it has none. The log has their physical names.

    Errors: ValueError for a domain that is not as Delta writes it; the errors of parsing the schema.
    Source: PROTOCOL.md, Clustered Table.
    """
    domains = {domain.domain: domain.configuration for domain in state.domain_metadata}
    if state.metadata is None or _CLUSTERING not in domains:
        return ()
    names = {column.path: column.name for column in columns_of(state.metadata, is_mapped=True)}
    try:
        paths = [tuple(map(str, path)) for path in json.loads(domains[_CLUSTERING])["clusteringColumns"]]
    except (LookupError, TypeError) as error:
        raise ValueError(f"{_CLUSTERING}: expected lists of names in clusteringColumns") from error
    return tuple(names.get(path, ".".join(path)) for path in paths)


def columns_of(metadata: Metadata, *, is_mapped: bool = False) -> tuple[Column, ...]:
    """Return the columns of a table, each followed by its nested fields. Errors: the errors of parsing the schema.

    is_mapped: whether paths have physical names, which stay the same when a column is renamed.
    """
    return _columns(metadata.schema_string, metadata.partition_columns, is_mapped)


@lru_cache(maxsize=4)  # each page and check of a run shows or compares them
def _columns(schema_string: str | None, partitioned_by: tuple[str, ...], is_mapped: bool) -> tuple[Column, ...]:
    partition_columns = {name.casefold() for name in partitioned_by}
    return tuple(
        replace(column, is_partition=len(column.path) == 1 and column.name.casefold() in partition_columns)
        for column in _fields_in(parse_schema(schema_string), "", (), is_mapped)
    )


def table_schema(metadata: Metadata) -> dg.TableSchemaMetadataValue:
    """Return the columns of a table as Dagster's table schema."""
    return dg.MetadataValue.table_schema(
        dg.TableSchema(columns=[_shown(column) for column in columns_of(metadata)[:MAX_COLUMNS]])
    )


def _shown(column: Column) -> dg.TableColumn:
    marks = ["partition column"] if column.is_partition else []
    return dg.TableColumn(
        name=visible(column.name),
        type=visible(column.type),
        description=None if column.comment is None else visible(column.comment),
        constraints=dg.TableColumnConstraints(nullable=column.nullable, other=marks),
    )


def _fields_in(kind: DataType, name: str, path: tuple[str, ...], is_mapped: bool) -> Iterator[Column]:
    """Yield the fields inside a type, each followed by its own. name, path: of the column with this type."""
    match kind:
        case StructType():
            for each in kind.fields:
                metadata = each.metadata or {}
                column = Column(
                    name=f"{name}.{each.name}" if path else each.name,
                    type=_type_text(each.dataType),
                    nullable=each.nullable,
                    comment=metadata.get("comment"),
                    path=(*path, metadata.get(PHYSICAL_NAME, each.name) if is_mapped else each.name),
                    items=dict(_items_in(each.dataType)),
                    settings={key: str(metadata[key]) for key in _SETTINGS if key in metadata},
                )
                yield column
                yield from _fields_in(each.dataType, column.name, column.path, is_mapped)
        case ArrayType():
            yield from _fields_in(kind.elementType, f"{name}[]", (*path, "[]"), is_mapped)
        case MapType():
            yield from _fields_in(kind.keyType, f"{name}{{key}}", (*path, "{key}"), is_mapped)
            yield from _fields_in(kind.valueType, f"{name}{{}}", (*path, "{}"), is_mapped)


def _items_in(kind: DataType, name: str = "") -> Iterator[tuple[str, bool]]:
    """Yield the names of the items of a type, and whether they may be null. Fields of structs have their own."""
    match kind:
        case ArrayType():
            yield f"{name}[]", kind.containsNull
            yield from _items_in(kind.elementType, f"{name}[]")
        case MapType():
            yield from _items_in(kind.keyType, f"{name}{{key}}")
            yield f"{name}{{}}", kind.valueContainsNull
            yield from _items_in(kind.valueType, f"{name}{{}}")


def _type_text(kind: DataType) -> str:
    """Return the type without its nested fields, which have their own rows."""
    match kind:
        case StructType():
            return "struct"
        case ArrayType():
            return f"array<{_type_text(kind.elementType)}>"
        case MapType():
            return f"map<{_type_text(kind.keyType)}, {_type_text(kind.valueType)}>"
        case _:
            return kind.simpleString()
