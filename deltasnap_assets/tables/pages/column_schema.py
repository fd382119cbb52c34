"""The schema of a table as readable rows: each nested field has its own row, partition columns are marked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import dagster as dg
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from deltasnap_assets.texts import visible
from deltasnap_core import PHYSICAL_NAME, Metadata, parse_schema

MAX_COLUMNS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column, or a nested field. name: `address.city`, `items[].price`, `labels{}.text` for the values of a map.

    physical_name: stays the same when the column is renamed; equal to the name without column mapping.
    """

    name: str
    type: str
    nullable: bool
    comment: str | None
    is_partition: bool = False
    physical_name: str = field(default="", compare=False)


def columns_of(metadata: Metadata) -> tuple[Column, ...]:
    """Return the columns of a table, each followed by its nested fields. Errors: the errors of parsing the schema."""
    return _columns(metadata.schema_string, metadata.partition_columns)


@lru_cache(maxsize=4)  # each page and check of a run shows or compares them
def _columns(schema_string: str | None, partitioned_by: tuple[str, ...]) -> tuple[Column, ...]:
    partition_columns = {name.casefold() for name in partitioned_by}
    schema = parse_schema(schema_string)
    return tuple(
        column
        for each in schema.fields
        for column in _with_nested(each, ("", ""), is_partition=each.name.casefold() in partition_columns)
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


def _with_nested(given: StructField, prefixes: tuple[str, str], *, is_partition: bool = False) -> Iterator[Column]:
    """Yield a column and its nested fields. prefixes: of its name and of its physical name."""
    metadata = given.metadata or {}
    name, physical_name = f"{prefixes[0]}{given.name}", f"{prefixes[1]}{metadata.get(PHYSICAL_NAME, given.name)}"
    yield Column(
        name=name,
        type=_type_text(given.dataType),
        nullable=given.nullable,
        comment=metadata.get("comment"),
        is_partition=is_partition,
        physical_name=physical_name,
    )
    yield from _fields_in(given.dataType, (name, physical_name))


def _fields_in(kind: DataType, names: tuple[str, str]) -> Iterator[Column]:
    name, physical_name = names
    match kind:
        case StructType():
            for each in kind.fields:
                yield from _with_nested(each, (f"{name}.", f"{physical_name}."))
        case ArrayType():
            yield from _fields_in(kind.elementType, (f"{name}[]", f"{physical_name}[]"))
        case MapType():
            yield from _fields_in(kind.valueType, (f"{name}{{}}", f"{physical_name}{{}}"))


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
